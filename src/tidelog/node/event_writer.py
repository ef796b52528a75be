"""Writes a node's events through its own front door, like any other client."""

from collections.abc import Sequence

from tidelog.client.admin import Admin, NewTopic
from tidelog.client.client import Client, LentNetwork, World
from tidelog.client.errors import KafkaError
from tidelog.client.producer import NewRecord, Producer
from tidelog.config.node_config import NodeConfig
from tidelog.core.errors import Error
from tidelog.host.node_host import NodeHost
from tidelog.observe.event_topic import EventRecord

TIMEOUT_MS = 2_000
ACKS_LEADER = 1
"""A copy of what the node keeps anyway: nobody waits for its replicas."""
CONFIGS = {"retention.ms": str(24 * 3_600_000), "min.insync.replicas": "1"}


class EventWriter:
    """The `Produce` of an `observe.event_topic.EventTopic`."""

    __slots__ = ("_client", "_producer", "_topic_is_there")

    def __init__(self, config: NodeConfig, host: NodeHost) -> None:
        name = config.inter_broker_listener
        listener = next(each for each in config.broker_endpoints if each.name == name)
        self._client = Client(
            f"{listener.host}:{listener.port}",
            client_id=f"node-{config.node_id}-events",
            timeout_ms=TIMEOUT_MS,
            world=World(host.clock, LentNetwork(host.to_brokers)),
        )
        self._producer = Producer(self._client, acks=ACKS_LEADER)
        self._topic_is_there = False

    async def produce(self, topic: str, records: Sequence[EventRecord]) -> None:
        if not self._topic_is_there:
            await self._make_topic(topic)
        await self._producer.write(
            topic, [NewRecord(each.value, each.key, (), each.timestamp_ms) for each in records]
        )

    async def close(self) -> None:
        await self._client.close()

    async def _make_topic(self, topic: str) -> None:
        try:
            await Admin(self._client).create_topic(NewTopic(topic, 1, configs=CONFIGS))
        except KafkaError as error:
            if error.error != Error.TOPIC_ALREADY_EXISTS:
                raise
        self._topic_is_there = True
