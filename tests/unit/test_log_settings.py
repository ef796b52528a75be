"""A log follows its settings: altered ones count at the next append."""

from dataclasses import replace

import pytest

from support.batches import batch
from tidelog.sim.disk import SimDisk
from tidelog.sim.log_check import log_faults
from tidelog.storage import Log, LogConfig
from tidelog.wire.records.run import BatchRun, read_run

DAY_MS = 24 * 3_600_000
BATCH_BYTES = len(batch(b"x" * 40))


def new_log(config: LogConfig | None = None) -> tuple[SimDisk, Log]:
    disk = SimDisk()
    disk.make_dir("t-0")
    return disk, Log.open(disk, "t-0", config or LogConfig())


def fill(log: Log, count: int, *, first_ms: int = 1000, step_ms: int = 0) -> None:
    for number in range(count):
        log.append_as_leader(batch(b"x" * 40, time_ms=first_ms + number * step_ms), 0)


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_a_smaller_segment_size_counts_at_the_next_append() -> None:
    disk, log = new_log()
    fill(log, 6)
    log.config.become(LogConfig(segment_bytes=2 * BATCH_BYTES))
    fill(log, 4)
    assert bases(log) == [0, 6, 8]
    assert log_faults(disk, log) == []


def test_a_larger_segment_size_counts_for_the_segment_that_is_open() -> None:
    _, log = new_log(LogConfig(segment_bytes=2 * BATCH_BYTES))
    fill(log, 3)
    log.config.become(LogConfig(segment_bytes=4 * BATCH_BYTES))
    fill(log, 4)
    assert bases(log) == [0, 2, 6]


def test_a_shorter_segment_time_counts_at_the_next_append() -> None:
    _, log = new_log()
    fill(log, 3, step_ms=100)
    log.config.become(LogConfig(segment_ms=50))
    fill(log, 3, first_ms=1300, step_ms=100)
    assert bases(log) == [0, 3, 4, 5]


def test_the_longest_compaction_lag_ends_the_open_segment_of_a_compacted_log() -> None:
    _, log = new_log()
    fill(log, 1)
    log.config.become(LogConfig(max_compaction_lag_ms=50))
    fill(log, 1, first_ms=1100)
    assert bases(log) == [0], "it is not compacted"
    log.config.become(LogConfig(max_compaction_lag_ms=50, cleanup_policy=("compact",)))
    fill(log, 1, first_ms=1200)
    assert bases(log) == [0, 2]


def test_the_interval_and_the_size_of_indexes_count_at_the_next_append() -> None:
    disk, log = new_log(LogConfig(index_interval_bytes=1 << 20))
    fill(log, 5)
    assert len(log.segments[0].offsets) == 0
    log.config.become(LogConfig(index_interval_bytes=1))
    fill(log, 4)
    assert len(log.segments[0].offsets) == 4
    log.config.become(LogConfig(index_interval_bytes=1, index_size_max_bytes=4 * 8))
    fill(log, 1)
    assert bases(log) == [0, 9]
    assert log_faults(disk, log) == []


def test_settings_reach_a_segment_that_a_truncation_makes_the_last_one() -> None:
    _, log = new_log(LogConfig(segment_bytes=4 * BATCH_BYTES))
    fill(log, 6)
    log.config.become(LogConfig(segment_bytes=2 * BATCH_BYTES))
    log.truncate_to(3)
    assert bases(log) == [0]
    fill(log, 1)
    assert bases(log) == [0, 3]


def test_a_log_keeps_its_own_copy_of_the_settings_it_is_given() -> None:
    """The replicas of a topic share one object, and may not change one another."""
    shared = LogConfig(segment_bytes=2 * BATCH_BYTES)
    _, log = new_log(shared)
    _, other = new_log(shared)
    log.config.become(replace(shared, segment_bytes=1 << 20))
    fill(log, 4)
    fill(other, 4)
    assert (bases(log), bases(other)) == ([0], [0, 2])
    assert shared.segment_bytes == 2 * BATCH_BYTES


def test_retention_finds_something_to_delete_once_the_segments_are_small() -> None:
    """The story of the field trial, scaled down: 12 segments, and 2 of retention."""
    _, log = new_log()
    log.config.become(LogConfig(segment_bytes=10 * BATCH_BYTES, retention_bytes=20 * BATCH_BYTES))
    fill(log, 120)
    log.sync()
    assert len(log.segments) == 12
    assert log.apply_retention(now_ms=1000, high_watermark=log.log_end_offset) == 10
    assert (log.log_start_offset, log.size_bytes) == (100, 20 * BATCH_BYTES)


def test_a_follower_that_is_sent_many_batches_at_once_rolls_like_its_leader() -> None:
    _, leader = new_log(LogConfig(segment_bytes=1 << 20))
    fill(leader, 9)
    (run,) = leader.read(0, 9, 1 << 20)
    header = read_run(run)
    assert isinstance(header, BatchRun)
    disk, follower = new_log()
    follower.config.become(LogConfig(segment_bytes=3 * BATCH_BYTES))
    follower.append_as_follower([run], [header])
    assert bases(follower) == [0, 3, 6]
    assert log_faults(disk, follower) == []


@pytest.mark.parametrize("jitter_ms", [0, 10, 2 * DAY_MS])
def test_jitter_is_within_its_bounds_and_differs_from_segment_to_segment(jitter_ms: int) -> None:
    config = LogConfig(segment_ms=DAY_MS, segment_jitter_ms=jitter_ms)
    drawn = [DAY_MS - config.roll_after_ms(f"t-{n}/{n:020d}.log") for n in range(200)]
    assert all(0 <= each <= min(jitter_ms, DAY_MS) for each in drawn)
    assert len(set(drawn)) > 5 or jitter_ms == 0


def test_segments_of_different_logs_end_at_different_times() -> None:
    disk = SimDisk()
    ends = set()
    for number in range(8):
        disk.make_dir(f"t-{number}")
        log = Log.open(disk, f"t-{number}", LogConfig(segment_ms=1000, segment_jitter_ms=900))
        for time_ms in range(1000):
            log.append_as_leader(batch(b"x", time_ms=time_ms), 0)
            if len(log.segments) > 1:
                break
        ends.add(time_ms)
    assert len(ends) > 1
