"""A story on virtual time, told with everything that happened in it."""

import asyncio

from tidelog.client import NewRecord, Producer
from tidelog.testing import Cluster

PARTITIONS = range(4)


async def write(cluster, topic, count):
    async with cluster.client() as client:
        producer = Producer(client)
        for number in range(count):
            await producer.write(topic, [NewRecord(b"%d" % number)])


def tell(seed):
    """Every event with its time, what is read in the end, and the digest of the run."""
    with Cluster(brokers=3, seed=seed, host="sim") as cluster:
        topic = cluster.topic("orders", partitions=len(PARTITIONS), replication_factor=3)

        async def story():
            async with asyncio.TaskGroup() as group:
                for _ in range(3):
                    group.create_task(write(cluster, topic, 10))
                await asyncio.sleep(0.01)
                cluster.kill(1)
                await cluster.clock.advance("20s")
                cluster.restart(1)

        cluster.run(story())
        cluster.wait(lambda: all(len(cluster.partition(topic, n).isr) == 3 for n in PARTITIONS))
        cluster.check()
        told = cluster.events.lines()
        told += [f"{read.partition} {read.record}" for read in cluster.records(topic)]
        return "\n".join([*told, cluster.digest])
