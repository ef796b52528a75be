"""A log directory: many logs, one disk, one owner."""

from pathlib import Path

import pytest

from support.batches import batch, marker
from tidelog.host.directory_lock import DirectoryLock
from tidelog.host.disk import FileDisk
from tidelog.sim.disk import SimDisk
from tidelog.sim.disk_state import Effect, Remove, Rename
from tidelog.sim.log_check import log_faults
from tidelog.storage import (
    CorruptSegment,
    DirectoryLocked,
    DirectoryOffline,
    ForeignDirectory,
    LogConfig,
    LogDirectory,
    NotFormatted,
)
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.directory_names import aside, directory_of, parse_directory
from tidelog.storage.meta_properties import MetaProperties, format_directory
from tidelog.storage.retention import RetentionClock

A: PartitionName = ("a", 0)
B: PartitionName = ("b-with-dashes", 12)
ID_A, ID_B = b"a" * 16, b"b" * 16
END = 1 << 62
HOUR_MS = 3_600_000


def open_directory(disk: SimDisk | FileDisk) -> LogDirectory:
    return LogDirectory.open(disk, lambda topic: config(), cluster_id="c", node_id=1)


def config() -> LogConfig:
    return LogConfig(segment_bytes=400, index_interval_bytes=100, retention_ms=HOUR_MS)


def new_directory(disk: SimDisk | FileDisk) -> LogDirectory:
    format_directory(disk, MetaProperties("c", 1, b"d" * 16))
    return open_directory(disk)


def two_logs(disk: SimDisk) -> LogDirectory:
    directory = new_directory(disk)
    directory.create_log(A, ID_A)
    directory.create_log(B, ID_B)
    return directory


def append(directory: LogDirectory, name: PartitionName, count: int, *, time_ms: int = 0) -> None:
    for number in range(count):
        directory.logs[name].append_as_leader(batch(b"%d" % number, time_ms=time_ms + number), 0)


def put(disk: SimDisk, path: str, content: bytes) -> None:
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write(0, content)


def test_only_the_owner_may_open_it() -> None:
    disk = SimDisk()
    with pytest.raises(NotFormatted):
        open_directory(disk)
    new_directory(disk)
    with pytest.raises(ForeignDirectory):
        LogDirectory.open(disk, lambda _: config(), cluster_id="c", node_id=2)
    with pytest.raises(ForeignDirectory):
        LogDirectory.open(disk, lambda _: config(), cluster_id="d", node_id=1)


def test_only_one_process_may_use_it(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    new_directory(disk)

    def locked() -> LogDirectory:
        lock = DirectoryLock(tmp_path)
        return LogDirectory.open(disk, lambda _: config(), cluster_id="c", node_id=1, lock=lock)

    first = locked()
    with pytest.raises(DirectoryLocked):
        locked()
    first.close(broker_epoch=1, high_watermarks={})
    locked().close(broker_epoch=2, high_watermarks={})


def test_logs_come_back_after_an_orderly_stop_and_after_a_crash() -> None:
    for orderly in (True, False):
        disk = SimDisk()
        directory = two_logs(disk)
        append(directory, A, 20)
        append(directory, B, 3)
        directory.sync_dirty()
        if orderly:
            directory.close(broker_epoch=77, high_watermarks={A: 15, B: 3})
        again = open_directory(disk.after_power_loss(()))
        assert again.broker_epoch_at_stop == (77 if orderly else None)
        assert {name: log.log_end_offset for name, log in again.logs.items()} == {A: 20, B: 3}
        assert again.topic_ids == {A: ID_A, B: ID_B}
        assert again.initial_high_watermark(A) == (15 if orderly else 0)
        assert again.repairs == []
        assert bool(again.dirty) is not orderly, "after a crash what was read is synced first"


def test_group_commit_syncs_each_unsynced_log_once() -> None:
    disk = SimDisk()
    directory = two_logs(disk)
    directory.sync_dirty()
    append(directory, A, 2)
    append(directory, B, 1)
    assert list(directory.dirty.values()) == [directory.logs[A], directory.logs[B]]
    assert directory.logs[A].durable_offset == 0
    assert directory.sync_dirty() == 2
    assert (directory.logs[A].durable_offset, directory.logs[B].durable_offset) == (2, 1)
    assert directory.sync_dirty() == 0
    append(directory, B, 1)
    assert directory.sync_dirty() == 1


def test_a_failed_sync_takes_every_log_of_the_directory_with_it() -> None:
    disk = SimDisk()
    directory = two_logs(disk)
    append(directory, A, 1)
    append(directory, B, 1)
    disk.inject("sync", path="a-0")
    with pytest.raises(DirectoryOffline):
        directory.sync_dirty()
    disk.heal()
    assert not directory.online
    assert directory.failure is not None
    assert directory.failure.path == "a-0/00000000000000000000.log"
    assert directory.logs[B].durable_offset == 0
    for operation in (
        lambda: append(directory, B, 1),
        lambda: directory.logs[B].read(0, END, 1),
        directory.sync_dirty,
        directory.checkpoint_recovery_points,
        lambda: directory.delete_log(B),
        lambda: directory.close(broker_epoch=1, high_watermarks={}),
    ):
        with pytest.raises(DirectoryOffline):
            operation()
    assert not disk.exists(".kafka_cleanshutdown")
    assert open_directory(disk.after_power_loss(())).logs[A].log_end_offset == 0


def test_without_a_high_watermark_file_nothing_is_cut() -> None:
    """T31: the high watermark is the log start, and every record is still there."""
    disk = SimDisk()
    directory = two_logs(disk)
    append(directory, A, 20)
    directory.logs[A].raise_log_start(4)
    directory.sync_dirty()
    directory.checkpoint_high_watermarks({A: 18})
    assert open_directory(disk).initial_high_watermark(A) == 18
    for content in (None, b"", b"0\n5\nhalf", bytes(40)):
        if content is None:
            disk.remove("replication-offset-checkpoint")
        else:
            put(disk, "replication-offset-checkpoint", content)
        again = open_directory(disk)
        assert again.initial_high_watermark(A) == 4
        assert again.logs[A].log_end_offset == 20
        assert len(again.repairs) == (1 if content else 0)


@pytest.mark.parametrize("content", [None, b"", b"0\n", b"7\n0\n", bytes(30), b"0\n1\na 0 x\n"])
def test_a_bad_recovery_point_file_means_scan_everything(content: bytes | None) -> None:
    disk = SimDisk()
    directory = two_logs(disk)
    append(directory, A, 20)
    directory.sync_dirty()
    directory.unstored.store_all()
    directory.checkpoint_recovery_points()
    if content is None:
        disk.remove("recovery-point-offset-checkpoint")
    else:
        put(disk, "recovery-point-offset-checkpoint", content)
    again = open_directory(disk)
    assert again.logs[A].log_end_offset == 20
    assert again.logs[A].recovery_point == 0
    assert log_faults(disk, again.logs[A]) == []


def test_a_bad_log_start_file_shows_more_and_loses_nothing() -> None:
    disk = SimDisk()
    directory = two_logs(disk)
    append(directory, A, 20)
    directory.logs[A].raise_log_start(17)
    directory.sync_dirty()
    put(disk, "log-start-offset-checkpoint", b"garbage")
    again = open_directory(disk)
    assert (again.logs[A].log_start_offset, again.logs[A].log_end_offset) == (0, 20)
    assert again.logs[A].epochs.entries == [(0, 0)], "read from the batches, as far as shown"
    assert log_faults(disk, again.logs[A]) == []


def test_a_raised_log_start_outlives_a_crash() -> None:
    disk = SimDisk()
    directory = two_logs(disk)
    append(directory, A, 20)
    directory.sync_dirty()
    directory.logs[A].raise_log_start(17)
    assert open_directory(disk.after_power_loss(())).logs[A].log_start_offset == 17


def test_a_truncation_takes_its_promises_back_first() -> None:
    disk = SimDisk()
    directory = two_logs(disk)
    append(directory, A, 20)
    directory.sync_dirty()
    directory.unstored.store_all()
    directory.checkpoint_recovery_points()
    directory.logs[A].truncate_to(5)
    assert b"a 0 5\n" in disk.files()["recovery-point-offset-checkpoint"]
    append(directory, A, 9)
    again = open_directory(disk.after_power_loss(()))
    assert again.refused == {}
    assert again.logs[A].log_end_offset >= 5


def test_a_log_with_lost_records_is_refused_and_can_be_repaired() -> None:
    disk = SimDisk()
    directory = two_logs(disk)
    append(directory, A, 20)
    append(directory, B, 2)
    directory.sync_dirty()
    directory.unstored.store_all()
    directory.checkpoint_recovery_points()
    last = directory.logs[A].segments[-1]
    disk.flip_bit(last.path, last.size - 1, 0)
    again = open_directory(disk)
    assert list(again.logs) == [B], "the others are served"
    assert isinstance(again.refused[A], CorruptSegment)
    again.unstored.store_all()
    again.checkpoint_recovery_points()
    assert b"a 0 20\n" in disk.files()["recovery-point-offset-checkpoint"], "still known as lost"
    again.close(broker_epoch=3, high_watermarks={B: 2})
    assert not disk.exists(".kafka_cleanshutdown"), "this was not an orderly stop for all"

    again = open_directory(disk)
    log = again.repair(A)
    assert log.log_end_offset == 19
    assert again.refused == {}
    assert log_faults(disk, log) == []
    assert open_directory(disk).refused == {}


def test_a_deleted_topic_stays_deleted_and_leaves_nothing_to_its_successor() -> None:
    disk = SimDisk()
    directory = two_logs(disk)
    append(directory, A, 20)
    directory.sync_dirty()
    directory.unstored.store_all()
    directory.checkpoint_recovery_points()
    directory.checkpoint_high_watermarks({A: 20, B: 0})
    directory.delete_log(A)
    assert list(open_directory(disk.after_power_loss(())).logs) == [B]
    log = directory.create_log(A, b"n" * 16)
    assert log.log_end_offset == 0
    assert directory.initial_high_watermark(A) == 0
    again = open_directory(disk.after_power_loss(()))
    assert again.refused == {}
    assert again.topic_ids[A] == b"n" * 16


def test_a_deletion_cut_short_is_finished() -> None:
    disk = SimDisk()
    two_logs(disk)
    disk.rename("a-0", f"a-0.{ID_A.hex()}-delete")
    again = open_directory(disk)
    assert list(again.logs) == [B]
    assert [name for name in disk.list("") if name.startswith("a-0")] == []


def test_a_log_that_belongs_to_nobody_is_kept_and_not_served() -> None:
    disk = SimDisk()
    directory = two_logs(disk)
    append(directory, A, 2)
    directory.sync_dirty()
    stray = directory.set_aside_stray(A)
    assert stray == f"a-0.{ID_A.hex()}-stray"
    assert list(directory.logs) == [B]
    again = open_directory(disk)
    assert list(again.logs) == [B]
    assert f"{stray}/00000000000000000000.log" in disk.files()


def test_a_log_that_is_set_aside_twice_is_kept_twice() -> None:
    """A replica was moved away while its broker was down, and back, and away again."""
    disk = SimDisk()
    directory = two_logs(disk)
    for number, expected in enumerate((ID_A.hex(), f"{ID_A.hex()}-2", f"{ID_A.hex()}-3")):
        append(directory, A, number + 1)
        directory.sync_dirty()
        stray = directory.set_aside_stray(A)
        assert stray == f"a-0.{expected}-stray"
        assert f"{stray}/00000000000000000000.log" in disk.files()
        directory.create_log(A, ID_A)
    assert list(open_directory(disk).logs) == [A, B]


def test_partitions_of_a_topic_with_the_longest_name_leave_service_together() -> None:
    disk = SimDisk()
    directory = new_directory(disk)
    names: list[PartitionName] = [("t" * 249, 0), ("t" * 249, 1)]
    for name in names:
        directory.create_log(name, ID_A)
        append(directory, name, 1)
    strays = directory.set_aside_strays(names)
    assert len(set(strays)) == 2
    assert all(len(stray) <= 255 and disk.exists(stray) for stray in strays)


@pytest.mark.parametrize("content", [None, b"version: 0\ntopic_id: nonsense\n"])
def test_records_without_a_topic_id_are_set_aside(content: bytes | None) -> None:
    disk = SimDisk()
    directory = two_logs(disk)
    append(directory, A, 2)
    directory.sync_dirty()
    disk.remove("a-0/partition.metadata")
    if content is not None:
        put(disk, "a-0/partition.metadata", content)
    again = open_directory(disk)
    assert list(again.logs) == [B]
    assert "a-0.no-id-stray/00000000000000000000.log" in disk.files()
    assert not disk.exists("a-0")


def test_names_of_directories() -> None:
    assert parse_directory(directory_of(B)) == B
    for name in ("a", "a-", "-0", "a-01", "a-0.x-delete", "a-0-stray", "meta.properties"):
        assert parse_directory(name) is None, name
    assert len(aside(("t" * 249, 1), "f" * 32, "-delete")) <= 255


# Retention by a clock that may jump


def test_a_wall_clock_that_jumps_ahead_deletes_nothing_early() -> None:
    """M40: records are an hour's retention old when an hour has passed, not when the clock
    says so."""
    disk = SimDisk()
    directory = two_logs(disk)
    append(directory, A, 20, time_ms=10 * HOUR_MS)
    directory.sync_dirty()
    wall_ms, passed_ms = 10 * HOUR_MS + 20, 500

    def retain(jump_ms: int = 0) -> int:
        retained = directory.apply_retention(
            wall_ms=wall_ms + passed_ms + jump_ms,
            monotonic_ms=passed_ms,
            high_watermarks={A: 20, B: 0},
        )
        return retained.segments

    assert retain() == 0
    assert retain(jump_ms=100 * HOUR_MS) == 0
    assert retain(jump_ms=-HOUR_MS) == 0
    passed_ms += HOUR_MS // 2
    assert retain(jump_ms=HOUR_MS) == 0
    passed_ms += HOUR_MS // 2 + 1000
    assert retain(jump_ms=-2 * HOUR_MS) == 0, "a clock that is behind delays"
    assert retain() > 0
    assert directory.logs[A].log_start_offset == 20


class FileEffects:
    """What was renamed and removed."""

    def __init__(self) -> None:
        self.count = 0

    def before(self, effect: Effect) -> None:
        self.count += type(effect) in (Rename, Remove)

    def reading(self, size_bytes: int) -> None: ...


def test_retention_of_many_segments_goes_in_pieces() -> None:
    """It runs on an event loop. All the same, every segment and every file goes in the end."""
    disk = SimDisk()
    directory = two_logs(disk)
    append(directory, A, 40)
    append(directory, B, 40)
    directory.sync_dirty()
    for log in directory.logs.values():
        log.raise_log_start(40)
    before = sum(len(log.segments) for log in directory.logs.values())

    def retain_all(now_ms: int) -> tuple[int, int]:
        """How many segments went, and the most renames and removals in one piece."""
        largest, segments, has_more = 0, 0, True
        while has_more:
            disk.watcher = effects = FileEffects()
            count, has_more = directory.apply_retention(
                wall_ms=now_ms, monotonic_ms=now_ms, high_watermarks={A: 40, B: 40}, at_most=16
            )
            largest, segments = max(largest, effects.count), segments + count
        return segments, largest

    with_checkpoints = 16 + 4
    segments, largest = retain_all(0)
    assert segments == before > 10
    assert largest <= with_checkpoints
    assert [len(log.segments) for log in directory.logs.values()] == [1, 1]
    assert deleted_files(disk)
    segments, largest = retain_all(100_000)
    assert largest <= with_checkpoints
    assert not deleted_files(disk)


def deleted_files(disk: SimDisk) -> list[str]:
    return [path for path in disk.files() if path.endswith(".deleted")]


def test_a_clock_that_jumped_while_we_were_down_is_not_believed_at_once() -> None:
    clock = RetentionClock(wall_ms=100 * HOUR_MS, monotonic_ms=7, newest_timestamp=10 * HOUR_MS)
    assert clock.trusted_now(wall_ms=100 * HOUR_MS, monotonic_ms=7) == 10 * HOUR_MS
    assert clock.trusted_now(wall_ms=101 * HOUR_MS, monotonic_ms=7 + HOUR_MS) == 11 * HOUR_MS
    empty = RetentionClock(wall_ms=100, monotonic_ms=0, newest_timestamp=-1)
    assert empty.trusted_now(wall_ms=150, monotonic_ms=50) == 150
    future = RetentionClock(wall_ms=100, monotonic_ms=0, newest_timestamp=10**9)
    assert future.trusted_now(wall_ms=150, monotonic_ms=50) == 150


def test_it_is_the_same_on_a_real_disk(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    directory = new_directory(disk)
    directory.create_log(A, ID_A)
    append(directory, A, 20)
    directory.sync_dirty()
    directory.logs[A].truncate_to(11)
    append(directory, A, 3)
    directory.logs[A].raise_log_start(5)
    directory.apply_retention(wall_ms=0, monotonic_ms=0, high_watermarks={A: 14})
    directory.close(broker_epoch=5, high_watermarks={A: 14})
    again = open_directory(disk)
    log = again.logs[A]
    assert again.broker_epoch_at_stop == 5
    assert (log.log_start_offset, log.log_end_offset) == (5, 14)
    assert log_faults(disk, log, leftovers=True) == []
    log.release()


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_transaction_whose_marker_is_not_committed_holds_readers_back_after_a_restart(
    is_clean: bool,
) -> None:
    disk = SimDisk()
    directory = new_directory(disk)
    log = directory.create_log(A, ID_A)
    log.append_as_leader(batch(b"a", producer=1, sequence=0, transactional=True), 0)
    log.append_as_leader(marker(1, commit=True), 0)
    log.append_as_leader(batch(b"b", producer=2, sequence=0, transactional=True), 0)
    log.append_as_leader(marker(2, commit=False), 0)
    append(directory, A, 20)
    directory.checkpoint_high_watermarks({A: 3})
    if is_clean:
        directory.close(broker_epoch=1, high_watermarks={A: 3})
    else:
        log.sync()
    again = open_directory(disk)
    log = again.logs[A]
    assert log.log_end_offset == 24
    assert again.initial_high_watermark(A) == 3
    assert log.producers.first_unstable_offset(3) == 2
    assert log.producers.first_unstable_offset(4) is None
    assert [each.first_offset for each in log.aborted_transactions(0, END)] == [2]
