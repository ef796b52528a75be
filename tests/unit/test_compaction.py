"""Compaction: what stays, what goes, when, and what others make of what is left."""

import errno
import warnings
from collections import Counter

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.memory_records import MemoryRecords as AioRecords

from support.batches import offsets
from support.compacted_logs import END, NAME, Bench
from tidelog.sim.disk_state import Effect, Rename, SyncDirectory, SyncFile
from tidelog.sim.log_check import log_faults
from tidelog.storage import CorruptSegment, LogConfig, NoSpace, UnexpectedAppend
from tidelog.storage.checkpoints import CLEAN_POINTS, write_offsets
from tidelog.storage.compaction import CompactionProgress, groups_of, survey
from tidelog.storage.config import CleanupPolicy
from tidelog.storage.key_offsets import KeyOffsets
from tidelog.wire.records import (
    CODEC_NAMES,
    SNAPPY,
    Record,
    decode,
    encode,
    iter_batches,
    read_header,
)

with warnings.catch_warnings():
    # It reads its schemas through a function that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch as PythonBatch
    from kafka.record.memory_records import MemoryRecords as PythonRecords

OTHER = ("u", 0)
DAY_MS = 24 * 3_600_000


def test_the_newest_record_of_a_key_stays_at_its_offset() -> None:
    bench = Bench()
    bench.put((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    bench.put((b"c", b"1"))
    bench.put((b"a", b"3"))
    bench.compact()
    assert bench.records() == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"a", b"3")]
    assert bench.directory.clean_point(NAME) == 5


def test_the_last_segment_is_left_alone() -> None:
    bench = Bench()
    bench.put((b"a", b"1"))
    bench.put((b"a", b"2"))
    assert bench.compact_once() is None
    bench.log.roll()
    bench.put((b"a", b"3"))
    while bench.compact_once():
        pass
    assert bench.records() == [(1, b"a", b"2"), (2, b"a", b"3")]


def test_what_is_not_committed_supersedes_nothing() -> None:
    bench = Bench(segment_bytes=100)
    bench.put((b"a", b"1"))
    bench.put((b"a", b"2"))
    bench.log.roll()
    bench.log.sync()
    plan = survey(bench.log, clean_point=0, high_watermark=1, now_ms=bench.now_ms)
    assert [segment.base_offset for segment in plan.sources] == [0]


def test_a_tombstone_goes_when_readers_had_time_to_see_it() -> None:
    bench = Bench(delete_retention_ms=DAY_MS)
    bench.put((b"a", b"1"), (b"b", b"1"))
    bench.put((b"a", None))
    bench.compact()
    assert bench.records() == [(1, b"b", b"1"), (2, b"a", None)]
    header = read_header(bench.log.read(2, END, 1)[0])
    assert header.has_delete_horizon
    assert header.base_timestamp == bench.now_ms + DAY_MS
    bench.now_ms += DAY_MS - 1
    bench.put((b"c", b"1"))
    bench.compact()
    assert (2, b"a", None) in bench.records()
    bench.now_ms += 1
    bench.put((b"d", b"1"))
    bench.compact()
    assert bench.records() == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"d", b"1")]


def test_a_delete_horizon_changes_no_record_time() -> None:
    bench = Bench()
    bench.put((b"a", None), (b"b", b"1"))
    before = bench.log.offset_for_timestamp(bench.now_ms)
    bench.compact()
    (run,) = bench.log.read(0, END, 1000)
    assert {record.timestamp for record in decode(run)} == {bench.now_ms}
    assert bench.log.offset_for_timestamp(bench.now_ms) == before
    assert bench.log.offset_for_timestamp(bench.now_ms + 1) is None


def test_a_wall_clock_that_jumps_takes_no_tombstone_early() -> None:
    bench = Bench(delete_retention_ms=DAY_MS)
    bench.put((b"a", None))
    bench.compact()
    bench.put((b"b", b"1"))
    bench.log.roll()
    bench.directory.compact_once(
        wall_ms=bench.now_ms + 2 * DAY_MS,
        monotonic_ms=bench.now_ms + 5,
        high_watermarks={NAME: 2},
    )
    assert (0, b"a", None) in bench.records()


def test_a_record_without_a_key_goes() -> None:
    bench = Bench()
    bench.put((None, b"1"), (b"a", b"1"))
    bench.compact()
    assert bench.records() == [(1, b"a", b"1")]


def test_an_aborted_record_goes_and_supersedes_nothing() -> None:
    bench = Bench()
    bench.put((b"a", b"1"))
    bench.put((b"a", b"aborted"), (b"b", b"aborted"), producer=7)
    bench.end(7, commit=False)
    bench.put((b"c", b"1"), producer=7, sequence=2)
    bench.end(7, commit=True)
    bench.compact()
    assert bench.records() == [(0, b"a", b"1"), (4, b"c", b"1")]


def test_an_open_transaction_holds_compaction_back() -> None:
    bench = Bench()
    bench.put((b"a", b"1"))
    bench.put((b"a", b"2"), producer=7)
    bench.compact()
    assert bench.records() == [(0, b"a", b"1"), (1, b"a", b"2")]
    bench.end(7, commit=True)
    bench.compact()
    assert bench.records() == [(1, b"a", b"2")]


def test_a_marker_stays_while_its_records_may_and_then_as_long_as_a_tombstone() -> None:
    bench = Bench(delete_retention_ms=DAY_MS)
    bench.put((b"a", b"1"), producer=7)
    bench.end(7, commit=True)
    bench.put((b"a", b"2"), producer=7, sequence=1)
    bench.end(7, commit=True)
    seen = []
    for key in (b"x", b"y", b"z"):
        bench.put((key, b"1"))
        bench.compact()
        seen.append(bench.markers())
        bench.now_ms += DAY_MS
    assert seen == [2, 2, 1]
    assert bench.log.producers.first_unstable_offset(END) is None


def test_sequences_are_known_after_all_records_of_a_producer_are_gone() -> None:
    bench = Bench()
    bench.put((b"a", b"1"), (b"a", b"2"), producer=7)
    bench.end(7, commit=True)
    bench.put((b"a", b"3"))
    bench.compact()
    assert bench.records() == [(3, b"a", b"3")]
    for name in bench.disk.list("t-0"):
        if name.endswith(".snapshot"):
            bench.disk.remove(f"t-0/{name}")
    bench.open()
    entry = bench.log.producers.get(7)
    assert entry is not None
    assert entry.last_sequence == 1
    assert entry.current_txn_first_offset == -1


def test_a_follower_copies_a_log_with_gaps_up_to_its_end() -> None:
    leader = Bench(segment_bytes=300)
    for number in range(12):
        leader.put((b"abc"[number % 3 : number % 3 + 1], b"%d" % number))
    leader.put((b"d", None))
    leader.compact()
    follower = Bench(segment_bytes=200)
    while follower.log.log_end_offset < leader.log.log_end_offset:
        runs = leader.log.read(follower.log.log_end_offset, END, 1)
        follower.log.append_as_follower(runs)
    assert log_faults(follower.disk, follower.log) == []
    assert follower.records() == leader.records()
    follower.directory.sync_dirty()
    follower.config.cleanup_policy = ("delete",)  # no longer compacted, and still with gaps
    follower.open()
    assert follower.directory.refused == {}
    assert follower.records() == leader.records()


def test_only_a_log_that_may_have_gaps_takes_them() -> None:
    bench = Bench(cleanup_policy=("delete",))
    late = encode([Record(9, 1, b"k", b"v")], base_offset=9, leader_epoch=0)
    with pytest.raises(UnexpectedAppend):
        bench.log.append_as_follower([late])
    bench.log.allow_gaps()
    bench.log.append_as_follower([late])
    assert offsets(bench.log.read(0, END, 100)) == [(9, 9)]
    bench.log.sync()
    bench.open()
    assert bench.log.log_end_offset == 10
    assert log_faults(bench.disk, bench.log) == []
    with pytest.raises(UnexpectedAppend):
        bench.log.append_as_follower([late])


@pytest.mark.parametrize("offset", [9, 8, 5, 4])
def test_a_truncation_into_a_gap_ends_behind_the_last_batch_that_is_left(offset: int) -> None:
    bench = Bench()
    for base in (0, 3, 9):
        data = encode([Record(base, 1, b"k", b"v")], base_offset=base, leader_epoch=base)
        bench.log.append_as_follower([data])
    bench.log.truncate_to(offset)
    assert bench.log.log_end_offset == 4
    assert log_faults(bench.disk, bench.log) == []
    bench.log.sync()
    bench.open()
    assert bench.log.log_end_offset == 4
    assert bench.log.epochs.entries == [(0, 0), (3, 1)]


def test_a_base_offset_that_rots_is_found_unless_a_gap_hides_it() -> None:
    bench = Bench()
    for number in range(4):
        bench.put((b"%d" % number, b"v"))
    bench.log.sync()
    bench.directory.unstored.store_all()
    bench.directory.checkpoint_recovery_points()
    file = bench.disk.open("t-0/00000000000000000000.log")
    second = read_header(file.read(0, 61)).size_bytes
    file.write(second, (2).to_bytes(8, "big"))
    for offset in (1, 2):
        with pytest.raises(CorruptSegment) as error:
            bench.log.read(offset, END, 1)
        assert error.value.offset == 1
    bench.open()
    assert NAME in bench.directory.refused


def test_segments_are_put_together_as_far_as_they_fit() -> None:
    bench = Bench(segment_bytes=400)
    for number in range(20):
        bench.put((b"%d" % (number % 4), b"v" * 20))
    bench.compact()
    before = len(bench.log.segments)
    bench.put((b"9", b"v"))
    bench.compact()
    assert len(bench.log.segments) < before
    assert all(segment.size <= 400 for segment in bench.log.segments)


def test_indexes_bound_a_group_too() -> None:
    bench = Bench(segment_bytes=400, index_interval_bytes=1)
    for number in range(20):
        bench.put((b"%d" % number, b"v" * 20))
    bench.config.segment_bytes = 10_000
    segments = bench.log.segments
    assert len(groups_of(segments, bench.config)) == 1
    bench.config.index_size_max_bytes = 8 * 8
    assert all(
        sum(len(segment.offsets) + 1 for segment in group) <= 8
        for group in groups_of(segments, bench.config)
    )


def test_more_keys_than_fit_take_several_passes() -> None:
    bench = Bench()
    for turn in range(2):
        bench.put(*((b"%d" % n, b"%d" % turn) for n in range(10)))
    bench.log.roll()
    points = []
    while progress := bench.compact_once(dedupe_buffer_bytes=700):
        points.append(progress.clean_point)
    assert len(points) > 3
    assert points == sorted(points)
    assert bench.records() == [(10 + n, b"%d" % n, b"1") for n in range(10)]


def test_the_key_map_tells_long_keys_apart() -> None:
    known = KeyOffsets(10_000, -1)
    assert known.put(b"x" * 100, 4)
    assert known.put(b"x" * 101, 6)
    assert known.put(b"x" * 100, 9)
    assert (known.newest(b"x" * 100), known.newest(b"x" * 101)) == (9, 6)
    assert known.newest(b"x" * 99) == -1


def test_the_filthiest_log_comes_first() -> None:
    bench = Bench()
    bench.directory.create_log(OTHER, b"another topic id")
    other = bench.directory.logs[OTHER]
    for log in (bench.log, other):
        bench.put((b"a", b"v" * 50), log=log)
        log.roll()
    while bench.compact_once():
        pass
    for log, size in ((bench.log, 10), (other, 90)):
        bench.put((b"b", b"v" * size), log=log)
        log.roll()
    first = bench.compact_once()
    assert first is not None
    assert first.partition == OTHER


def test_a_log_must_be_dirty_enough_or_dirty_for_too_long() -> None:
    bench = Bench(min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=1000, segment_ms=10**9)
    bench.put(*((b"%d" % n, b"v") for n in range(20)))
    bench.compact()
    bench.put((b"1", b"w"))
    bench.log.roll()
    assert bench.compact_once() is None
    bench.now_ms += 1001
    assert bench.compact_once() is not None


def test_records_are_left_alone_while_they_are_young() -> None:
    bench = Bench(min_compaction_lag_ms=1000)
    bench.put((b"a", b"1"), (b"a", b"2"))
    bench.log.roll()
    bench.now_ms += 999
    assert bench.compact_once() is None
    bench.now_ms += 1
    assert bench.compact_once() is not None


def test_an_active_segment_ends_in_time_for_the_longest_lag() -> None:
    config = LogConfig(cleanup_policy=("compact",), max_compaction_lag_ms=10)
    assert config.longest_segment_ms == 10
    config.cleanup_policy = ("delete",)
    assert config.longest_segment_ms == config.segment_ms


def test_a_slice_is_bounded_and_the_log_is_used_in_between() -> None:
    bench = Bench(segment_bytes=300)
    for number in range(9):
        bench.put((b"a", b"%d" % number))
    bench.log.roll()
    slices = 0
    while progress := bench.compact_once(budget_bytes=1):
        slices += 1
        bench.put((b"b", b"%d" % slices))
        assert bench.log.read(8, END, 1)
        if progress.finished:
            break
    assert slices > 9
    assert bench.records()[0] == (8, b"a", b"8")


class Effects:
    """Counts them by type."""

    def __init__(self) -> None:
        self.counts: Counter[type] = Counter()

    def before(self, effect: Effect) -> None:
        self.counts[type(effect)] += 1

    def reading(self, size_bytes: int) -> None: ...


def effects_of_slices(bench: Bench) -> list[Counter[type]]:
    """What a whole pass does to the disk, in slices as on an event loop."""
    slices, progress = [], True
    while progress:
        bench.directory.sync_dirty()
        bench.disk.watcher = effects = Effects()
        progress = bench.compact_once(budget_bytes=256 * 1024) is not None
        slices.append(effects.counts)
    return slices


def test_a_slice_syncs_a_few_times_whatever_the_size_of_segments() -> None:
    """A swap reads nothing, and syncs a dozen times: on a slow disk that held the event loop for
    100 ms."""
    bench = Bench(segment_bytes=100)
    for number in range(40):
        bench.put((b"k", b"%d" % number))
    slices = effects_of_slices(bench)
    syncs = [each[SyncFile] + each[SyncDirectory] for each in slices]
    assert sum(syncs) > 100
    assert max(syncs) <= 5


def test_a_swap_renames_the_files_of_a_few_segments_however_small_they_are() -> None:
    """All of it is one piece of work on the event loop: 300 tiny segments held it for 100 ms."""
    bench = Bench()
    for number in range(300):
        bench.put((b"k", b"%d" % number))
        bench.log.roll()
    renames = [each[Rename] for each in effects_of_slices(bench)]
    assert sum(renames) > 500
    assert max(renames) < 300
    bench.put((b"k", b"last"))
    bench.compact()
    assert len(bench.log.segments) < 10
    assert bench.records() == [(300, b"k", b"last")]


@pytest.mark.parametrize("interruption", ["truncate", "retain", "delete", "close"])
@pytest.mark.parametrize("slices", range(7, 14))
def test_a_pass_is_given_up_when_its_segments_change(slices: int, interruption: str) -> None:
    """Wherever it is: while it copies, and between the steps that prepare a swap."""
    bench = Bench(segment_bytes=100)
    for number in range(6):
        bench.put((b"a", b"%d" % number))
    bench.log.roll()
    for _ in range(slices):
        assert bench.compact_once(budget_bytes=1)
    if interruption == "truncate":
        bench.log.truncate_to(3)
    elif interruption == "retain":
        bench.log.raise_log_start(4)
        bench.log.apply_retention(0, 6)
    elif interruption == "delete":
        bench.directory.delete_log(NAME)
        assert bench.compact_once() is None
        return
    else:
        bench.directory.close(broker_epoch=1, high_watermarks={})
        bench.open()
    progress = bench.compact_once(budget_bytes=1)
    assert progress is not None
    assert not [name for name in bench.disk.list("t-0") if name.endswith(".swap")]
    bench.compact()
    assert not [name for name in bench.disk.list("t-0") if name.endswith((".swap", ".cleaned"))]
    assert bench.records()[-1][2] == (b"2" if interruption == "truncate" else b"5")


def test_a_full_device_ends_a_pass_and_leaves_no_trace() -> None:
    bench = Bench()
    bench.put((b"a", b"1"))
    bench.put((b"a", b"2"))
    bench.log.roll()
    bench.disk.inject(
        "write", path="t-0/00000000000000000000.log.cleaned", error=errno.ENOSPC, partial_bytes=9
    )
    with pytest.raises(NoSpace):
        bench.compact_once()
    assert not [name for name in bench.disk.list("t-0") if name.endswith(".cleaned")]
    bench.compact()
    assert bench.records() == [(1, b"a", b"2")]


def test_a_bad_segment_is_reported_once_and_left_alone() -> None:
    bench = Bench()
    bench.put((b"a", b"1" * 50))
    bench.log.roll()
    file = bench.disk.open("t-0/00000000000000000000.log")
    file.write(100, b"\xff")
    progress = bench.compact_once()
    assert progress is not None
    assert progress.clean_point == 0
    assert any("checksum" in str(problem) for problem in bench.directory.repairs)
    assert bench.compact_once() is None


@pytest.mark.parametrize("segments", [1, 2])
def test_a_rotten_base_offset_at_the_end_of_a_segment_ends_the_pass(segments: int) -> None:
    """Gaps are allowed here: only where the segment ends shows that the offset is wrong."""
    bench = Bench()
    for _ in range(segments):
        bench.put((b"a", b"1"))
        bench.put((b"a", b"2"))
        bench.log.roll()
    file = bench.disk.open("t-0/00000000000000000000.log")
    second = read_header(file.read(0, 61)).size_bytes
    file.write(second, (1 << 20 | 1).to_bytes(8, "big"))
    assert bench.compact_once() == CompactionProgress(NAME, finished=True, clean_point=0)
    assert any("behind the segment" in str(problem) for problem in bench.directory.repairs)
    assert bench.compact_once() is None


@pytest.mark.parametrize(("policy", "kept"), [(("compact",), 3), (("compact", "delete"), 1)])
def test_age_is_a_reason_to_delete_only_if_the_policy_says_so(
    policy: tuple[CleanupPolicy, ...], kept: int
) -> None:
    bench = Bench(segment_bytes=100, retention_ms=10, cleanup_policy=policy)
    for number in range(3):
        bench.put((b"%d" % number, b"v"))
        bench.now_ms += 100
    bench.directory.apply_retention(
        wall_ms=bench.now_ms - 100, monotonic_ms=bench.now_ms - 100, high_watermarks={NAME: 3}
    )
    assert len(bench.records()) == kept


def test_clean_points_are_kept_in_a_file_and_lowered_by_truncation() -> None:
    bench = Bench()
    bench.put((b"a", b"1"))
    bench.put((b"b", b"1"))
    bench.compact()
    assert bench.disk.files()[CLEAN_POINTS] == b"0\n1\nt 0 2\n"
    bench.directory.unstored.store_all()
    bench.directory.checkpoint_recovery_points()
    bench.open()
    assert bench.directory.clean_point(NAME) == 2
    bench.log.truncate_to(1)
    assert bench.disk.files()[CLEAN_POINTS] == b"0\n1\nt 0 1\n"


def test_without_the_file_of_clean_points_a_compacted_log_still_opens() -> None:
    bench = Bench()
    bench.put((b"a", b"1"))
    bench.put((b"b", b"1"))
    bench.put((b"a", b"2"))
    bench.compact()
    file = bench.disk.open(CLEAN_POINTS)
    file.write(0, b"garbage")
    bench.config.cleanup_policy = ("delete",)
    bench.open()
    assert bench.directory.refused == {}
    assert bench.records() == [(1, b"b", b"1"), (2, b"a", b"2")]
    write_offsets(bench.disk, CLEAN_POINTS, {NAME: 99})
    bench.config.cleanup_policy = ("compact",)
    bench.open()
    bench.compact()
    assert bench.records() == [(1, b"b", b"1"), (2, b"a", b"2")]


@pytest.mark.parametrize("codec", sorted(CODEC_NAMES), ids=lambda codec: CODEC_NAMES[codec])
def test_other_clients_read_what_compaction_leaves(codec: int) -> None:
    bench = Bench()
    bench.put((b"a", b"old"), (b"b", b"1" * 200), (b"c", b"1"), producer=7, codec=codec)
    bench.end(7, commit=True)
    bench.put((b"a", b"new"), (b"c", None), codec=codec)
    bench.put((b"e", b"1"), (b"e", b"2"), producer=8, codec=codec)
    bench.end(8, commit=True)
    bench.put((b"e", b"3"), codec=codec)
    bench.compact()
    content = bench.disk.files()["t-0/00000000000000000000.log"]
    assert any(header.record_count == 0 for _, header in iter_batches(content))
    # kafka-python wants another package for snappy.
    for reader in [AioBatch] if codec == SNAPPY else [AioBatch, PythonBatch]:
        seen = []
        for at, header in iter_batches(content):
            theirs = reader(content[at : at + header.size_bytes])
            assert theirs.validate_crc()
            rows = [(r.offset, r.timestamp, r.key, r.value) for r in theirs]
            if not header.is_control:
                seen += [(offset, key, value) for offset, _, key, value in rows]
            assert all(timestamp == bench.now_ms for _, timestamp, _, _ in rows)
        assert seen == bench.records()
    for whole in (AioRecords(content), PythonRecords(content)):
        count = 0
        while whole.has_next():
            whole.next_batch()
            count += 1
        assert count == len(list(iter_batches(content)))
