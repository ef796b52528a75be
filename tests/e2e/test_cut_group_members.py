"""A member of a group whose connections are cut again and again."""

from support.loopback import until
from tidelog.client import Client
from tidelog.client.group_consumer import GroupConsumer
from tidelog.testing import Cluster

CUTS = 3


def test_a_member_keeps_its_partitions_though_every_connection_is_cut_after_each_heartbeat():
    """It connects again when it has something to say: with its next heartbeat, a second later."""

    async def begin(_topic: str, _index: int, _known: int | None) -> int:
        return 0

    async def story(client: Client) -> None:
        async with GroupConsumer(client, "readers", ["orders"], begin) as consumer:
            while not consumer.positions:
                await consumer.read(max_wait_ms=10)
            member = (consumer.member_id, consumer.generation)
            for _ in range(CUTS):
                client.links.close()
                await until(lambda: client.links._peers)
            assert await consumer.commit({("orders", 0): 0}), "others read its partitions"
            assert (consumer.member_id, consumer.generation) == member

    with Cluster(brokers=1) as cluster:
        cluster.topic("orders")
        cluster.ask(story)
