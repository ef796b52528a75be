"""Segments that Kafka compacted may end before the next one begins."""

import pytest

from tidelog.sim.disk import SimDisk
from tidelog.storage import Log, LogConfig, checkpoints, clean_shutdown, kafka_gaps
from tidelog.storage.errors import CorruptSegment
from tidelog.wire.records import Record, encode, iter_batches

DIRECTORY = "changes-0"
NAME = ("changes", 0)
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100, cleanup_policy=("compact",))


def as_kafka_leaves_it(cut_batches: int, *, stopped_as: int | None = 15) -> SimDisk:
    """A log of some segments whose first one has lost its last batches; compacted up to the last
    segment, and stopped in order."""
    disk = SimDisk()
    disk.make_dir(DIRECTORY)
    log = Log.open(disk, DIRECTORY, CONFIG)
    for number in range(40):
        log.append_as_leader(encode([Record(0, number, b"k%d" % number, b"v" * 20)]), 3)
    first, clean_point = log.segments[0], log.segments[-1].base_offset
    starts = [(batch.position, batch.header.base_offset) for batch in first.batches()]
    position, offset = starts[-cut_batches]
    assert cut_batches < len(starts) or position == 0
    first.cut_at(position, offset)
    log.close()
    checkpoints.write_offsets(disk, checkpoints.CLEAN_POINTS, {NAME: clean_point})
    if stopped_as is not None:
        clean_shutdown.write_marker(disk, stopped_as)
    return disk


def opened(disk: SimDisk) -> Log:
    return Log.open(disk, DIRECTORY, CONFIG, clean_shutdown=True, gaps=True)


def offsets_of(log: Log) -> list[int]:
    """Of all records, read as a consumer reads: each time behind what it got."""
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        for run in log.read(offset, log.log_end_offset, 200):
            for _, header in iter_batches(run):
                found += range(header.base_offset, header.base_offset + header.record_count)
                offset = header.next_offset
    return found


@pytest.mark.parametrize("cut_batches", [1, 3])
def test_a_reader_finds_its_way_over_what_kafka_compacted_away(cut_batches: int) -> None:
    disk = as_kafka_leaves_it(cut_batches)
    with pytest.raises(CorruptSegment):
        offsets_of(opened(as_kafka_leaves_it(cut_batches)))
    assert kafka_gaps.fill_gaps(disk) == {DIRECTORY: 1}
    log = opened(disk)
    gone = range(log.segments[1].base_offset - cut_batches, log.segments[1].base_offset)
    assert offsets_of(log) == [each for each in range(40) if each not in gone]
    assert kafka_gaps.fill_gaps(disk) == {}, "once is enough"


def test_a_segment_that_is_compacted_to_nothing_is_passed_too() -> None:
    disk = as_kafka_leaves_it(1)
    size = len(disk.files()[f"{DIRECTORY}/{0:020d}.log"])
    assert size > 0
    whole = opened(as_kafka_leaves_it(1)).segments[0]
    disk = as_kafka_leaves_it(len(list(whole.batches())) + 1)
    assert disk.files()[f"{DIRECTORY}/{0:020d}.log"] == b""
    assert kafka_gaps.fill_gaps(disk) == {DIRECTORY: 1}
    log = opened(disk)
    assert offsets_of(log) == list(range(log.segments[1].base_offset, 40))


def test_where_we_ran_last_a_missing_end_is_a_loss_and_stays_one() -> None:
    disk = as_kafka_leaves_it(1)
    kafka_gaps.note_stop(disk, 15)
    assert kafka_gaps.fill_gaps(disk) == {}


def test_after_a_crash_nothing_is_assumed() -> None:
    assert kafka_gaps.fill_gaps(as_kafka_leaves_it(1, stopped_as=None)) == {}


def test_after_kafka_ran_behind_us_its_compaction_is_expected() -> None:
    disk = as_kafka_leaves_it(1, stopped_as=21)
    kafka_gaps.note_stop(disk, 15)
    assert kafka_gaps.fill_gaps(disk) == {DIRECTORY: 1}
