"""Batches taken for one run: what makes a run, and that a log cannot tell the difference."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.broker.replication.fetched_batch import RUN_BYTES_MAX, fetched_batches
from tidelog.host.disk import FileDisk
from tidelog.storage import Log, LogConfig
from tidelog.wire.records import Record, encode, iter_batches, stamp
from tidelog.wire.records.run import BatchRun, read_run

EPOCH = 3


def batch(base_offset: int, times: list[int], epoch: int = EPOCH, producer: int = -1) -> bytearray:
    producer_of = (
        {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0} if producer >= 0 else {}
    )
    records = [Record(n, time, b"k", b"v") for n, time in enumerate(times)]
    data = bytearray(encode(records, **producer_of))
    stamp(data, 0, base_offset=base_offset, leader_epoch=epoch)
    return data


def chain(first_offset: int, times: list[list[int]]) -> bytearray:
    data = bytearray()
    for each in times:
        data += batch(first_offset, each)
        first_offset += len(each)
    return data


times_of_batches = st.lists(
    st.lists(st.integers(0, 5_000), min_size=1, max_size=3), min_size=1, max_size=6
)


@given(first_offset=st.integers(0, 2**40), times=times_of_batches)
def test_a_run_has_the_offsets_and_the_newest_time_of_its_batches(
    first_offset: int, times: list[list[int]]
) -> None:
    data = chain(first_offset, times)
    run = read_run(data)
    assert run is not None
    headers = [header for _, header in iter_batches(data)]
    newest = max(headers, key=lambda each: each.max_timestamp)
    assert (run.base_offset, run.next_offset) == (first_offset, headers[-1].next_offset)
    assert (run.size_bytes, run.leader_epoch, run.producer_id) == (len(data), EPOCH, -1)
    assert (run.max_timestamp, run.offset_of_max_timestamp) == (
        newest.max_timestamp,
        newest.last_offset,
    )


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(bytes(200), id="zeroes"),
        pytest.param(chain(0, [[1], [2]])[:-1], id="a torn end"),
        pytest.param(batch(0, [1]) + batch(2, [1]), id="a gap"),
        pytest.param(batch(0, [1]) + batch(1, [1], epoch=4), id="two leader epochs"),
        pytest.param(batch(0, [1], epoch=-1), id="no leader epoch"),
        pytest.param(batch(0, [1]) + batch(1, [1], producer=7), id="a producer with an id"),
    ],
)
def test_anything_else_is_no_run(data: bytes | bytearray) -> None:
    assert read_run(data) is None


@given(where=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_run_with_a_changed_bit_is_no_run_or_says_so(where: int, bit: int) -> None:
    data = chain(5, [[1], [2, 3], [4]])
    whole = read_run(data)
    data[where % len(data)] ^= 1 << bit
    changed = read_run(data)
    # What lies outside the checksums is offsets and epochs: a log and its leader know those.
    assert changed is None or changed != whole


def test_large_batches_are_not_taken_for_a_run() -> None:
    data = bytearray(encode([Record(0, 1, b"k", bytes(RUN_BYTES_MAX))]))
    stamp(data, 0, base_offset=0, leader_epoch=EPOCH)
    (found,) = fetched_batches(memoryview(data))
    assert not isinstance(found.header, BatchRun)


def new_log(data: Path, name: str) -> Log:
    disk = FileDisk(data)
    disk.make_dir(name)
    return Log.open(disk, name, LogConfig(index_interval_bytes=100))


@pytest.mark.parametrize("as_run", [True, False], ids=["a run", "several batches"])
def test_an_index_entry_is_the_last_offset_of_the_batch_that_it_points_at(
    tmp_path: Path, as_run: bool
) -> None:
    """What Kafka's `DumpLogSegments --verify-index-only` looks at."""
    log = new_log(tmp_path, "runs")
    for answer in range(6):
        times = [[answer * 100 + each] * (each % 3 + 1) for each in range(9)]
        records = memoryview(bytes(chain(log.log_end_offset, times)))
        if as_run:
            (found,) = fetched_batches(records)
            log.append_as_follower([found.data], [found.header])
        else:
            log.append_as_follower([records])
    (segment,) = log.segments
    assert len(segment.offsets) > 20
    last_offsets = {each.position: each.header.last_offset for each in segment.batches()}
    assert {position: offset for offset, position in segment.offsets.entries()} == {
        position: last_offsets[position] for _, position in segment.offsets.entries()
    }
    newest = {each.header.last_offset: each.header.max_timestamp for each in segment.batches()}
    assert all(newest[offset] == time for time, offset in segment.times.entries())


@settings(deadline=None, max_examples=25)  # it writes files
@given(answers=st.lists(times_of_batches, min_size=1, max_size=8))
def test_a_log_of_runs_is_the_log_of_their_batches(
    tmp_path_factory: pytest.TempPathFactory, answers: list[list[list[int]]]
) -> None:
    data = tmp_path_factory.mktemp("logs")
    by_run, by_batch = new_log(data, "runs"), new_log(data, "batches")
    for times in answers:
        records = memoryview(bytes(chain(by_run.log_end_offset, times)))
        (found,) = fetched_batches(records)
        by_run.append_as_follower([found.data], [found.header])
        by_batch.append_as_follower([records])
    assert by_run.log_end_offset == by_batch.log_end_offset
    assert by_run.newest_timestamp == by_batch.newest_timestamp
    for time in range(0, 5_001, 250):
        assert by_run.offset_for_timestamp(time) == by_batch.offset_for_timestamp(time)
    for log in (by_run, by_batch):
        log.close()
    for suffix in ("log", "index", "timeindex"):
        found = (sorted((data / name).glob(f"*.{suffix}")) for name in ("runs", "batches"))
        (one,), (other,) = found
        assert one.read_bytes() == other.read_bytes()
