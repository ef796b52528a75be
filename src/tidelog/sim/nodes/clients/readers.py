"""Clients that read alone: some what is committed, some everything, some in their own rack."""

import asyncio

from tidelog.client.consumer import Consumer
from tidelog.client.offsets import end_offsets
from tidelog.sim.nodes.clients.history import History, Place, ReaderLog, TopicPartition
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.clients.stage import FAILURES, PAUSE_AFTER_FAILURE_S, Stage

READ_WAIT_MS = 300
PAUSE_BETWEEN_READS_S = 0.05


def everything(partitions: dict[str, int]) -> dict[TopicPartition, int]:
    """The beginning of every partition."""
    return {(topic, index): 0 for topic, count in partitions.items() for index in range(count)}


class Reader:
    """Reads on from the beginning until the run is over."""

    __slots__ = ("_log", "_rack", "_stage")

    def __init__(self, stage: Stage, name: str, *, committed: bool, rack: str = "") -> None:
        self._stage = stage
        self._rack = rack
        self._log = ReaderLog(name, committed=committed)
        stage.history.readers.append(self._log)

    async def run(self, process: ClientProcess) -> None:
        log = self._log
        starts = everything(self._stage.partitions)
        consumer = Consumer(process.client, starts, committed=log.committed, rack=self._rack)
        while not self._stage.drained:
            try:
                fetched = await consumer.read(max_wait_ms=READ_WAIT_MS)
            except FAILURES:
                await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
                continue
            for where, each in fetched.items():
                values = [
                    (read.record.offset, bytes(read.record.value or b"")) for read in each.reads
                ]
                log.reads.setdefault(where, []).extend(values)
                log.positions[where] = each.next_offset
            await asyncio.sleep(PAUSE_BETWEEN_READS_S)


async def read_back(process: ClientProcess, partitions: dict[str, int], history: History) -> None:
    """Everything that is committed, from its beginning to its end."""
    starts = everything(partitions)
    ends = await end_offsets(process.client, starts)
    consumer = Consumer(process.client, starts, committed=True)
    while any(consumer.positions[where] < ends[where] for where in starts):
        for fetched in (await consumer.read(max_wait_ms=READ_WAIT_MS)).values():
            for read in fetched.reads:
                place = Place(read.topic, read.partition, read.record.offset)
                history.found.setdefault(bytes(read.record.value or b""), []).append(place)
