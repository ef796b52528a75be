"""A log on a virtual disk: appending, reading, rolling, truncating, forgetting."""

import errno
import warnings
from itertools import pairwise

import pytest
from aiokafka.record import MemoryRecords as AiokafkaRecords

from support.batches import batch, headers, marker, offsets
from tidelog.core.replication.log_view import ReplicaLog
from tidelog.sim.disk import SimDisk
from tidelog.sim.log_check import log_faults
from tidelog.storage import (
    BatchLargerThanSegment,
    CorruptSegment,
    DirectoryOffline,
    Log,
    LogConfig,
    NoSpace,
    OffsetOutOfRange,
    UnexpectedAppend,
)
from tidelog.storage.config import Durability
from tidelog.storage.indexes import AbortedTransaction
from tidelog.storage.lookups import TimestampOffset

with warnings.catch_warnings():
    # It reads its schemas through a function that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record import MemoryRecords as KafkaPythonRecords

END = 1 << 62
EPOCHS = "t-0/leader-epoch-checkpoint"


def small_config(**settings: int) -> LogConfig:
    return LogConfig(**({"segment_bytes": 400, "index_interval_bytes": 100} | settings))  # type: ignore[arg-type]


def new_log(disk: SimDisk, config: LogConfig | None = None) -> Log:
    disk.make_dir("t-0")
    return Log.open(disk, "t-0", config or LogConfig())


def reopened(disk: SimDisk, log: Log, *, clean: bool = False) -> Log:
    point, start = log.recovery_point, log.log_start_offset
    return Log.open(
        disk, "t-0", log.config, recovery_point=point, log_start=start, clean_shutdown=clean
    )


def filled(disk: SimDisk, count: int, config: LogConfig | None = None) -> Log:
    """Batches of two records each, one per 10 ms, in epoch 0."""
    log = new_log(disk, config or small_config())
    for number in range(count):
        log.append_as_leader(batch(b"a%d" % number, b"b", time_ms=1000 + 10 * number), 0)
    return log


def names(disk: SimDisk) -> list[str]:
    return disk.list("t-0")


def test_a_log_is_a_replica_log() -> None:
    log: ReplicaLog[memoryview] = new_log(SimDisk())
    assert (log.log_start_offset, log.log_end_offset, log.durable_offset) == (0, 0, 0)


def test_the_leader_stamps_offset_and_epoch() -> None:
    disk = SimDisk()
    log = new_log(disk)
    first = log.append_as_leader(batch(b"x", b"y"), 3)
    second = log.append_as_leader(bytes(batch(b"z")), 4)
    assert (first.base_offset, first.last_offset, first.leader_epoch) == (0, 1, 3)
    assert (second.base_offset, second.leader_epoch) == (2, 4)
    assert log.log_end_offset == 3
    assert log.epochs.entries == [(3, 0), (4, 2)]
    assert log_faults(disk, log) == []


def test_a_follower_appends_what_it_is_sent_and_nothing_else() -> None:
    disk, leader_disk = SimDisk(), SimDisk()
    leader, follower = filled(leader_disk, 12), new_log(disk, small_config())
    while follower.log_end_offset < leader.log_end_offset:
        follower.append_as_follower(leader.read(follower.log_end_offset, END, 300))
    assert follower.epochs.entries == leader.epochs.entries
    assert b"".join(follower.read(0, END, 1)) == b"".join(leader.read(0, END, 1))
    assert log_faults(disk, follower) == []

    with pytest.raises(UnexpectedAppend):
        follower.append_as_follower([batch(b"gap", base_offset=99, epoch=0)])
    with pytest.raises(UnexpectedAppend):
        follower.append_as_follower([b"no batch at all, just bytes that came over the network" * 2])
    damaged = batch(b"damaged", base_offset=24, epoch=0)
    damaged[-1] ^= 1
    with pytest.raises(UnexpectedAppend):
        follower.append_as_follower([damaged])
    assert follower.log_end_offset == 24


def test_a_follower_may_start_in_the_middle_of_a_batch() -> None:
    """The leader's log start moved into a batch; the follower gets that batch whole."""
    disk = SimDisk()
    log = new_log(disk)
    log.truncate_fully_and_start_at(57)
    log.append_as_follower([batch(*[b"v"] * 10, base_offset=50, epoch=2)])
    assert (log.log_start_offset, log.log_end_offset) == (57, 60)
    assert offsets(log.read(57, END, 1)) == [(50, 59)]
    with pytest.raises(OffsetOutOfRange):
        log.read(56, END, 1)
    log.sync()
    again = reopened(disk, log)
    assert (again.log_start_offset, again.log_end_offset) == (57, 60)


def test_what_was_read_in_vain_is_not_kept_by_what_is_served() -> None:
    """A reader may be allowed many bytes of which few are committed, and take its time."""
    log = filled(SimDisk(), 40, LogConfig())
    size = len(log.read(0, END, END)[0])
    for to_offset in range(2, 82, 2):
        for max_bytes in (0, size // 3, size):
            (records,) = log.read(0, to_offset, max_bytes)
            assert isinstance(records.obj, bytes)
            assert len(records.obj) <= len(records) * 4 // 3 + 1, (to_offset, max_bytes)


def test_reads_give_whole_batches_below_the_limit() -> None:
    log = filled(SimDisk(), 6, LogConfig())
    size = headers(log.read(0, END, 1))[0].size_bytes
    assert offsets(log.read(0, END, 1)) == [(0, 1)], "at least one, whatever its size"
    assert offsets(log.read(3, END, 2 * size)) == [(2, 3), (4, 5)]
    assert offsets(log.read(0, 5, 10**6)) == [(0, 1), (2, 3)], "nothing at or above the limit"
    assert log.read(4, 5, 10**6) == []
    assert log.read(12, END, 100) == []
    with pytest.raises(OffsetOutOfRange):
        log.read(13, END, 100)


def test_segments_roll_by_size_and_are_named_by_their_first_offset() -> None:
    disk = SimDisk()
    log = filled(disk, 20)
    logs = [name for name in names(disk) if name.endswith(".log")]
    assert len(logs) > 3
    assert logs == [f"{segment.base_offset:020d}.log" for segment in log.segments]
    assert all(segment.size <= 400 for segment in log.segments)
    for older, newer in pairwise(log.segments):
        assert older.next_offset == newer.base_offset
        assert f"{newer.base_offset:020d}.snapshot" in names(disk)
    assert log.recovery_point == 0, "a roll syncs nothing"
    log.sync()
    assert log.recovery_point == log.log_end_offset
    assert log_faults(disk, log) == []


def test_segments_roll_by_record_time_and_by_full_index() -> None:
    disk = SimDisk()
    log = new_log(disk, LogConfig(segment_ms=1000))
    for time_ms in (0, 1000, 1001, 2001, 2002):
        log.append_as_leader(batch(b"x", time_ms=time_ms), 0)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]

    other = SimDisk()
    log = filled(other, 20, LogConfig(index_interval_bytes=1, index_size_max_bytes=48))
    assert max(len(segment.offsets) for segment in log.segments) <= 6
    assert len(log.segments) > 2
    assert log_faults(other, log) == []


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    log = new_log(SimDisk(), LogConfig(segment_bytes=100))
    with pytest.raises(BatchLargerThanSegment):
        log.append_as_leader(batch(b"x" * 200), 0)
    assert log.log_end_offset == 0
    log.append_as_follower([batch(b"x" * 200, epoch=0)])
    assert log.log_end_offset == 1, "what a leader took, its follower takes too"


@pytest.mark.parametrize(("durability", "expected"), [("fsync", 0), ("page-cache", 2)])
def test_what_counts_as_durable(durability: Durability, expected: int) -> None:
    log = new_log(SimDisk(), LogConfig(durability=durability))
    log.append_as_leader(batch(b"x", b"y"), 0)
    assert (log.durable_offset, log.recovery_point) == (expected, 0)
    log.sync()
    assert (log.durable_offset, log.recovery_point) == (2, 2)


def test_the_first_record_of_an_epoch_waits_for_no_sync() -> None:
    disk = SimDisk(record=True)
    log = new_log(disk)
    assert disk.trace is not None
    made = len(disk.trace)
    log.assign_epoch(7, 0)
    log.append_as_leader(batch(b"x"), 7)
    log.append_as_leader(batch(b"y"), 8)
    assert {type(effect).__name__ for effect in disk.trace[made:]} == {"Write"}


def test_a_killed_log_reports_the_epoch_of_its_last_batch() -> None:
    """Nothing but the batches tells of it."""
    disk = SimDisk()
    log = new_log(disk)
    log.append_as_leader(batch(b"x"), 7)
    log.append_as_leader(batch(b"y"), 9)
    assert EPOCHS not in disk.files()
    again = new_log(disk)
    assert again.epochs.entries == [(7, 0), (9, 1)]
    assert again.place.repairs == []


def test_the_recovery_point_on_disk_does_not_pass_an_epoch_that_only_batches_know() -> None:
    disk = SimDisk()
    log = new_log(disk)
    log.append_as_leader(batch(b"x"), 7)
    log.store_epochs()
    log.append_as_leader(batch(b"y"), 9)
    log.sync()
    assert (log.durable_offset, log.storable_recovery_point) == (2, 1)
    log.store_epochs()
    assert log.storable_recovery_point == 2
    assert disk.files()[EPOCHS] == b"0\n2\n7 0\n9 1\n"


def test_an_epoch_without_a_record_is_not_stored() -> None:
    """The next leader may write an older epoch at the same offset, which it would contradict."""
    disk = SimDisk()
    log = new_log(disk)
    log.append_as_leader(batch(b"x"), 3)
    log.assign_epoch(7, 1)
    log.store_epochs()
    assert disk.files()[EPOCHS] == b"0\n1\n3 0\n"
    assert log.epochs_are_stored
    log.append_as_follower([batch(b"y", base_offset=1, epoch=4)])
    assert new_log(disk).epochs.entries == [(3, 0), (4, 1)]


def test_what_is_cut_while_its_epoch_is_stored_does_not_come_back() -> None:
    disk = SimDisk()
    log = new_log(disk)
    log.append_as_leader(batch(b"x"), 3)
    log.store_epochs()
    log.append_as_leader(batch(b"y"), 8)
    pending = log.epoch_file.start_storing(log.log_end_offset)
    assert pending is not None
    log.truncate_to(1)
    log.append_as_follower([batch(b"other", base_offset=1, epoch=5)])
    pending.syncing.run()
    assert log.epoch_file.finish_writing(pending) is None
    assert log.storable_recovery_point == 0
    assert new_log(disk).epochs.entries == [(3, 0), (5, 1)]


def test_retention_stores_the_epochs_of_the_records_that_go() -> None:
    disk = SimDisk()
    log = filled(disk, 20, small_config(retention_ms=100))
    log.append_as_leader(batch(b"new epoch", time_ms=1300), 3)
    assert log.apply_retention(1350, 41) > 0
    assert log.epochs_are_stored
    assert reopened(disk, log).epochs.entries == log.epochs.entries == [(3, 40)]


def test_truncation_cuts_whole_batches_and_what_belonged_to_them() -> None:
    disk = SimDisk()
    log = filled(disk, 20)
    log.append_as_leader(batch(b"p", producer=5, sequence=0), 1)
    log.append_as_leader(batch(b"q", producer=6, sequence=0), 2)
    log.truncate_to(41)
    assert log.log_end_offset == 41
    assert log.epochs.entries == [(0, 0), (1, 40)]
    assert [entry.producer_id for entry in log.producers.entries()] == [5]
    log.truncate_to(13)
    assert log.log_end_offset == 12, "offset 13 lies inside the batch that begins at 12"
    assert log.epochs.entries == [(0, 0)]
    assert log.producers.entries() == []
    assert log_faults(disk, log) == []
    log.append_as_leader(batch(b"new"), 5)
    assert offsets(log.read(11, END, 10**6))[-1] == (12, 12)
    assert log_faults(disk, log) == []


def test_a_truncation_without_records_still_forgets_the_epoch() -> None:
    """KAFKA-10706: elected, wrote nothing, deposed."""
    disk = SimDisk()
    log = filled(disk, 2)
    log.assign_epoch(3, 4)
    log.truncate_to(4)
    assert log.epochs.entries == [(0, 0)]
    assert reopened(disk, log).epochs.entries == [(0, 0)]


def test_truncation_below_the_first_segment_starts_over() -> None:
    disk = SimDisk()
    log = filled(disk, 20)
    log.raise_log_start(30)
    log.apply_retention(0, 40)
    assert log.segments[0].base_offset > 0
    log.truncate_to(2)
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries) == (2, 2, [])
    log.append_as_leader(batch(b"again"), 9)
    log.remove_deleted_files(END)
    assert log_faults(disk, log) == []


def test_starting_over_forgets_everything() -> None:
    disk = SimDisk()
    log = filled(disk, 20)
    log.truncate_fully_and_start_at(1000)
    assert (log.log_start_offset, log.log_end_offset, log.durable_offset) == (1000, 1000, 1000)
    assert [name for name in names(disk) if not name.startswith("0" * 16 + "1000")] == [
        "leader-epoch-checkpoint"
    ]
    log.append_as_leader(batch(b"x"), 4)
    assert log.read(1000, END, 1)
    assert log_faults(disk, log) == []
    assert reopened(disk, log).log_end_offset == 1001


def test_retention_removes_old_segments_but_only_committed_ones() -> None:
    disk = SimDisk()
    log = filled(disk, 20, small_config(retention_ms=100, file_delete_delay_ms=50))
    newest = 1000 + 10 * 19
    assert log.apply_retention(newest, high_watermark=0) == 0, "nothing is committed"
    before = len(log.segments)
    removed = log.apply_retention(newest, high_watermark=40)
    assert 0 < removed < before
    assert all(newest - segment.max_timestamp <= 100 for segment in log.segments)
    assert log.log_start_offset == log.segments[0].base_offset
    assert log.epochs.entries == [(0, log.log_start_offset)]
    assert any(name.endswith(".deleted") for name in names(disk))
    log.remove_deleted_files(newest + 49)
    assert any(name.endswith(".deleted") for name in names(disk))
    log.remove_deleted_files(newest + 50)
    assert log_faults(disk, log) == []
    with pytest.raises(OffsetOutOfRange):
        log.read(0, END, 1)


def test_retention_by_size_and_of_everything() -> None:
    disk = SimDisk()
    log = filled(disk, 20, small_config(retention_ms=-1, retention_bytes=800))
    assert log.apply_retention(10**9, 40) > 0
    assert 800 <= log.size_bytes < 1200
    log.config.retention_bytes = 0
    log.apply_retention(10**9, 40)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (40, 40, 0)
    assert log.append_as_leader(batch(b"x"), 0).base_offset == 40
    assert log_faults(disk, log, leftovers=True) == []


def test_raising_the_log_start_hides_records_and_lets_segments_go() -> None:
    disk = SimDisk()
    log = filled(disk, 20, small_config(retention_ms=-1))
    log.raise_log_start(17)
    log.raise_log_start(3)
    assert log.log_start_offset == 17
    assert log.epochs.entries == [(0, 17)]
    with pytest.raises(OffsetOutOfRange):
        log.read(16, END, 1)
    log.apply_retention(0, 40)
    assert log.segments[0].base_offset <= 17 < log.segments[0].next_offset
    with pytest.raises(OffsetOutOfRange):
        log.raise_log_start(41)


def test_time_lookup_finds_the_first_record_that_is_not_older() -> None:
    log = filled(SimDisk(), 20)
    assert log.offset_for_timestamp(0) == TimestampOffset(1000, 0, 0)
    assert log.offset_for_timestamp(1001) == TimestampOffset(1010, 2, 0)
    assert log.offset_for_timestamp(1100) == TimestampOffset(1100, 20, 0)
    assert log.offset_for_timestamp(1191) is None
    log.raise_log_start(9)
    assert log.offset_for_timestamp(0) == TimestampOffset(1040, 9, 0)


def test_time_lookup_with_clocks_that_disagree_takes_the_first_by_offset() -> None:
    log = new_log(SimDisk(), small_config())
    times = [50, 40, 70, 10, 70, 60, 90, 20, 80, 95] * 3
    for time_ms in times:
        log.append_as_leader(batch(b"x", time_ms=time_ms), 0)
    for wanted in range(100):
        offset = next((o for o, time_ms in enumerate(times) if time_ms >= wanted), None)
        found = log.offset_for_timestamp(wanted)
        assert (found.offset if found else None) == offset, wanted


def test_aborted_transactions_are_found_by_the_range_they_touch() -> None:
    disk = SimDisk()
    log = new_log(disk, small_config())
    log.append_as_leader(batch(b"a", b"b", producer=1, sequence=0, transactional=True), 0)
    log.append_as_leader(batch(b"c", producer=2, sequence=0, transactional=True), 0)
    for number in range(10):
        log.append_as_leader(batch(b"plain %d" % number), 0)
    log.append_as_leader(marker(1, commit=False), 0)
    log.append_as_leader(marker(2, commit=True), 0)
    aborted = AbortedTransaction(1, 0, 13, last_stable_offset=2)
    assert len(log.segments) > 2
    assert log.aborted_transactions(0, 1) == [aborted]
    assert log.aborted_transactions(5, 9) == [aborted]
    assert log.aborted_transactions(14, 15) == []
    assert names(disk).count("00000000000000000000.txnindex") == 0, "only where a marker is"
    log.sync()
    assert reopened(disk, log).aborted_transactions(0, 1) == [aborted]
    log.truncate_to(13)
    assert log.aborted_transactions(0, 13) == []
    assert log.producers.first_unstable_offset(END) == 0


def test_an_abort_of_nothing_is_no_aborted_transaction() -> None:
    log = new_log(SimDisk())
    log.append_as_leader(batch(b"plain"), 0)
    log.append_as_leader(marker(1, commit=False), 0)
    assert log.aborted_transactions(0, END) == []


def test_a_transaction_whose_marker_was_cut_is_open_until_another_marker_comes() -> None:
    log = new_log(SimDisk())
    log.append_as_leader(batch(b"a", b"b", producer=1, sequence=0, transactional=True), 0)
    log.append_as_leader(marker(1, commit=False), 0)
    log.truncate_to(2)
    log.append_as_leader(batch(b"plain"), 1)
    log.append_as_leader(batch(b"c", producer=1, sequence=2, transactional=True), 1)
    log.append_as_leader(marker(1, commit=False), 1)
    assert log.aborted_transactions(0, END) == [AbortedTransaction(1, 0, 4, 5)]
    assert log.producers.first_unstable_offset(END) is None
    log.truncate_to(0)
    log.append_as_leader(batch(b"plain"), 2)
    log.append_as_leader(marker(1, commit=False), 2)
    assert log.aborted_transactions(0, END) == []


def test_a_cut_does_not_forget_which_markers_are_not_committed() -> None:
    """A snapshot between the marker and the cut: it knows the transaction no more."""
    disk = SimDisk()
    log = new_log(disk, small_config())
    log.append_as_leader(batch(b"a", producer=1, sequence=0, transactional=True), 0)
    log.append_as_leader(marker(1, commit=True), 0)
    for number in range(10):
        log.append_as_leader(batch(b"plain %d" % number), 0)
    assert len(log.segments) > 1
    assert log.producers.first_unstable_offset(1) == 0
    log.truncate_to(log.log_end_offset - 1)
    assert log.producers.first_unstable_offset(1) == 0
    assert log.producers.first_unstable_offset(2) is None
    log.truncate_to(1)
    assert log.producers.first_unstable_offset(1) == 0, "it is open"
    assert log.producers.ended_transactions() == ()


def test_a_full_disk_refuses_the_append_and_nothing_else() -> None:
    disk = SimDisk()
    log = filled(disk, 5)
    end = log.log_end_offset
    for partial_bytes in (0, 1, 40, 70):
        disk.inject("write", error=errno.ENOSPC, lasting=True, partial_bytes=partial_bytes)
        with pytest.raises(NoSpace):
            log.append_as_leader(batch(b"does not fit", producer=3, sequence=0), 5)
        assert log.log_end_offset == end
        assert log.epochs.entries == [(0, 0)]
        assert offsets(log.read(end - 1, END, 1)) == [(end - 2, end - 1)]
        disk.heal()
    log.append_as_leader(batch(b"fits"), 5)
    assert log.log_end_offset == end + 1
    assert log_faults(disk, log) == []


def test_a_full_disk_at_any_write_leaves_a_log_that_goes_on() -> None:
    """Whichever file of an append, a roll or a marker does not fit."""
    for after in range(40):
        disk = SimDisk()
        log = new_log(disk, small_config(index_interval_bytes=1))
        acked = 0
        disk.inject("write", error=errno.ENOSPC, after=after, partial_bytes=5)
        for number in range(12):
            wanted = [
                batch(b"%d" % number, producer=1, sequence=number, transactional=True),
                marker(1, commit=False),
            ]
            for data in wanted:
                try:
                    log.append_as_leader(data, number // 4)
                except NoSpace:
                    log.append_as_leader(data, number // 4)
                acked += 1
                assert log.log_end_offset == acked, after
        assert log_faults(disk, log) == [], after
        log.sync()
        again = reopened(disk, log)
        assert log_faults(disk, again) == [], after
        assert len(again.aborted_transactions(0, acked)) == 12, after


def test_on_a_full_disk_old_records_can_still_go() -> None:
    """Retention is how a full disk gets space again, so it must not need any."""
    disk = SimDisk()
    log = filled(disk, 20, small_config(retention_ms=100))
    log.append_as_leader(batch(b"new epoch", time_ms=1300), 3)
    disk.inject("write", error=errno.ENOSPC, lasting=True)
    disk.inject("create", error=errno.ENOSPC, lasting=True)
    assert log.apply_retention(1350, 41) > 0
    assert log.log_start_offset > 0
    assert log.apply_retention(10**6, 41) == 0, "the last one only when a new one can be made"
    log.remove_deleted_files(END)
    disk.heal()
    log.append_as_leader(batch(b"goes on"), 3)
    assert log_faults(disk, log) == []
    again = reopened(disk, log)
    assert again.epochs.entries == log.epochs.entries


def test_on_a_full_disk_a_truncation_still_leaves_a_sound_log() -> None:
    disk = SimDisk()
    log = filled(disk, 20)
    log.append_as_leader(batch(b"p", producer=5, sequence=0), 1)
    disk.inject("write", error=errno.ENOSPC, lasting=True)
    log.truncate_to(40)
    assert (log.log_end_offset, log.epochs.entries) == (40, [(0, 0)])
    assert log.producers.entries() == []
    disk.heal()
    crashed = reopened(disk.copy(), log)
    assert crashed.epochs.entries == [(0, 0)]
    log.append_as_leader(batch(b"goes on"), 0)
    assert log_faults(disk, log) == []


def test_a_failed_sync_takes_the_log_offline_for_good() -> None:
    disk = SimDisk()
    log = filled(disk, 1)
    disk.inject("sync", path="t-0/00000000000000000000.log")
    with pytest.raises(DirectoryOffline, match=r"00000000000000000000\.log"):
        log.sync()
    disk.heal()
    assert log.durable_offset == 0
    for operation in (
        log.sync,
        lambda: log.append_as_leader(batch(b"x"), 0),
        lambda: log.read(0, END, 1),
        lambda: log.truncate_to(1),
        lambda: log.truncate_fully_and_start_at(3),
        log.roll,
        log.close,
    ):
        with pytest.raises(DirectoryOffline):
            operation()
    assert log.durable_offset == 0


@pytest.mark.parametrize("byte", range(0, 75, 1))
def test_no_damaged_batch_is_ever_served(byte: int) -> None:
    """Any bit of any byte of a batch, header or body: either it is refused, or the bytes are
    the ones that were appended."""
    disk = SimDisk()
    log = filled(disk, 9, LogConfig(index_interval_bytes=150))
    good = {at: bytes(log.read(at, END, 1)[0]) for at in range(0, 18, 2)}
    victim = log.segments[0].locate(8)
    assert victim is not None
    disk.flip_bit(log.segments[0].path, victim.position + byte % victim.header.size_bytes, byte % 8)
    refused = []
    for at, expected in good.items():
        try:
            assert bytes(log.read(at, END, 1)[0]) == expected
        except CorruptSegment as error:
            refused.append((at, error.offset, error.path))
    assert refused
    assert all(at >= 8 and first_lost <= at for at, first_lost, _ in refused)
    assert {path for _, _, path in refused} == {"t-0/00000000000000000000.log"}
    served = b"".join(b"".join(log.read(at, END, 10**6)) for at in (0, 2, 4, 6))
    assert served.startswith(good[0] + good[2] + good[4] + good[6])
    # A follower gets rid of it and goes on from there.
    log.truncate_to(8)
    assert log.log_end_offset == 8
    log.append_as_leader(batch(b"fetched again"), 0)
    assert log_faults(disk, log) == []


@pytest.mark.parametrize(("damaged", "kept_index"), [(4, 10**6), (4, 100), (8, 10**6)])
def test_nothing_is_cut_while_something_in_front_of_the_cut_cannot_be_read(
    damaged: int, kept_index: int
) -> None:
    """Others may count on what is to stay, and the producers of it must be known."""
    disk = SimDisk()
    log = new_log(disk, LogConfig(index_interval_bytes=kept_index))
    for number in range(8):
        log.append_as_leader(batch(b"a", b"b", producer=5, sequence=2 * number), 0)
    log.sync()
    victim = log.segments[0].locate(damaged)
    assert victim is not None
    disk.flip_bit(log.segments[0].path, victim.position + 16, 3)  # its magic
    (before,) = log.producers.entries()
    with pytest.raises(CorruptSegment) as caught:
        log.truncate_to(12)
    assert caught.value.offset == damaged
    assert (log.log_end_offset, log.recovery_point) == (16, 16)
    (after,) = log.producers.entries()
    assert after.last_sequence == before.last_sequence == 15
    disk.flip_bit(log.segments[0].path, victim.position + 16, 3)
    log.truncate_to(12)
    assert log.log_end_offset == 12
    assert log.producers.entries()[0].last_sequence == 11


def test_a_lying_index_is_made_anew() -> None:
    disk = SimDisk()
    log = filled(disk, 30, LogConfig(index_interval_bytes=100))
    log.close()
    for path, position in (
        ("t-0/00000000000000000000.index", 6),
        ("t-0/00000000000000000000.index", 17),
        ("t-0/00000000000000000000.timeindex", 9),
        ("t-0/00000000000000000000.timeindex", 20),
    ):
        for bit in range(8):
            damaged = disk.copy()
            damaged.flip_bit(path, position, bit)
            again = reopened(damaged, log, clean=True)
            assert log_faults(damaged, again) == [], (path, position, bit)
            assert again.offset_for_timestamp(1150) == TimestampOffset(1150, 30, 0)


def test_clients_we_did_not_write_can_read_our_segments() -> None:
    disk = SimDisk()
    log = filled(disk, 20)
    log.append_as_leader(marker(3, commit=True), 0)
    values: list[bytes] = []
    other: list[bytes] = []
    for segment in log.segments:
        content = disk.files()[segment.path]
        records = AiokafkaRecords(content)
        while (found := records.next_batch()) is not None:
            assert found.validate_crc()
            if not found.is_control_batch:
                values += [record.value for record in found]
        pure = KafkaPythonRecords(content)
        while (also := pure.next_batch()) is not None:
            assert also.validate_crc()
            if not also.is_control_batch:
                other += [record.value for record in also]
    assert values == other
    assert values == [value for number in range(20) for value in (b"a%d" % number, b"b")]


# Large reads


def read_all(log: Log, max_bytes: int) -> list[memoryview]:
    """As a consumer reads: from where the last answer ended."""
    runs, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        (run,) = log.read(offset, END, max_bytes)
        runs.append(run)
        offset = headers([run])[-1].next_offset
    return runs


def test_nothing_is_read_of_a_large_batch_that_does_not_fit() -> None:
    log = new_log(SimDisk())
    for number in range(7):
        log.append_as_leader(batch(bytes([number]) * 30_000), 0)
    runs = read_all(log, 100_000)
    assert [len(headers([run])) for run in runs] == [3, 3, 1]
    assert all(len(bytes(run.obj)) == len(run) for run in runs)


def test_small_batches_fill_a_large_read() -> None:
    log = new_log(SimDisk())
    for number in range(2_000):
        log.append_as_leader(batch(b"%d" % number * 20), 0)
    interval_bytes = log.config.index_interval_bytes
    runs = read_all(log, 70_000)
    assert sum(len(headers([run])) for run in runs) == 2_000
    assert all(70_000 - 2 * interval_bytes < len(run) <= 70_000 for run in runs[:-1])


def test_an_index_that_leads_into_batches_costs_a_reader_nothing_but_time() -> None:
    log = new_log(SimDisk())
    for number in range(20):
        log.append_as_leader(batch(bytes([number]) * 60_000), 0)
    written = b"".join(read_all(log, 1 << 21))
    positions = log._segments[0].offsets._positions
    for place in range(len(positions)):
        positions[place] -= 9_000  # into the first batch of every read
    assert b"".join(read_all(log, 70_000)) == written
