"""A log against the simplest thing that could be right: a list of batches."""

from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.batches import batch, marker
from tidelog.core.replication.producers import NO_SEQUENCE, ProducerStates
from tidelog.sim.disk import CrashKind, SimDisk
from tidelog.sim.log_check import log_faults
from tidelog.storage import Log, LogConfig, OffsetOutOfRange
from tidelog.storage.producer_replay import follow_batch
from tidelog.wire.records import BatchHeader, read_header

END = 1 << 62


class Kept(NamedTuple):
    header: BatchHeader
    data: bytes


class LogMachine(RuleBasedStateMachine):
    """Every rule does the same to the log and to the list."""

    @initialize(
        segment_bytes=st.sampled_from([200, 500, 5000]),
        interval=st.sampled_from([1, 150, 4096]),
        retention_bytes=st.sampled_from([-1, 300, 1500]),
    )
    def start(self, segment_bytes: int, interval: int, retention_bytes: int) -> None:
        self.disk = SimDisk()
        self.disk.make_dir("t-0")
        self.disk.sync_dir("")
        self.config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            retention_ms=-1,
            retention_bytes=retention_bytes,
        )
        self.log = Log.open(self.disk, "t-0", self.config)
        self.kept: list[Kept] = []
        self.end = 0
        self.log_start = 0
        self.committed = 0
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        self.time_ms = 1000

    @rule(
        values=st.lists(st.binary(max_size=60), min_size=1, max_size=4),
        producer=st.sampled_from([-1, -1, 1, 2]),
        transactional=st.booleans(),
        step_ms=st.integers(-50, 100),
    )
    def append(self, values: list[bytes], producer: int, transactional: bool, step_ms: int) -> None:
        self.time_ms += step_ms
        sequence = self.sequences.get(producer, 0)
        data = batch(
            *values,
            producer=producer,
            sequence=sequence if producer > 0 else -1,
            transactional=transactional and producer > 0,
            time_ms=self.time_ms,
        )
        self.sequences[producer] = sequence + len(values)
        self.take(data)

    @rule(producer=st.sampled_from([1, 2]), commit=st.booleans())
    def end_transaction(self, producer: int, commit: bool) -> None:
        self.take(marker(producer, commit=commit, time_ms=self.time_ms))

    def take(self, data: bytearray) -> None:
        header = self.log.append_as_leader(data, self.epoch)
        assert header.base_offset == self.end
        self.kept.append(Kept(read_header(data), bytes(data)))
        self.end = header.next_offset

    @rule(part=st.floats(0, 1))
    def commit(self, part: float) -> None:
        self.committed += int((self.end - self.committed) * part)
        self.log.producers.on_high_watermark(self.committed)

    @rule(step=st.integers(1, 3))
    def new_leader(self, step: int) -> None:
        self.epoch += step
        self.log.assign_epoch(self.epoch, self.end)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def sync(self) -> None:
        self.log.sync()
        assert self.log.durable_offset == self.end

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        offset = max(self.end - back, 0)
        self.log.truncate_to(offset)
        first = self.log.segments[0].base_offset
        if self.kept and offset < self.kept[0].header.base_offset:
            self.kept, self.end = [], offset
        elif not self.kept and offset < self.end:
            self.end = offset
        while self.kept and self.kept[-1].header.last_offset >= offset:
            self.end = self.kept.pop().header.base_offset
        self.log_start = min(self.log_start, self.end)
        self.committed = min(self.committed, self.end)
        assert first >= 0

    @rule(offset=st.integers(0, 300))
    def start_over(self, offset: int) -> None:
        self.log.truncate_fully_and_start_at(offset)
        self.kept, self.end, self.log_start, self.committed = [], offset, offset, offset

    @rule(part=st.floats(0, 1))
    def raise_log_start(self, part: float) -> None:
        offset = self.log_start + int((self.end - self.log_start) * part)
        self.log.raise_log_start(offset)
        self.log_start = offset

    @rule(part=st.floats(0, 1))
    def retain(self, part: float) -> None:
        high_watermark = self.log_start + int((self.end - self.log_start) * part)
        self.log.apply_retention(0, high_watermark)
        first = self.log.segments[0].base_offset
        gone = [k for k in self.kept if k.header.base_offset < first]
        self.kept = self.kept[len(gone) :]
        assert all(k.header.last_offset < high_watermark for k in gone), "only committed ones"
        removed_bytes = sum(len(k.data) for k in gone)
        if gone and self.config.retention_bytes >= 0 and first > self.log_start:
            kept_bytes = sum(len(k.data) for k in self.kept)
            assert kept_bytes >= self.config.retention_bytes or not self.kept, removed_bytes
        self.log_start = max(self.log_start, first)
        self.log.remove_deleted_files(END)

    @precondition(lambda self: self.log.is_synced)
    @rule(orderly=st.booleans())
    def reopen_synced(self, orderly: bool) -> None:
        if orderly:
            self.log.close()
        self.reopen(self.disk.after_power_loss(()), clean=orderly)

    @rule()
    def process_dies(self) -> None:
        self.reopen(self.disk.crash(CrashKind.PROCESS, lambda n: 0), clean=False)

    def reopen(self, disk: SimDisk, *, clean: bool) -> None:
        self.disk = disk
        self.log = Log.open(
            disk,
            "t-0",
            self.config,
            recovery_point=self.log.storable_recovery_point,  # what a directory checkpoints
            log_start=self.log_start,
            clean_shutdown=clean,
        )
        self.log.recall_ended_transactions(self.committed)
        self.log.producers.on_high_watermark(self.committed)

    @invariant()
    def it_is_the_same_log(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.log_start, self.end)
        assert log_faults(self.disk, log) == []
        shown = [k for k in self.kept if k.header.last_offset >= self.log_start]
        position, read = self.log_start, b""
        while runs := log.read(position, END, 300):
            read += b"".join(runs)
            last = None
            for run in runs:
                at = 0
                while at < len(run):
                    last = read_header(run, at)
                    at += last.size_bytes
            assert last is not None
            position = last.next_offset
        assert read == b"".join(k.data for k in shown)

    @invariant()
    def its_producers_are_those_of_its_records(self) -> None:
        expected = ProducerStates()
        aborted = []
        for k in self.kept:
            ended = follow_batch(expected, k.header, k.data, 0)
            if ended is not None:
                aborted.append((ended.producer_id, ended.last_offset))
        for entry in expected.entries():
            known = self.log.producers.get(entry.producer_id)
            assert known is not None
            assert known.last_sequence in (entry.last_sequence, NO_SEQUENCE) or not entry.batches
        found = self.log.aborted_transactions(self.log_start, self.end)
        found_ends = [(entry.producer_id, entry.last_offset) for entry in found]
        assert set(aborted) <= set(found_ends) | {
            (producer, last) for producer, last in aborted if last < self.log_start
        }

    @invariant()
    def readers_wait_for_the_same_transactions(self) -> None:
        """Whatever was cut, snapshotted or reloaded: as if every record had just been followed."""
        expected = ProducerStates()
        for k in self.kept:
            follow_batch(expected, k.header, k.data, 0)
        first = self.kept[0].header.base_offset if self.kept else self.end
        for high_watermark in (self.committed, (self.committed + self.end) // 2, self.end):
            unstable = self.log.producers.first_unstable_offset(high_watermark)
            if unstable is None or unstable >= first:  # retention may have taken older records
                assert unstable == expected.first_unstable_offset(high_watermark), high_watermark
        ended = self.log.producers.ended_transactions()
        assert all(each.last_offset >= self.committed for each in ended), ended

    @invariant()
    def lookups_by_time_agree(self) -> None:
        shown = [k for k in self.kept if k.header.last_offset >= self.log_start]
        for wanted in (0, self.time_ms - 60, self.time_ms, self.time_ms + 1):
            first = next((k for k in shown if k.header.max_timestamp >= wanted), None)
            found = self.log.offset_for_timestamp(wanted)
            if first is None:
                assert found is None
            else:
                assert found is not None
                assert found.offset == max(first.header.base_offset, self.log_start)

    @invariant()
    def nothing_outside_is_read(self) -> None:
        for offset in (self.log_start - 1, self.end + 1):
            with pytest.raises(OffsetOutOfRange):
                self.log.read(offset, END, 100)


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
