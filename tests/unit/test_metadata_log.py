"""The metadata log on disk, against the one that is made of objects."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.raft_log import RaftLog, Snapshot
from support.text_codec import TextCodec
from tidelog.core.quorum import rules
from tidelog.core.quorum.messages import SnapshotId
from tidelog.core.types import LogEntry
from tidelog.host.disk import FileDisk
from tidelog.sim.crash_states import CrashLimits, CrashStates
from tidelog.sim.disk import CrashKind, SimDisk
from tidelog.storage import CorruptFile, CorruptSegment, LogConfig, LogDirectory, NoSpace
from tidelog.storage.directory_names import METADATA
from tidelog.storage.meta_properties import MetaProperties, format_directory
from tidelog.storage.metadata_log import DIRECTORY, MetadataLog
from tidelog.storage.pending_sync import PendingSync

EVERYTHING = 1 << 30
View = tuple[Any, ...]


def opened(disk: SimDisk | FileDisk, *, segment_bytes: int = 300) -> MetadataLog:
    return MetadataLog.open(disk, TextCodec(), config=LogConfig(segment_bytes=segment_bytes))


def view_of(log: MetadataLog | RaftLog) -> View:
    """All that the quorum can see but the durable offset."""
    oldest, latest = log.oldest_snapshot, log.latest_snapshot
    return (
        log.log_start_offset,
        log.log_end_offset,
        log.entries_from(log.log_start_offset, EVERYTHING),
        tuple(log.epochs.entries),
        log.last_epoch,
        (oldest, latest),
        tuple(snapshot_records(log, each) for each in (oldest, latest) if each is not None),
    )


def snapshot_records(log: MetadataLog | RaftLog, snapshot: SnapshotId) -> tuple[object, ...]:
    if isinstance(log, MetadataLog):
        return log.read_snapshot(snapshot)
    return next(each.records for each in log.snapshots if each.id == snapshot)


def boundaries(model: RaftLog) -> list[int]:
    """Where the log may end after a crash."""
    ends = [model.log_start_offset, *(entry.next_offset for entry in model.entries)]
    return [end for end in ends if end >= model.durable_offset] or [model.log_end_offset]


def restarted(model: RaftLog, end: int) -> RaftLog:
    """What a new process makes of a log that a crash left ending there."""
    after = copy.deepcopy(model)
    if end < after.log_end_offset:
        after.lose_tail(end)
    after.sync()
    latest = after.snapshots[-1] if after.snapshots else None
    if latest is not None and rules.snapshot_replaces_log(
        latest.id, after.log_start_offset, after.log_end_offset, after.epochs
    ):
        after.install_snapshot(latest)
    after.epochs.truncate_from_end(after.log_end_offset)
    if latest is not None and after.log_start_offset == after.log_end_offset:
        after.epochs.assign(latest.id.epoch, after.log_end_offset)
    return after


def all_restarts(model: RaftLog) -> list[RaftLog]:
    return [restarted(model, end) for end in boundaries(model)]


class Pair:
    """The same operations on both logs."""

    def __init__(self, disk: SimDisk, *, segment_bytes: int = 300) -> None:
        self.disk = disk
        self.segment_bytes = segment_bytes
        self.log = opened(disk, segment_bytes=segment_bytes)
        self.model = RaftLog()
        self.epoch = 1
        self.written = 0
        self.pending: tuple[PendingSync, int, int] | None = None

    def append(self, number: int) -> None:
        entries = []
        offset = self.model.log_end_offset
        for count in (number % 3 + 1, number % 2 + 1)[: number % 2 + 1]:
            texts = tuple(f"{self.written + place}" * (number + 1) for place in range(count))
            entries.append(LogEntry(offset, self.epoch, texts, control=number == 7))
            self.written += count
            offset += count
        self.log.append(tuple(entries))
        self.model.append(tuple(entries))

    def truncate(self, number: int) -> None:
        """Never below what is committed."""
        latest = self.model.latest_snapshot
        least = latest.end_offset if latest else 0
        offset = least + (self.model.log_end_offset - least) * number // 9
        self.log.truncate_to(offset)
        self.model.truncate_to(offset)
        self.epoch += 1

    def snapshot(self, number: int) -> None:
        latest = self.model.latest_snapshot
        ends = [
            entry.next_offset
            for entry in self.model.entries
            if latest is None or entry.next_offset > latest.end_offset
        ]
        if not ends:
            return
        end = ends[len(ends) * number // 10]
        snapshot = SnapshotId(end, self.model.epochs.epoch_at(end - 1))
        records = tuple(f"state {each}" for each in range(number))
        self.log.write_snapshot(snapshot, records, ("voters",))
        self.model.take_snapshot(Snapshot(snapshot, records))

    def install(self, number: int) -> None:
        """Of a later epoch, longer than the log or of another history."""
        self.epoch += 1
        end = max(self.model.log_start_offset + 1, self.model.log_end_offset + number - 4)
        snapshot = SnapshotId(end, self.epoch)
        records = (f"installed {end}",)
        content = TextCodec().encode_snapshot(snapshot, records, (), 0)
        self.log.install_snapshot(snapshot, content)
        self.model.install_snapshot(Snapshot(snapshot, records))

    def sync(self, number: int) -> None:
        self.log.sync()
        self.model.sync()

    def start(self, number: int) -> None:
        pending = self.log.start_sync()
        if pending is not None:
            self.pending = (pending, self.model.log_end_offset, self.model.generation)

    def finish(self, number: int) -> None:
        if self.pending is None:
            return
        pending, end, generation = self.pending
        self.pending = None
        pending.run()
        self.log.finish_sync(pending, None)
        if generation == self.model.generation:
            self.model.durable_offset = max(self.model.durable_offset, end)

    def restart(self, number: int) -> None:
        """In order, or killed; both keep everything."""
        self.pending = None
        self.log.close() if number % 2 else self.log.release()
        self.log = opened(self.disk, segment_bytes=self.segment_bytes)
        self.model = restarted(self.model, self.model.log_end_offset)

    def check(self) -> None:
        assert view_of(self.log) == view_of(self.model)
        durable = self.log.durable_offset
        assert self.model.durable_offset <= durable <= self.log.log_end_offset
        assert durable in boundaries(self.model)
        for offset in range(self.log.log_start_offset, self.log.log_end_offset + 1):
            assert self.log.entries_from(offset, 2) == self.model.entries_from(offset, 2)

    def lose_power(self, draw: st.DataObject | Any) -> None:
        self.pending = None
        self.disk = self.disk.crash(CrashKind.POWER_LOSS, draw)
        self.log = opened(self.disk, segment_bytes=self.segment_bytes)
        found = view_of(self.log)
        legal = [model for model in all_restarts(self.model) if view_of(model) == found]
        assert legal, f"{found} after {self.disk.story}"
        self.model = legal[0]


STEPS = (
    "append", "append", "append", "truncate", "snapshot", "snapshot", "install", "sync", "start",
    "finish", "restart", "lose_power",
)  # fmt: skip


@settings(deadline=None, max_examples=100)
@given(
    history=st.lists(
        st.tuples(st.sampled_from(STEPS), st.integers(0, 9)), min_size=10, max_size=30
    ),
    seed=st.randoms(use_true_random=False),
)
def test_it_shows_the_same_as_the_log_of_objects(history, seed) -> None:
    pair = Pair(SimDisk())
    for step, number in history:
        if step == "lose_power":
            pair.lose_power(seed.randrange)
        else:
            getattr(pair, step)(number)
        pair.check()


# Crashes


class MarkingPair(Pair):
    """Says on the disk what a crash may leave, before each operation and after it."""

    def do(self, step: str, number: int) -> None:
        legal = set(legal_views(self.model))
        if step == "truncate":
            legal |= set(self.half_truncated(number))
        after = self.model_after(step, number)
        self.disk.mark(frozenset(legal | set(legal_views(after))))
        getattr(self, step)(number)
        assert view_of(self.model) == view_of(after)
        self.disk.mark(frozenset(legal_views(self.model)))

    def model_after(self, step: str, number: int) -> RaftLog:
        """Tried on a copy of everything."""
        other = Pair.__new__(Pair)
        other.disk = self.disk.copy()
        other.segment_bytes = self.segment_bytes
        other.epoch, other.written, other.pending = self.epoch, self.written, None
        other.model = copy.deepcopy(self.model)
        other.log = opened(other.disk, segment_bytes=self.segment_bytes)
        getattr(other, step)(number)
        return other.model

    def half_truncated(self, number: int) -> Iterator[View]:
        """Cut from the end towards the front, segment by segment."""
        for entry in self.model.entries:
            part = copy.deepcopy(self.model)
            part.truncate_to(entry.offset)
            yield from legal_views(part)


def legal_views(model: RaftLog) -> list[View]:
    return [view_of(after) for after in all_restarts(model)]


WORKLOADS: dict[str, list[tuple[str, int]]] = {
    "append and sync": [("append", 1), ("sync", 0), ("append", 2), ("append", 5)],
    "truncate": [("append", 5), ("append", 8), ("sync", 0), ("append", 5), ("truncate", 2),
                 ("append", 1)],
    "first snapshot": [("append", 5), ("sync", 0), ("append", 3), ("snapshot", 9)],
    "third snapshot": [("append", 3), ("snapshot", 9), ("append", 3), ("snapshot", 9),
                       ("append", 9), ("sync", 0), ("append", 3), ("snapshot", 5)],
    "install over a shorter log": [("append", 5), ("sync", 0), ("append", 3), ("install", 9),
                                   ("append", 1), ("sync", 0)],
    "install over another history": [("append", 5), ("snapshot", 2), ("append", 9), ("sync", 0),
                                     ("append", 3), ("install", 0), ("append", 1)],
}  # fmt: skip


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_crash_leaves_a_log_that_the_operations_explain(name: str) -> None:
    def workload(disk: SimDisk) -> None:
        pair = MarkingPair(disk)
        disk.mark(frozenset(legal_views(pair.model)))
        for step, number in WORKLOADS[name]:
            pair.do(step, number)

    states = CrashStates(workload, limits=CrashLimits(max_subset_effects=6))
    nothing = frozenset(legal_views(RaftLog()))
    for disk in states:
        legal = disk.marks[-1] if disk.marks else nothing
        log = opened(disk)
        assert view_of(log) in legal, disk.story
        assert log.durable_offset == log.log_end_offset
        log.release()
        before = disk.files()
        assert view_of(opened(disk)) == view_of(log), "a second start finds the same"
        changed = {path for path, data in disk.files().items() if before.get(path) != data}
        assert not any(path.endswith((".log", ".checkpoint")) for path in changed), changed
    assert states.count > 30


# Stories


def text_entry(offset: int, *texts: str, epoch: int = 1) -> LogEntry:
    return LogEntry(offset, epoch, texts or ("x",))


def filled(disk: SimDisk | FileDisk, count: int = 10) -> MetadataLog:
    log = opened(disk)
    log.append(tuple(text_entry(offset, f"record {offset}") for offset in range(count)))
    log.sync()
    return log


def test_it_lives_beside_the_logs_of_a_broker_and_has_kafkas_names(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    format_directory(disk, MetaProperties("c", 1, b"d" * 16))
    log = filled(disk)
    log.write_snapshot(SnapshotId(10, 1), ("state",), ())
    log.close()
    assert (tmp_path / DIRECTORY / "00000000000000000010-0000000001.checkpoint").exists()
    assert (tmp_path / DIRECTORY / "partition.metadata").read_text() == (
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
    )
    directory = LogDirectory.open(disk, lambda _: LogConfig(), cluster_id="c", node_id=1)
    assert METADATA not in directory.logs
    directory.close(broker_epoch=1, high_watermarks={})
    again = opened(disk)
    assert again.read_snapshot(SnapshotId(10, 1)) == ("state",)
    assert (again.log_start_offset, again.log_end_offset, again.last_epoch) == (10, 10, 1)
    again.close()


def test_a_snapshot_is_served_in_parts() -> None:
    log = filled(SimDisk())
    log.write_snapshot(SnapshotId(5, 1), tuple(f"state {each}" for each in range(30)), ())
    size, first = log.snapshot_chunk(SnapshotId(5, 1), 0, 100) or (0, b"")
    assert len(first) == 100
    _, rest = log.snapshot_chunk(SnapshotId(5, 1), 100, EVERYTHING) or (0, b"")
    assert len(first + rest) == size
    other = opened(SimDisk())
    other.install_snapshot(SnapshotId(5, 1), first + rest)
    assert len(other.read_snapshot(SnapshotId(5, 1))) == 30
    assert log.snapshot_chunk(SnapshotId(6, 1), 0, 100) is None


def test_a_part_of_a_snapshot_is_not_installed() -> None:
    log = filled(SimDisk())
    content = TextCodec().encode_snapshot(SnapshotId(50, 2), ("state",), (), 0)
    for bad in (content[:-1], content[:100], b"", bytes(len(content))):
        with pytest.raises(CorruptFile, match="0050-0000000002"):
            log.install_snapshot(SnapshotId(50, 2), bad)
    assert (log.log_end_offset, log.latest_snapshot) == (10, None)


def flip(disk: SimDisk, path: str, position: int) -> None:
    disk.flip_bit(f"{DIRECTORY}/{path}", position)


def test_a_bad_snapshot_is_replaced_by_the_older_one_and_the_log() -> None:
    disk = SimDisk()
    log = filled(disk)
    for end in (3, 6, 9):
        log.write_snapshot(SnapshotId(end, 1), (f"state {end}",), ())
    assert (log.oldest_snapshot, log.latest_snapshot) == ((6, 1), (9, 1))
    flip(disk, "00000000000000000009-0000000001.checkpoint", 70)
    again = opened(disk)
    assert (again.oldest_snapshot, again.latest_snapshot) == ((6, 1), (6, 1))
    assert [entry.offset for entry in again.entries_from(6, 99)] == [6, 7, 8, 9]
    assert "checkpoint" in str(again.repairs[0])


def test_without_any_good_snapshot_a_log_that_starts_late_is_refused() -> None:
    disk = SimDisk()
    log = filled(disk)
    log.write_snapshot(SnapshotId(6, 1), ("state",), ())
    flip(disk, "00000000000000000006-0000000001.checkpoint", 70)
    with pytest.raises(CorruptFile, match="no good snapshot"):
        opened(disk)


def test_an_entry_that_was_synced_and_has_gone_bad_is_refused_and_not_forgotten() -> None:
    disk = SimDisk()
    filled(disk, count=2).close()
    flip(disk, "00000000000000000000.log", 80)
    with pytest.raises(CorruptSegment):
        opened(disk)


def test_on_a_full_disk_nothing_is_half_done() -> None:
    disk = SimDisk()
    log = filled(disk)
    disk.inject("write", error=28, lasting=True, partial_bytes=20)
    with pytest.raises(NoSpace):
        log.append((text_entry(10), text_entry(11)))
    with pytest.raises(NoSpace):
        log.write_snapshot(SnapshotId(6, 1), ("state",), ())
    assert (log.log_end_offset, log.latest_snapshot) == (10, None)
    assert log.entries_from(9, 5) == (text_entry(9, "record 9"),)
    disk.heal()
    log.append((text_entry(10),))
    log.write_snapshot(SnapshotId(6, 1), ("state",), ())
    assert view_of(opened(disk)) == view_of(log)


def test_snapshots_give_the_space_of_old_entries_back() -> None:
    disk = SimDisk()
    log = filled(disk, count=60)
    for end in (20, 40, 60):
        log.write_snapshot(SnapshotId(end, 1), ("state",), ())
    names = disk.list(DIRECTORY)
    segments = [name for name in names if name.endswith(".log")]
    assert len([name for name in names if name.endswith(".checkpoint")]) == 2
    assert int(segments[0][:20]) > 30
    assert not any(name.endswith(".deleted") for name in names)
    assert log.log_start_offset == 40
