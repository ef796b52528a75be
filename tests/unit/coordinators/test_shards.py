"""Coordinators take office by reading their log, and leave it; on a log in memory."""

import asyncio
from collections.abc import Awaitable, Callable

from support.consumer_groups import Topics
from support.manual_clock import ManualClock
from tidelog.coordinators.group_records import GROUP_RECORDS
from tidelog.coordinators.shard import AppendFailed
from tidelog.coordinators.shards import EARLY_WAIT_MS, LOAD_AGAIN_MS, Shards, Surroundings
from tidelog.core.coordination import Marker, TopicPartition, Write
from tidelog.core.errors import Error
from tidelog.core.events import Event
from tidelog.core.groups.machine import GroupMachine
from tidelog.core.groups.records import CommittedOffset, OffsetCommit
from tidelog.core.groups.requests import (
    NO_GENERATION,
    UNKNOWN_MEMBER,
    ClientName,
    CommitOffsets,
    FetchOffsets,
    FetchOffsetsResponse,
    JoinGroup,
    JoinProtocol,
    JoinResponse,
    NewOffset,
)
from tidelog.core.groups.settings import GroupSettings
from tidelog.host.timers import TimerWheel
from tidelog.storage.errors import StorageError
from tidelog.wire.records import Record, encode, encode_end_txn_marker
from tidelog.wire.records.control import EndTxnMarker

GUARD_S = 30
INDEX = 4
PARTITION = TopicPartition("orders", 0)


class MemoryLog:
    """Everything that was ever appended, as batches; committed at once unless told otherwise."""

    def __init__(self, leader_epoch: int = 1) -> None:
        self.leader_epoch = leader_epoch
        self.start_offset = 0
        self.batches: list[bytearray] = []
        self.holds_back = False
        self.broken = False
        self.full = False
        self.reads = 0
        self._end = 0

    def may_append(self) -> bool:
        return True

    def end_offset(self) -> int:
        return self._end

    def committed_offset(self) -> int:
        return 0 if self.holds_back else self._end

    def append(self, write: Write) -> int:
        if self.full:
            raise AppendFailed("full")
        records = [
            Record(offset, 0, *GROUP_RECORDS.encode(each))
            for offset, each in enumerate(write.records)
        ]
        stamp = write.stamp
        if stamp is None:
            return self.add(encode(records), len(records))
        batch = encode(
            records,
            transactional=True,
            producer_id=stamp.producer_id,
            producer_epoch=stamp.producer_epoch,
        )
        return self.add(batch, len(records))

    def add(self, batch: bytearray, count: int) -> int:
        batch[:8] = self._end.to_bytes(8, "big")  # the base offset
        self.batches.append(batch)
        self._end += count
        return self._end

    def read(self, from_offset: int, max_bytes: int) -> list[memoryview]:
        self.reads += 1
        if self.broken:
            raise StorageError("unreadable")
        for batch in self.batches:
            if int.from_bytes(batch[:8], "big") >= from_offset:
                return [memoryview(batch)]
        return []


class Asker:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def answer(self, response: object) -> None:
        self.heard.append(response)

    def refuse(self, error: Error) -> None:
        self.heard.append(error)


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.wheel = TimerWheel(self.clock)
        self.events: list[Event] = []
        self.coming = False
        around = Surroundings(
            GROUP_RECORDS,
            self.clock,
            self.wheel,
            self.events.append,
            lambda _index, _order: None,
            lambda _index: self.coming,
        )
        settings = GroupSettings(initial_rebalance_delay_ms=100)
        self.shards = Shards(lambda _epoch: GroupMachine(settings, Topics()), around)

    async def elect(self, log: MemoryLog) -> None:
        self.shards.elected(INDEX, log)
        await self.loaded()

    async def loaded(self) -> None:
        while self.shards.machine(INDEX) is None:
            await asyncio.sleep(0)

    def pass_time(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        self.wheel.fire_due()

    def ask(self, request: object) -> Asker:
        asker = Asker()
        self.shards.request(INDEX, request, asker)
        return asker

    def commit(self, offset: int) -> Asker:
        value = CommittedOffset(offset, -1, "", self.clock.wall_ms())
        commit = CommitOffsets(
            "g", UNKNOWN_MEMBER, NO_GENERATION, None, (NewOffset(PARTITION, value),)
        )
        return self.ask(commit)

    def committed(self) -> int | Error:
        (heard,) = self.ask(FetchOffsets("g", None, -1, (PARTITION,), require_stable=False)).heard
        if isinstance(heard, Error):
            return heard
        assert isinstance(heard, FetchOffsetsResponse)
        return heard.offsets[0].offset


def told(story: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(GUARD_S):
            await story(Bench())

    asyncio.run(main())


def test_the_next_coordinator_knows_what_the_last_one_committed() -> None:
    async def story(bench: Bench) -> None:
        log = MemoryLog()
        await bench.elect(log)
        bench.commit(3)
        bench.commit(5)
        bench.shards.resigned(INDEX)
        assert bench.committed() is Error.NOT_COORDINATOR

        log.leader_epoch = 2
        await bench.elect(log)
        assert bench.committed() == 5
        assert bench.shards.leader_epoch(INDEX) == 2

    told(story)


def test_who_asks_while_the_log_is_read_waits_for_it_and_not_for_ever() -> None:
    async def story(bench: Bench) -> None:
        log = MemoryLog()
        await bench.elect(log)
        bench.commit(3)

        bench.shards.elected(INDEX, log)
        early = bench.commit(4)
        assert early.heard == []
        await bench.loaded()
        assert len(early.heard) == 1
        assert bench.committed() == 4

        bench.shards.elected(INDEX, log)
        impatient = bench.commit(5)
        bench.pass_time(EARLY_WAIT_MS)
        assert impatient.heard == [Error.COORDINATOR_LOAD_IN_PROGRESS]
        moved = bench.commit(6)
        bench.shards.resigned(INDEX)
        assert moved.heard == [Error.NOT_COORDINATOR]
        await bench.elect(log)
        assert bench.committed() == 4

    told(story)


def test_requests_wait_for_a_partition_whose_log_is_still_being_made_and_not_for_ever() -> None:
    async def story(bench: Bench) -> None:
        bench.coming = True
        early = bench.commit(4)
        assert early.heard == []
        await bench.elect(MemoryLog())
        assert len(early.heard) == 1
        assert bench.committed() == 4

        bench.shards.resigned(INDEX)
        impatient = bench.commit(5)
        bench.pass_time(EARLY_WAIT_MS)
        assert impatient.heard == [Error.COORDINATOR_LOAD_IN_PROGRESS]
        left_over = bench.commit(6)
        bench.shards.close()
        assert left_over.heard == [Error.NOT_COORDINATOR]

    told(story)


def test_offsets_of_a_transaction_count_when_its_marker_is_in_the_log() -> None:
    async def story(bench: Bench) -> None:
        log = MemoryLog()
        offset = OffsetCommit("g", PARTITION, CommittedOffset(9, -1, "", 1))
        records = [Record(0, 0, *GROUP_RECORDS.encode(offset))]
        pending = encode(records, transactional=True, producer_id=7, producer_epoch=0)
        log.add(pending, 1)
        await bench.elect(log)
        assert bench.committed() == -1
        bench.shards.marker_appended(INDEX, Marker(7, 0, commit=True, coordinator_epoch=1))
        assert bench.committed() == 9

        log.add(encode_end_txn_marker(EndTxnMarker(True, 7, 0, 1), timestamp_ms=1), 1)
        await bench.elect(log)
        assert bench.committed() == 9

    told(story)


def test_a_log_that_cannot_be_read_is_tried_again_and_nothing_is_denied_meanwhile() -> None:
    async def story(bench: Bench) -> None:
        log = MemoryLog()
        await bench.elect(log)
        bench.commit(3)
        log.broken, reads = True, log.reads
        bench.shards.elected(INDEX, log)
        while log.reads == reads:
            await asyncio.sleep(0)
        assert bench.committed() is Error.COORDINATOR_LOAD_IN_PROGRESS
        log.broken = False
        bench.pass_time(LOAD_AGAIN_MS)
        await bench.loaded()
        assert bench.committed() == 3

    told(story)


def test_a_full_disk_costs_the_commit_and_the_next_one_works() -> None:
    async def story(bench: Bench) -> None:
        log = MemoryLog()
        await bench.elect(log)
        bench.commit(3)
        log.full = True
        assert bench.commit(4).heard == [Error.COORDINATOR_NOT_AVAILABLE]
        assert bench.committed() is Error.COORDINATOR_LOAD_IN_PROGRESS
        log.full = False
        bench.pass_time(LOAD_AGAIN_MS)
        await bench.loaded()
        assert bench.committed() == 3
        bench.commit(5)
        assert bench.committed() == 5

    told(story)


def test_deadlines_of_a_machine_come_without_being_asked_for() -> None:
    """A group that is new waits 100 ms for more members, and then begins."""

    async def story(bench: Bench) -> None:
        await bench.elect(MemoryLog())
        join = JoinGroup(
            "g",
            UNKNOWN_MEMBER,
            None,
            ClientName("c", "/127.0.0.1"),
            10_000,
            10_000,
            "consumer",
            (JoinProtocol("range", b""),),
            "c-1",
            needs_known_member_id=False,
            may_skip_assignment=False,
        )
        asker = bench.ask(join)
        bench.pass_time(90)
        assert asker.heard == []
        bench.pass_time(15)
        (heard,) = asker.heard
        assert isinstance(heard, JoinResponse)
        assert (heard.error, heard.leader) == (Error.NONE, "c-1")

    told(story)


def test_answers_wait_for_the_followers_and_closing_refuses_them() -> None:
    async def story(bench: Bench) -> None:
        log = MemoryLog()
        await bench.elect(log)
        log.holds_back = True
        first, second = bench.commit(1), bench.commit(2)
        assert (first.heard, second.heard) == ([], [])
        bench.shards.close()
        assert first.heard == second.heard == [Error.NOT_COORDINATOR]
        assert bench.shards.indexes() == []

    told(story)
