"""T25, torn tail: a crash leaves half a batch on the disk (replication.md §2.4, §13).

These stories play on the storage engine and a virtual disk, not on the stage of the scenario
files. The log is the same in all of them: producer 7 has written batches of two records, three
batches to a segment, in leader epochs 0 and 1.
"""

import pytest

from support.batches import batch, offsets
from tidelog.core.replication.producers import ProducerEntry
from tidelog.sim.disk import SimDisk
from tidelog.sim.log_check import log_faults
from tidelog.storage import CorruptSegment, Log, LogConfig

DIRECTORY = "orders-0"
CONFIG = LogConfig(segment_bytes=260, index_interval_bytes=1)
FIRST, SECOND, THIRD = (f"{DIRECTORY}/{base:020d}" for base in (0, 6, 12))
END = 1 << 62


def written_log(disk: SimDisk) -> Log:
    """Offsets 0 to 15 in three segments: 0-5, 6-11, 12-15. Epoch 1 starts at 8."""
    disk.make_dir(DIRECTORY)
    log = Log.open(disk, DIRECTORY, CONFIG)
    for number in range(8):
        data = batch(b"r%d" % (2 * number), b"r", producer=7, sequence=2 * number)
        log.append_as_leader(data, 0 if number < 4 else 1)
    assert [segment.base_offset for segment in log.segments] == [0, 6, 12]
    return log


def restart_after_crash(disk: SimDisk, *, recovery_point: int, repair: bool = False) -> Log:
    return Log.open(disk, DIRECTORY, CONFIG, recovery_point=recovery_point, repair=repair)


def last_sequence_of_producer(log: Log) -> int:
    entry = log.producers.get(7)
    assert isinstance(entry, ProducerEntry)
    return entry.last_sequence


def tear(disk: SimDisk, path: str, *, keep_bytes_of_last_batch: int, batch_bytes: int) -> None:
    """Only the beginning of the last batch of this file had reached the disk."""
    file = disk.open(path)
    file.truncate(file.size() - batch_bytes + keep_bytes_of_last_batch)


def scribble(disk: SimDisk, path: str) -> None:
    file = disk.open(path)
    file.truncate(0)
    file.write(0, b"\xde\xad\xbe\xef" * 9)


def assert_ends_at(disk: SimDisk, log: Log, end: int) -> None:
    """A prefix of what was written, whole batches only, and everything else agrees with it."""
    assert log.log_end_offset == end
    found: list[tuple[int, int]] = []
    while len(found) < end // 2:
        found += offsets(log.read(2 * len(found), END, 10**6))
    assert found == [(at, at + 1) for at in range(0, end, 2)]
    assert last_sequence_of_producer(log) == end - 1
    assert log_faults(disk, log) == [], "indexes, epochs and producers follow from the batches"


@pytest.mark.parametrize("kept_bytes", [1, 16, 17, 40, 60, 61, 70])
def test_t25_half_a_batch_and_a_garbage_index(kept_bytes: int) -> None:
    # Sixteen records are written. The machine dies while the last batch is on its way to the
    # disk: some bytes of it arrive, and the index of its segment is garbage.
    disk = SimDisk()
    log = written_log(disk)
    size = log.segments[-1].locate(14).header.size_bytes  # type: ignore[union-attr]
    assert kept_bytes < size
    tear(disk, f"{THIRD}.log", keep_bytes_of_last_batch=kept_bytes, batch_bytes=size)
    scribble(disk, f"{THIRD}.index")

    # The log comes back with the fourteen records that are whole. The sequence of producer 7
    # goes on behind record 13, so its retry of the torn batch is new, not a duplicate.
    again = restart_after_crash(disk, recovery_point=12)
    assert_ends_at(disk, again, 14)
    assert again.epochs.entries == [(0, 0), (1, 8)]

    # It can be written to as if nothing had happened.
    again.append_as_leader(batch(b"r14", b"r", producer=7, sequence=14), 1)
    assert_ends_at(disk, again, 16)


def test_t25_a_flipped_bit_above_the_recovery_point_takes_the_later_segments_along() -> None:
    # The checkpoint of the recovery point is old: it says 4. Record 8 is damaged, in the middle
    # of the second segment.
    disk = SimDisk()
    log = written_log(disk)
    damaged = log.segments[1].locate(8)
    assert damaged is not None
    disk.flip_bit(f"{SECOND}.log", damaged.position + damaged.header.size_bytes - 1)

    # Records 0 to 7 are kept. The third segment is sound, and gone: a log has no holes. Epoch 1
    # began at 8, so it is forgotten, and the leader will send it again.
    again = restart_after_crash(disk, recovery_point=4)
    assert_ends_at(disk, again, 8)
    assert again.epochs.entries == [(0, 0)]
    assert f"{THIRD}.log" not in disk.files()
    assert again.recovery_point <= 8


def test_t25_a_flipped_bit_below_the_recovery_point_is_not_a_torn_tail() -> None:
    # Everything below 12 was synced, epochs included. Then record 2 is damaged while the broker is
    # down.
    disk = SimDisk()
    log = written_log(disk)
    log.store_epochs()
    damaged = log.segments[0].locate(2)
    assert damaged is not None
    disk.flip_bit(f"{FIRST}.log", damaged.position + damaged.header.size_bytes - 1)

    # A crash cannot have done that, and cutting the log there would throw away acknowledged
    # records. The first segment ends below the recovery point, so it is not even looked through;
    # but no damaged byte is ever served.
    again = restart_after_crash(disk, recovery_point=12)
    assert again.log_end_offset == 16
    with pytest.raises(CorruptSegment) as refused:
        again.read(2, END, 1)
    assert refused.value.offset == 2

    # With an older recovery point inside the damaged segment, the log refuses to open. Only an
    # explicit repair cuts it, for a broker that knows another replica holds the records.
    with pytest.raises(CorruptSegment):
        restart_after_crash(disk, recovery_point=5)
    assert_ends_at(disk, restart_after_crash(disk, recovery_point=5, repair=True), 2)
