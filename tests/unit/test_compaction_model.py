"""A compacted log against a list of everything ever appended and a dict of newest values."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.batches import marker
from tidelog.core.replication.producers import ProducerStates
from tidelog.sim.compaction_check import compaction_faults, newest_of_keys, records_of
from tidelog.sim.disk import CrashKind, SimDisk
from tidelog.sim.log_check import log_faults, stored_batches
from tidelog.storage import LogConfig, LogDirectory
from tidelog.storage.compaction import CompactionProgress, first_uncleanable
from tidelog.storage.meta_properties import MetaProperties, format_directory
from tidelog.storage.producer_replay import follow_batch
from tidelog.wire.records import Record, encode, iter_batches, iter_records, read_header

NAME = ("t", 0)
END = 1 << 62

keys = st.sampled_from([b"a", b"b", b"c", b"d" * 40, b"e"])
values = st.none() | st.binary(max_size=30)


class CompactedLogMachine(RuleBasedStateMachine):
    """Producer 0 writes outside of transactions, 1 and 2 inside."""

    @initialize(
        segment_bytes=st.sampled_from([400, 800, 3000]),
        interval=st.sampled_from([1, 150, 4096]),
        buffer=st.sampled_from([1, 500, 10**6]),
        budget=st.sampled_from([1, 300, 10**6]),
        retention_ms=st.sampled_from([0, 50]),
    )
    def start(
        self, segment_bytes: int, interval: int, buffer: int, budget: int, retention_ms: int
    ) -> None:
        self.disk = SimDisk()
        self.config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            cleanup_policy=("compact",),
            min_cleanable_dirty_ratio=0.0,
            delete_retention_ms=retention_ms,
            file_delete_delay_ms=0,
        )
        format_directory(self.disk, MetaProperties("c", 1, b"directory id ..."))
        self.open()
        self.directory.create_log(NAME, b"topic id .......")
        self.log = self.directory.logs[NAME]
        self.buffer, self.budget = buffer, budget
        self.appended: list[bytes] = []
        self.epoch = 0
        self.committed_end = 0
        self.cleanable_end = 0
        self.now_ms = 1000
        self.sequences = {0: 0, 1: 0, 2: 0}
        self.in_transaction: set[int] = set()

    def open(self) -> None:
        self.directory = LogDirectory.open(
            self.disk, lambda topic: self.config, cluster_id="c", node_id=1
        )
        assert not self.directory.refused

    @rule(
        rows=st.lists(st.tuples(keys, values), min_size=1, max_size=4),
        producer=st.sampled_from([-1, -1, 0, 1, 2]),
        step_ms=st.integers(0, 30),
        codec=st.sampled_from([0, 0, 1]),
    )
    def append(
        self, rows: list[tuple[bytes, bytes | None]], producer: int, step_ms: int, codec: int
    ) -> None:
        self.now_ms += step_ms
        records = [Record(n, self.now_ms + n % 2, *row) for n, row in enumerate(rows)]
        data = encode(
            records,
            codec=codec,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=self.sequences[producer] if producer >= 0 else -1,
            transactional=producer > 0,
        )
        if producer >= 0:
            self.sequences[producer] += len(rows)
        if producer > 0:
            self.in_transaction.add(producer)
        self.take(data)

    @rule(producer=st.sampled_from([1, 2]), commit=st.booleans())
    def end_transaction(self, producer: int, commit: bool) -> None:
        self.in_transaction.discard(producer)
        self.take(marker(producer, commit=commit, time_ms=self.now_ms))

    def take(self, data: bytearray) -> None:
        self.log.append_as_leader(data, self.epoch)
        self.appended.append(bytes(data))

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1
        self.log.assign_epoch(self.epoch, self.log.log_end_offset)

    @rule(part=st.floats(0, 1))
    def commit(self, part: float) -> None:
        """The high watermark moves to the end of some batch."""
        later = [end for end in map(end_of, self.appended) if end > self.committed_end]
        if later:
            self.committed_end = later[int((len(later) - 1) * part)]
            self.log.producers.on_high_watermark(self.committed_end)

    @rule(part=st.floats(0, 1))
    def truncate_uncommitted(self, part: float) -> None:
        end = self.log.log_end_offset
        offset = self.committed_end + int((end - self.committed_end) * part)
        self.log.truncate_to(offset)
        while self.appended and end_of(self.appended[-1]) > offset:
            self.appended.pop()
        self.follow()

    def follow(self) -> None:
        """What producers do next depends on what is left."""
        states = ProducerStates()
        for data in self.appended:
            follow_batch(states, read_header(data), data, 0)
        self.in_transaction = {
            e.producer_id for e in states.entries() if e.current_txn_first_offset >= 0
        }
        for producer in self.sequences:
            entry = states.get(producer)
            self.sequences[producer] = entry.last_sequence + 1 if entry else 0

    @rule()
    def sync_and_roll(self) -> None:
        self.directory.sync_dirty()
        self.log.roll()

    @rule(slices=st.integers(1, 40), step_ms=st.sampled_from([0, 0, 100]))
    def compact(self, slices: int, step_ms: int) -> None:
        self.now_ms += step_ms
        for _ in range(slices):
            progress = self.compact_once(self.budget)
            if progress is None or progress.finished:
                return

    @rule()
    def compact_all(self) -> None:
        while self.compact_once(10**6) is not None:
            pass
        active = self.log.segments[-1].base_offset
        stable = self.log.producers.first_unstable_offset(self.committed_end)
        if stable is None and self.committed_end >= active == self.log.recovery_point:
            assert self.directory.clean_point(NAME) == active

    @rule(commit=st.booleans())
    def finish_and_compact(self, commit: bool) -> None:
        """So that several passes over the same records happen in one run."""
        for producer in sorted(self.in_transaction):
            self.end_transaction(producer, commit)
        self.commit(1.0)
        self.sync_and_roll()
        self.compact_all()

    def compact_once(self, budget: int) -> CompactionProgress | None:
        cleanable = min(
            first_uncleanable(self.log, self.committed_end), self.log.segments[-1].base_offset
        )
        self.cleanable_end = max(self.cleanable_end, cleanable)
        return self.directory.compact_once(
            wall_ms=self.now_ms,
            monotonic_ms=self.now_ms,
            high_watermarks={NAME: self.committed_end},
            budget_bytes=budget,
            dedupe_buffer_bytes=self.buffer,
        )

    @rule(orderly=st.booleans())
    def reopen(self, orderly: bool) -> None:
        if orderly:
            self.directory.close(broker_epoch=1, high_watermarks={})
        self.disk = self.disk.crash(CrashKind.PROCESS, lambda n: 0)
        self.open()
        self.log = self.directory.logs[NAME]

    @precondition(lambda self: self.log.is_synced)
    @rule()
    def power_fails(self) -> None:
        self.disk = self.disk.after_power_loss(())
        self.open()
        self.log = self.directory.logs[NAME]

    @invariant()
    def nothing_is_lost_that_must_stay(self) -> None:
        found = self.found()
        assert compaction_faults(self.appended, found) == []
        assert self.directory.clean_point(NAME) <= self.cleanable_end
        assert [data for data in found if base_of(data) >= self.cleanable_end] == [
            data for data in self.appended if base_of(data) >= self.cleanable_end
        ]

    @invariant()
    def the_log_is_sound(self) -> None:
        assert log_faults(self.disk, self.log, leftovers=True) == []
        end = end_of(self.appended[-1]) if self.appended else 0
        assert self.log.log_end_offset == end

    @invariant()
    def readers_see_each_record_at_its_offset(self) -> None:
        position, seen = 0, []
        while runs := self.log.read(position, END, 200):
            for at, header in iter_batches(runs[0]):
                if not header.is_control:
                    seen += list(iter_records(runs[0], at, header))
                assert header.last_offset >= position
                position = header.next_offset
        assert position == self.log.log_end_offset
        assert seen == records_of(self.found())
        for wanted in (0, self.now_ms - 20, self.now_ms):
            hit = self.log.offset_for_timestamp(wanted)
            first = next((r.offset for r in self.all_records() if r.timestamp >= wanted), None)
            assert (hit.offset if hit else None) == first

    @invariant()
    def sequences_are_remembered(self) -> None:
        replayed = ProducerStates()
        for data in self.found():
            follow_batch(replayed, read_header(data), data, 0)
        for producer, following in self.sequences.items():
            if following:
                entry = replayed.get(producer)
                assert entry is not None
                assert entry.last_sequence == following - 1
                is_open = entry.current_txn_first_offset >= 0
                assert is_open == (producer in self.in_transaction)

    def found(self) -> list[bytes]:
        return [b.data for s in self.log.segments for b in stored_batches(self.disk, s)[0]]

    def all_records(self) -> list[Record]:
        """With the markers: a lookup by time finds them too."""
        return [
            r for data in self.found() for r in iter_records(data, 0, read_header(data))
        ]  # fmt: skip

    def teardown(self) -> None:
        """In the end, when all is committed and cleaned, there is one record for each key."""
        if not hasattr(self, "log"):
            return
        for producer in sorted(self.in_transaction):
            self.end_transaction(producer, commit=True)
        self.sync_and_roll()
        self.committed_end = self.log.log_end_offset
        self.log.producers.on_high_watermark(self.committed_end)
        self.compact_all()
        self.nothing_is_lost_that_must_stay()
        left = records_of(self.found())
        assert len({record.key for record in left}) == len(left)
        newest = newest_of_keys(self.appended)
        assert {r.key: r.value for r in left if r.value is not None} == {
            key: record.value for key, record in newest.items() if record.value is not None
        }


def end_of(data: bytes) -> int:
    return read_header(data).next_offset


def base_of(data: bytes) -> int:
    return read_header(data).base_offset


TestCompactedLogMachine = CompactedLogMachine.TestCase
TestCompactedLogMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
