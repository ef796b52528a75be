"""Clients that read alone: some what is committed, some everything, some in their own rack."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Final

from tidelog.client import Client
from tidelog.client.consumer import Consumer
from tidelog.client.offsets import end_offsets
from tidelog.rpc import Peer
from tidelog.sim.nodes.clients.history import History, Place, ReaderLog, TopicPartition
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.clients.stage import FAILURES, PAUSE_AFTER_FAILURE_S, Stage
from tidelog.sim.nodes.cluster import BROKER_PORT, machine_name
from tidelog.wire.protocol.schemas.fetch_request import FetchPartition, FetchRequest, FetchTopic

READ_WAIT_MS = 300
PAUSE_BETWEEN_READS_S = 0.05
FETCHES_BY_ID: Final = range(13, 19)
"""Versions in which topics have ids. Our own client asks by name."""
BY_ID_ONE_IN: Final = 2
ANSWER_WITHIN_MS: Final = 1_000


def everything(partitions: dict[str, int]) -> dict[TopicPartition, int]:
    """The beginning of every partition."""
    return {(topic, index): 0 for topic, count in partitions.items() for index in range(count)}


class Reader:
    """Reads on from the beginning until the run is over."""

    __slots__ = ("_entropy", "_log", "_rack", "_stage")

    def __init__(self, stage: Stage, name: str, *, committed: bool, rack: str = "") -> None:
        self._stage = stage
        self._rack = rack
        self._entropy: Random = stage.stream(f"{name} by id")
        self._log = ReaderLog(name, committed=committed)
        stage.history.readers.append(self._log)

    async def run(self, process: ClientProcess) -> None:
        log = self._log
        starts = everything(self._stage.partitions)
        consumer = Consumer(process.client, starts, committed=log.committed, rack=self._rack)
        while not self._stage.drained:
            if self._entropy.randrange(BY_ID_ONE_IN) == 0:
                with suppress(*FAILURES):
                    await self._ask_by_id(process, consumer)
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

    async def _ask_by_id(self, process: ClientProcess, consumer: Consumer) -> None:
        """Asks one leader where it stands, as consumers of newer releases do. They are told where
        ours has to wait: a new leader may not know yet that what they have read is committed."""
        requests = await _requests_by_id(process.client, consumer.positions)
        if not requests:
            return  # nobody leads
        leader = self._entropy.choice(sorted(requests))
        version = self._entropy.choice(FETCHES_BY_ID)
        peer = Peer(process.new_network(), (machine_name(leader), BROKER_PORT), self._log.name)
        try:
            await peer.ask(requests[leader], version, timeout_ms=ANSWER_WITHIN_MS)
        finally:
            peer.close()


async def _requests_by_id(
    client: Client, positions: dict[TopicPartition, int]
) -> dict[int, FetchRequest]:
    """What every leader would be asked, by its id. The answer is to be short."""
    asked: dict[int, dict[bytes, list[FetchPartition]]] = {}
    for (topic, index), offset in positions.items():
        topic_id = (await client.known_topic(topic)).topic_id
        leader = (await client.partition(topic, index)).leader
        if leader:
            part = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1)
            asked.setdefault(leader, {}).setdefault(topic_id, []).append(part)
    return {
        leader: FetchRequest(
            max_bytes=1,
            topics=[FetchTopic(topic_id=each, partitions=parts) for each, parts in topics.items()],
        )
        for leader, topics in asked.items()
    }


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
