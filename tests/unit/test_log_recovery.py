"""What a log looks like after a crash, and after the disk itself went bad."""

import errno
from dataclasses import replace

import pytest

from support.batches import batch, marker, offsets
from tidelog.sim.disk import SimDisk
from tidelog.sim.log_check import log_faults
from tidelog.storage import (
    ContradictedSegment,
    CorruptSegment,
    DirectoryOffline,
    Log,
    LogConfig,
    NoSpace,
)
from tidelog.storage.errors import MissingRecords
from tidelog.storage.indexes import AbortedTransaction
from tidelog.storage.lookups import TimestampOffset
from tidelog.storage.segment import Segment

END = 1 << 62
CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)
COMPACTED = LogConfig(cleanup_policy=("compact",))
FIRST = "t-0/00000000000000000000"


def open_log(
    disk: SimDisk,
    *,
    point: int = 0,
    start: int = 0,
    clean: bool = False,
    repair: bool = False,
    config: LogConfig = CONFIG,
) -> Log:
    disk.make_dir("t-0")
    return Log.open(
        disk,
        "t-0",
        config,
        recovery_point=point,
        log_start=start,
        clean_shutdown=clean,
        repair=repair,
    )


def written(count: int, config: LogConfig = CONFIG) -> SimDisk:
    """Batches of one record of an idempotent producer, in epochs 0 and 1."""
    disk = SimDisk()
    log = open_log(disk, config=config)
    for number in range(count):
        data = batch(b"value %d" % number, producer=9, sequence=number, time_ms=number)
        log.append_as_leader(data, number // 6)
    log.sync()
    return disk


def put(disk: SimDisk, path: str, content: bytes) -> None:
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write(0, content)


def last_sequence(log: Log) -> int:
    (entry,) = log.producers.entries()
    return entry.last_sequence


# T25: a torn tail


@pytest.mark.parametrize("lost", [1, 10, 59, 60, 75])
def test_a_torn_tail_is_cut_at_the_last_whole_batch(lost: int) -> None:
    disk = written(4, LogConfig())
    path = FIRST + ".log"
    whole = len(disk.files()[path])
    disk.open(path).truncate(whole - lost)
    put(disk, FIRST + ".index", b"garbage that is no index")
    log = open_log(disk, config=LogConfig())
    assert log.log_end_offset == 3
    assert last_sequence(log) == 2
    assert log.epochs.entries == [(0, 0)]
    assert log_faults(disk, log) == []
    assert log.append_as_leader(batch(b"next", producer=9, sequence=3), 1).base_offset == 3


@pytest.mark.parametrize("tail", [bytes(1), bytes(17), bytes(400), b"\xff" * 61, b"x" * 300])
def test_bytes_behind_the_last_batch_are_cut(tail: bytes) -> None:
    disk = written(4, LogConfig())
    path = FIRST + ".log"
    content = disk.files()[path]
    disk.open(path).write(len(content), tail)
    log = open_log(disk, config=LogConfig())
    assert disk.files()[path] == content
    assert log.log_end_offset == 4
    assert log_faults(disk, log) == []


def test_a_bit_flip_above_the_recovery_point_ends_the_log_there() -> None:
    """As if the crash had torn it; later segments go too."""
    disk = written(20)
    log = open_log(disk, point=20)
    victim = log.segments[1]
    disk.flip_bit(victim.path, victim.size - 5, 3)
    log = open_log(disk, point=victim.base_offset)
    assert log.log_end_offset == victim.next_offset - 1
    assert [s.base_offset for s in log.segments] == [0, victim.base_offset]
    assert log_faults(disk, log) == []
    assert last_sequence(log) == log.log_end_offset - 1
    (repair,) = log.place.repairs
    assert repair.fault.path == victim.path
    assert f"records from offset {log.log_end_offset} on are fetched again" in str(repair)


def test_a_bit_flip_below_the_recovery_point_is_not_hidden_by_a_cut() -> None:
    """The records were safe; only the disk can have lost them. Nothing is changed unless told
    that another replica has them."""
    disk = written(20)
    log = open_log(disk, point=20)
    victim = log.segments[-1]
    disk.flip_bit(victim.path, victim.size - 5, 3)
    logs = {path: data for path, data in disk.files().items() if path.endswith(".log")}
    with pytest.raises(CorruptSegment) as caught:
        open_log(disk, point=20)
    assert caught.value.path == victim.path
    assert caught.value.offset == 19
    assert f"{victim.path}, byte {caught.value.position} (offset 19)" in str(caught.value)
    assert logs == {path: data for path, data in disk.files().items() if path.endswith(".log")}

    log = open_log(disk, point=20, repair=True)
    assert log.log_end_offset == 19
    assert log.recovery_point == 19
    assert log_faults(disk, log) == []


def test_a_bit_flip_in_a_segment_nobody_scans_is_found_when_it_is_read() -> None:
    disk = written(20)
    log = open_log(disk, point=20)
    victim = log.segments[1]
    disk.flip_bit(victim.path, 70, 0)
    log = open_log(disk, point=20)
    assert log.log_end_offset == 20
    assert log.read(0, END, 1)
    with pytest.raises(CorruptSegment) as caught:
        log.read(victim.base_offset, END, 1)
    assert (caught.value.path, caught.value.offset) == (victim.path, victim.base_offset)
    log.truncate_to(caught.value.offset)  # what a follower does, to fetch it again
    assert log.log_end_offset == victim.base_offset
    assert log_faults(disk, log) == []


@pytest.mark.parametrize("byte", range(75))
def test_any_damaged_byte_of_an_unsynced_batch_ends_the_log_before_it(byte: int) -> None:
    """Also in offset, length and magic, which the checksum does not cover. The epoch is not
    covered either; there the history may be wrong instead, and nothing is cut unasked."""
    disk = written(5, LogConfig())
    log = open_log(disk, config=LogConfig())
    found = log.segments[0].locate(3)
    assert found is not None
    disk.flip_bit(FIRST + ".log", found.position + byte, byte % 8)
    if byte in range(12, 16):
        with pytest.raises(ContradictedSegment, match="leader epoch"):
            open_log(disk, config=LogConfig())
        log = open_log(disk, config=LogConfig(), repair=True)
        assert log.log_end_offset == 3
        return
    log = open_log(disk, config=LogConfig())
    assert log.log_end_offset == 3
    assert log_faults(disk, log) == []
    assert log.epochs.entries == [(0, 0)]


def compacted(
    count: int, *, epochs: int = 1, config: LogConfig = COMPACTED
) -> tuple[SimDisk, tuple[Segment, ...]]:
    disk = SimDisk()
    log = open_log(disk, config=config)
    for number in range(count):
        log.append_as_leader(batch(b"value %d" % number), number * epochs // count)
    log.sync()
    return disk, log.segments


def rot(disk: SimDisk, segment: Segment, offset: int, bit: int) -> int:
    """The position of the batch whose base offset has become larger."""
    found = segment.locate(offset)
    assert found is not None
    assert not offset & 1 << bit
    disk.flip_bit(segment.path, found.position + 7, bit)
    return found.position


@pytest.mark.parametrize("epochs", [1, 6], ids=["one epoch", "several epochs"])
@pytest.mark.parametrize("bit", [5, 7])
@pytest.mark.parametrize("victim", range(18))
def test_a_base_offset_that_rots_in_a_compacted_log_does_not_move_its_end(
    epochs: int, bit: int, victim: int
) -> None:
    """Such a log may have gaps, so a larger offset alone is no fault. What comes next shows it: a
    batch that begins before it, or the epoch history. The log then ends with the last batch that
    is beyond doubt, never at the offset that rotted: the records between the two would not be
    fetched again."""
    disk, (segment,) = compacted(20, epochs=epochs)
    position = rot(disk, segment, victim, bit)
    with pytest.raises(CorruptSegment) as caught:
        open_log(disk, point=20, config=COMPACTED)
    assert (caught.value.position, caught.value.offset) == (position, victim)
    log = open_log(disk, point=20, config=COMPACTED, repair=True)
    assert log.log_end_offset == victim
    assert log_faults(disk, log) == []


def test_a_base_offset_that_rots_into_the_next_segment_does_not_move_the_end() -> None:
    config = replace(CONFIG, cleanup_policy=("compact",))
    disk, (first, second) = compacted(8, config=config)
    victim = second.base_offset - 1
    rot(disk, first, victim, 5)
    with pytest.raises(CorruptSegment, match=f"the next segment begins at {victim + 1}"):
        open_log(disk, point=victim + 1, config=config)
    log = open_log(disk, point=victim + 1, config=config, repair=True)
    assert log.log_end_offset == victim


def test_a_torn_base_offset_at_the_end_of_a_compacted_log_costs_only_its_own_batch() -> None:
    """Everything up to the recovery point was synced; the batch behind it was being written."""
    disk, (segment,) = compacted(4)
    last = segment.locate(3)
    assert last is not None
    disk.open(segment.path).write(last.position, bytes(8))
    assert open_log(disk, point=3, config=COMPACTED).log_end_offset == 3


def test_a_segment_that_lost_its_whole_end_is_noticed_too() -> None:
    """It ends with a whole batch; only the name of the next segment tells. Where compaction may
    have left gaps, it is noticed by a read."""
    disk = written(20)
    log = open_log(disk, point=20)
    victim = log.segments[1]
    last = victim.locate(victim.next_offset - 1)
    assert last is not None
    disk.open(victim.path).truncate(last.position)
    with pytest.raises(MissingRecords, match="records 9 to 9 are gone"):
        open_log(disk.copy(), point=20)
    unseen = Log.open(disk.copy(), "t-0", CONFIG, recovery_point=20, gaps=True)
    with pytest.raises(CorruptSegment, match="the file ends before") as caught:
        unseen.read(victim.next_offset - 1, END, 1)
    unseen.truncate_to(caught.value.offset)
    assert unseen.log_end_offset == victim.next_offset - 1

    log = open_log(disk, point=victim.base_offset)
    assert log.log_end_offset == victim.next_offset - 1
    assert log_faults(disk, log) == []


def test_records_that_were_synced_and_are_gone_are_missed() -> None:
    disk = written(20)
    for name in disk.list("t-0"):
        if name.startswith("0"):
            disk.remove(f"t-0/{name}")
    with pytest.raises(CorruptSegment, match="records up to 20 were on disk and are gone"):
        open_log(disk, point=20)
    assert open_log(disk, point=20, repair=True).log_end_offset == 0


def test_after_an_orderly_stop_a_bad_end_is_not_a_torn_one() -> None:
    disk = written(4)
    open_log(disk, point=4).close()
    disk.open(FIRST + ".log").truncate(100)
    with pytest.raises(CorruptSegment):
        open_log(disk, point=4, clean=True)


# Indexes


GARBAGE = [b"x", bytes(8), bytes(24), bytes(34), b"\xff" * 68, b"0123456789" * 41]
# Most segments have no .txnindex, so that of all files its absence cannot be noticed.
LOST_OR_GARBAGE = [
    *((suffix, content) for suffix in (".index", ".timeindex") for content in (None, b"")),
    *((suffix, content) for suffix in (".index", ".timeindex", ".txnindex") for content in GARBAGE),
]


@pytest.mark.parametrize(("suffix", "content"), LOST_OR_GARBAGE)
@pytest.mark.parametrize("clean", [False, True])
def test_any_index_can_be_lost_or_garbage(suffix: str, content: bytes | None, clean: bool) -> None:
    disk = SimDisk()
    log = open_log(disk)
    log.append_as_leader(batch(b"a", producer=3, sequence=0, transactional=True), 0)
    log.append_as_leader(marker(3, commit=False), 0)
    for number in range(20):
        log.append_as_leader(batch(b"%d" % number, time_ms=2000 + number), 0)
    log.close()
    path = FIRST + suffix
    assert disk.exists(path)
    if content is None:
        disk.remove(path)
    else:
        put(disk, path, content)
    log = open_log(disk, point=22, clean=clean)
    assert log_faults(disk, log) == []
    assert log.aborted_transactions(0, 1) == [AbortedTransaction(3, 0, 1, 2)]
    assert log.offset_for_timestamp(2007) == TimestampOffset(2007, 9, 0)


def test_indexes_without_a_segment_are_removed() -> None:
    disk = written(4)
    for suffix in (".index", ".timeindex", ".txnindex"):
        put(disk, f"t-0/00000000000000000077{suffix}", b"12345678")
    log = open_log(disk)
    assert log_faults(disk, log) == []
    assert [name for name in disk.list("t-0") if "77" in name] == []


def test_unfinished_deletions_and_compactions_are_cleared_away() -> None:
    disk = written(8)
    put(disk, "t-0/00000000000000000009.log.deleted", b"x")
    put(disk, "t-0/00000000000000000009.log.cleaned", b"x")
    put(disk, "t-0/00000000000000000009.log.swap", b"x")
    put(disk, "t-0/leader-epoch-checkpoint.tmp", b"x")
    log = open_log(disk)
    assert log.log_end_offset == 8
    assert log_faults(disk, log) == []


def test_a_finished_compaction_takes_the_place_of_what_it_replaced() -> None:
    disk = written(8)
    log = open_log(disk, point=8)
    second = log.segments[1]
    both = disk.files()[FIRST + ".log"] + disk.files()[second.path]
    put(disk, FIRST + ".log.swap", both)
    log = open_log(disk, point=8)
    assert second.base_offset not in [segment.base_offset for segment in log.segments]
    assert log.log_end_offset == 8
    assert log_faults(disk, log) == []


# Epochs


@pytest.mark.parametrize(
    "content",
    [None, b"", b"0\n0\n", b"0\n1\n0 0\n0 0\n", b"\x00" * 12, b"0\n2\n1 0\n0 5\n", b"0\n1\n1 6\n"],
)
@pytest.mark.parametrize("clean", [False, True])
def test_a_lost_epoch_history_is_read_from_the_batches(content: bytes | None, clean: bool) -> None:
    disk = written(20)
    open_log(disk, point=20).close()
    path = "t-0/leader-epoch-checkpoint"
    disk.remove(path)
    if content is not None:
        put(disk, path, content)
    log = open_log(disk, point=20, clean=clean)
    assert log.epochs.entries == [(0, 0), (1, 6), (2, 12), (3, 18)]
    assert [repair.fault.path for repair in log.place.repairs] == [path]
    assert log_faults(disk, log) == []


def test_epochs_of_records_that_are_gone_are_forgotten_at_load() -> None:
    disk = written(20)
    log = open_log(disk, point=20)
    log.assign_epoch(9, 20)
    assert open_log(disk, point=20).epochs.entries[-1] == (3, 18)
    assert open_log(disk, point=20, start=15).epochs.entries == [(2, 15), (3, 18)]


# Producers


@pytest.mark.parametrize("damage", ["flip", "short", "empty", "version", "count"])
def test_a_bad_snapshot_is_replaced_by_an_older_one_and_replay(damage: str) -> None:
    disk = written(20)
    open_log(disk, point=20).close()
    newest = max(name for name in disk.list("t-0") if name.endswith(".snapshot"))
    path = f"t-0/{newest}"
    content = disk.files()[path]
    put(
        disk,
        path,
        {
            "flip": content[:-1] + bytes([content[-1] ^ 1]),
            "short": content[:-1],
            "empty": b"",
            "version": b"\x00\x09" + content[2:],
            "count": content[:6] + b"\x7f\xff\xff\xff" + content[10:],
        }[damage],
    )
    log = open_log(disk, point=20, clean=True)
    assert last_sequence(log) == 19
    assert newest not in disk.list("t-0")
    assert log_faults(disk, log) == []


def test_without_any_snapshot_the_log_is_replayed() -> None:
    disk = written(20)
    for name in disk.list("t-0"):
        if name.endswith(".snapshot"):
            disk.remove(f"t-0/{name}")
    log = open_log(disk, point=20)
    assert last_sequence(log) == 19
    (entry,) = log.producers.entries()
    assert [b.last_sequence for b in entry.batches] == [15, 16, 17, 18, 19]


def test_a_snapshot_from_behind_the_log_end_is_not_believed() -> None:
    disk = written(20)
    open_log(disk, point=20).close()
    disk.open(f"t-0/{20 - 20 % 4:020d}.log", create=True).truncate(0)
    log = open_log(disk, point=0)
    assert all(int(n[:20]) <= log.log_end_offset for n in disk.list("t-0") if "snapshot" in n)
    assert last_sequence(log) == log.log_end_offset - 1


# Start and end


def test_a_log_that_ends_before_its_start_begins_empty_there() -> None:
    disk = written(5)
    log = open_log(disk, start=12)
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries) == (12, 12, [])
    assert log.producers.entries() == []
    assert log_faults(disk, log) == []


def test_after_an_orderly_stop_a_log_start_behind_the_end_is_a_bad_checkpoint() -> None:
    disk = written(5)
    open_log(disk, point=5).close()
    log = open_log(disk, point=5, start=12, clean=True)
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)
    assert [repair.fault.path for repair in log.place.repairs] == ["log-start-offset-checkpoint"]


def test_the_recovery_point_never_moves_without_a_sync() -> None:
    disk = written(5, LogConfig())
    log = open_log(disk, point=2, config=LogConfig())
    assert (log.recovery_point, log.durable_offset, log.log_end_offset) == (2, 2, 5)
    log.sync()
    assert log.recovery_point == 5
    log.close()
    assert open_log(disk, point=0, clean=True, config=LogConfig()).recovery_point == 5


def test_a_second_recovery_changes_nothing() -> None:
    disk = written(20)
    log = open_log(disk, point=20)
    disk.open(log.segments[-1].path).truncate(log.segments[-1].size - 3)
    open_log(disk, point=0)
    first = disk.files()
    open_log(disk, point=0)
    assert disk.files() == first


def test_an_orderly_stop_makes_the_next_load_look_at_the_end_only() -> None:
    disk = written(20)
    open_log(disk, point=20).close()
    before = disk.files()
    log = open_log(disk, point=20, clean=True)
    assert disk.files() == before
    assert log.place.repairs == []
    assert log_faults(disk, log) == []
    assert offsets(log.read(19, END, 1)) == [(19, 19)]
    log.append_as_leader(batch(b"and on", producer=9, sequence=20), 3)
    assert log_faults(disk, log) == []


def test_a_full_disk_while_recovering_refuses_and_spoils_nothing() -> None:
    refused = 0
    for after in range(12):
        disk = written(20)
        disk.inject("write", error=errno.ENOSPC, after=after, lasting=True)
        try:
            open_log(disk, point=0)
        except NoSpace:
            refused += 1
        disk.heal()
        log = open_log(disk, point=0)
        assert log.log_end_offset == 20
        assert log_faults(disk, log) == []
    assert refused > 4


def test_a_disk_that_cannot_be_read_is_offline() -> None:
    disk = written(20)
    disk.inject("read", error=errno.EIO, path=FIRST + ".log")
    with pytest.raises(DirectoryOffline, match=r"read of t-0/00000000000000000000\.log"):
        open_log(disk, point=0)
