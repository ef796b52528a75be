"""The last read: everything that a cluster can be read for, as rows of a history."""

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

from tidelog.audit.history.file import READ_BACK_CLIENT, as_read_back
from tidelog.audit.history.rows import LOG_START, OK, Row, value_number
from tidelog.client import Client, Consumer
from tidelog.client.offsets import EARLIEST, LATEST, READ_COMMITTED, find_offset

TopicPartition = tuple[str, int]

LOOK_SECONDS = 0.05


class NotDrained(Exception):  # noqa: N818 - it names what is so
    """A partition could not be read to its end: something in it is not decided."""

    def __init__(self, topic: str, partition: int, position: int, end: int) -> None:
        super().__init__(
            f"{topic}-{partition} is readable up to offset {position}, and ends at {end}"
        )


class Bounds(NamedTuple):
    start: int
    end: int


async def read_back(client: Client, topics: Sequence[str], *, stall_ms: int) -> list[Row]:
    """All committed records up to where the partitions end now; NotDrained if that stops short,
    for so long, because a transaction is open."""
    bounds = await bounds_of(client, topics)
    found: list[tuple[str, int, int, int]] = []
    for (topic, partition), span in bounds.items():
        found += await _read_partition(client, topic, partition, span, stall_ms)
    return [*log_starts(bounds), *as_read_back(found)]


async def bounds_of(client: Client, topics: Sequence[str]) -> dict[TopicPartition, Bounds]:
    """Log start and high watermark of every partition."""
    bounds = {}
    for topic in topics:
        for each in (await client.topic(topic)).partitions:
            start = await find_offset(client, topic, each.partition, EARLIEST)
            end = await find_offset(client, topic, each.partition, LATEST)
            bounds[topic, each.partition] = Bounds(start.offset, end.offset)
    return bounds


async def until_decided(
    client: Client, topics: Sequence[str], *, stall_ms: int
) -> dict[TopicPartition, Bounds]:
    """The same, once everything up to there is readable: nothing in it is an open transaction."""
    bounds = await bounds_of(client, topics)
    deadline = time.monotonic() + stall_ms / 1000
    for (topic, partition), span in bounds.items():
        while True:
            stable = await find_offset(client, topic, partition, LATEST, isolation=READ_COMMITTED)
            if stable.offset >= span.end:
                break
            if time.monotonic() > deadline:
                raise NotDrained(topic, partition, stable.offset, span.end)
            await asyncio.sleep(LOOK_SECONDS)
    return bounds


def log_starts(bounds: dict[TopicPartition, Bounds]) -> list[Row]:
    return [
        Row(
            READ_BACK_CLIENT,
            0,
            0,
            LOG_START,
            0,
            None,
            topic,
            partition,
            span.start,
            None,
            None,
            OK,
            None,
        )
        for (topic, partition), span in bounds.items()
        if span.start
    ]


async def _read_partition(
    client: Client, topic: str, partition: int, span: Bounds, stall_ms: int
) -> list[tuple[str, int, int, int]]:
    where = (topic, partition)
    consumer = Consumer(client, {where: span.start}, committed=True)
    found: list[tuple[str, int, int, int]] = []
    moved_at = time.monotonic()
    while (before := consumer.positions[where]) < span.end:
        for fetched in (await consumer.read()).values():
            found += [
                (topic, partition, each.record.offset, value_number(each.record.value))
                for each in fetched.reads
                if each.record.offset < span.end
            ]
        if consumer.positions[where] > before:
            moved_at = time.monotonic()
        elif time.monotonic() - moved_at > stall_ms / 1000:
            raise NotDrained(topic, partition, before, span.end)
    return found
