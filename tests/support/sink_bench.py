"""A sink without Spark: rows are staged and delivered by plain objects, as its tasks would."""

import asyncio

import pyarrow as pa

from tidelog.client import Client, Consumer
from tidelog.client.offsets import LATEST, READ_COMMITTED, find_offset
from tidelog.spark.delivery import BatchIdentity, Delivery
from tidelog.spark.marker import MarkerLog
from tidelog.spark.options import Options
from tidelog.spark.sink_options import sink_settings
from tidelog.spark.staging import Attempt
from tidelog.spark.writer import TaskRows


def settings_for(cluster, topic=None, **more):
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, **more}
    return sink_settings(Options({**given, **({"topic": topic} if topic else {})}))


def staged(settings, values, *, query="q", number=0, run="run", tasks=1):
    """The messages of so many tasks, each with its share of the values."""
    messages = []
    for task in range(tasks):
        rows = pa.record_batch({"value": pa.array(values[task::tasks], pa.binary())})
        attempt = Attempt(query, number, task)
        messages.append(TaskRows(settings, ("value",)).stage(iter([rows]), attempt, run))
    return messages


def batch(sink, number=0, *, query="q", run="run"):
    return BatchIdentity(sink, query, run, number)


def deliver(settings, identity, messages, kind=Delivery, *, timeout_ms=20_000):
    """By a process that knows nothing of earlier ones."""

    async def story():
        async with Client(settings.bootstrap, timeout_ms=timeout_ms) as client:
            delivery = kind(client, MarkerLog(client), identity, settings.client)
            return await delivery.deliver(messages)

    return asyncio.run(story())


def committed(cluster, *topics, sort=True):
    """Values of what readers of committed records see."""

    async def story():
        async with Client(cluster.bootstrap_servers, timeout_ms=20_000) as client:
            ends = {}
            for topic in topics:
                for each in (await client.topic(topic)).partitions:
                    found = await find_offset(
                        client, topic, each.partition, LATEST, isolation=READ_COMMITTED
                    )
                    ends[topic, each.partition] = found.offset
            consumer = Consumer(client, dict.fromkeys(ends, 0), committed=True)
            values = []
            while any(consumer.positions[where] < end for where, end in ends.items()):
                for fetched in (await consumer.read(max_wait_ms=50)).values():
                    values += [each.record.value for each in fetched.reads]
            return sorted(values) if sort else values

    return asyncio.run(story())
