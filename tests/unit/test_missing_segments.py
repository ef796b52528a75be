"""Segment files that vanish: a log start moves on purpose only, and never because of a hole."""

import errno

import pytest

from support.batches import batch
from tidelog.sim.crash_states import CrashStates
from tidelog.sim.disk import SimDisk
from tidelog.sim.disk_state import SyncDirectory
from tidelog.sim.log_check import log_faults
from tidelog.storage import LogConfig, LogDirectory, NoSpace
from tidelog.storage.checkpoints import LOG_STARTS, PartitionName, read_offsets, write_offsets
from tidelog.storage.clean_shutdown import NO_BROKER_EPOCH
from tidelog.storage.errors import MissingRecords
from tidelog.storage.log import Log
from tidelog.storage.mending import Fit
from tidelog.storage.meta_properties import MetaProperties, format_directory
from tidelog.storage.restoring import Restoration
from tidelog.wire.records import iter_batches, read_header, rewrite

ORDERS: PartitionName = ("orders", 0)
COUNT = 20
END = 1 << 62
LATE = 1 << 40


def config() -> LogConfig:
    return LogConfig(segment_bytes=400, index_interval_bytes=100, retention_ms=-1)


def open_directory(disk: SimDisk) -> LogDirectory:
    return LogDirectory.open(disk, lambda _: config(), cluster_id="c", node_id=1)


def started() -> tuple[SimDisk, LogDirectory]:
    """Several segments, and everything about them on disk."""
    disk = SimDisk()
    format_directory(disk, MetaProperties("c", 1, b"d" * 16))
    directory = open_directory(disk)
    directory.note_registered(7)
    log = directory.create_log(ORDERS, b"t" * 16)
    for number in range(COUNT):
        log.append_as_leader(batch(b"value %d" % number, time_ms=number), number // 8)
    directory.sync_dirty()
    log.store_epochs()
    directory.checkpoint_recovery_points()
    directory.checkpoint_log_starts()
    return disk, directory


def stopped(*, orderly: bool) -> tuple[SimDisk, list[int]]:
    """A disk at rest, and where its segments begin."""
    disk, directory = started()
    bases = bases_of(directory.logs[ORDERS])
    assert len(bases) >= 4
    if orderly:
        directory.close(broker_epoch=7, high_watermarks={ORDERS: COUNT})
    return disk, bases


def bases_of(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def lose(disk: SimDisk, base: int, *, all_files: bool = False) -> None:
    for path in list(disk.files()):
        if path.startswith(
            f"orders-0/{base:020d}.log" if not all_files else f"orders-0/{base:020d}"
        ):
            disk.remove(path)


def refusal(directory: LogDirectory) -> MissingRecords:
    error = directory.refused[ORDERS]
    assert isinstance(error, MissingRecords)
    return error


@pytest.mark.parametrize("orderly", [True, False])
@pytest.mark.parametrize("all_files", [True, False])
def test_a_log_without_its_first_segment_is_refused_with_the_offsets(
    orderly: bool, all_files: bool
) -> None:
    """It used to start where the next file does, and its followers deleted theirs to match."""
    disk, bases = stopped(orderly=orderly)
    lose(disk, bases[0], all_files=all_files)
    directory = open_directory(disk)
    assert ORDERS not in directory.logs
    assert (refusal(directory).offset, refusal(directory).end) == (0, bases[1])
    assert f"records 0 to {bases[1] - 1} are gone" in str(refusal(directory))
    assert directory.intact_since_epoch() == NO_BROKER_EPOCH, "it lost what it acknowledged"


@pytest.mark.parametrize("orderly", [True, False])
def test_a_hole_between_two_segments_is_found_at_the_start(orderly: bool) -> None:
    disk, bases = stopped(orderly=orderly)
    lose(disk, bases[1])
    directory = open_directory(disk)
    assert (refusal(directory).offset, refusal(directory).end) == (bases[1], bases[2])
    assert directory.intact_since_epoch() == NO_BROKER_EPOCH


def test_a_segment_that_lost_its_last_batches_is_found_at_the_start() -> None:
    """Whole batches to the end of the file, and yet fewer than there were."""
    disk, bases = stopped(orderly=True)
    path = f"orders-0/{bases[1]:020d}.log"
    file = disk.open(path)
    file.truncate(len(batch(b"value %d" % bases[1])))
    directory = open_directory(disk)
    assert (refusal(directory).offset, refusal(directory).end) == (bases[1] + 1, bases[2])


@pytest.mark.parametrize("lost", [0, 1])
def test_with_another_replica_the_log_begins_anew_below_the_hole(lost: int) -> None:
    disk, bases = stopped(orderly=True)
    lose(disk, bases[lost])
    directory = open_directory(disk)
    log = directory.repair(ORDERS)
    assert (log.log_start_offset, log.log_end_offset) == (0, bases[lost])
    assert log_faults(disk, log) == []
    assert directory.initial_high_watermark(ORDERS) == bases[lost]
    again = open_directory(disk)
    assert again.refused == {}
    assert again.logs[ORDERS].log_end_offset == bases[lost]


def repaired(disk: SimDisk) -> Log:
    """After any start: it may have been repaired before."""
    directory = open_directory(disk)
    return directory.repair(ORDERS) if ORDERS in directory.refused else directory.logs[ORDERS]


def directory_syncs_of_repair(lost: int) -> int:
    disk, bases = stopped(orderly=True)
    lose(disk, bases[lost])
    directory = open_directory(disk)
    disk.trace = []
    directory.repair(ORDERS)
    return sum(isinstance(effect, SyncDirectory) for effect in disk.trace)


def test_a_repair_syncs_as_often_for_many_segments_as_for_one() -> None:
    """The event loop waits for it. It used to sync once for every segment it dropped."""
    assert directory_syncs_of_repair(lost=1) == directory_syncs_of_repair(lost=-2)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_repair_that_a_crash_interrupts_is_finished_by_the_next(lost: int) -> None:
    disk, bases = stopped(orderly=True)
    lose(disk, bases[lost])
    disk.sync_dir("orders-0")
    states = CrashStates(repaired, start=disk.after_power_loss(()))
    for crashed in states:
        log = repaired(crashed)
        assert (log.log_start_offset, log.log_end_offset) == (0, bases[lost]), crashed.story
        assert log_faults(crashed, log) == [], crashed.story
    assert states.count > 100


def test_nothing_changes_on_disk_while_a_log_is_refused() -> None:
    """The operator may put the file back."""
    disk, bases = stopped(orderly=True)
    name = f"orders-0/{bases[0]:020d}.log"
    content = disk.files()[name]
    lose(disk, bases[0])
    directory = open_directory(disk)
    directory.checkpoint_log_starts()
    directory.checkpoint_recovery_points()
    directory.close(broker_epoch=8, high_watermarks={})
    disk.open(name, create=True).write(0, content)
    log = open_directory(disk).logs[ORDERS]
    assert (log.log_start_offset, log.log_end_offset) == (0, COUNT)


def test_an_operator_accepts_the_loss_by_writing_a_new_log_start() -> None:
    disk, bases = stopped(orderly=True)
    lose(disk, bases[0])
    write_offsets(disk, LOG_STARTS, {ORDERS: bases[1]})
    log = open_directory(disk).logs[ORDERS]
    assert (log.log_start_offset, log.log_end_offset) == (bases[1], COUNT)


def test_a_log_start_that_was_never_stored_is_taken_from_the_first_segment() -> None:
    """Kafka stores only those inside a segment, and so did we."""
    disk, bases = stopped(orderly=True)
    lose(disk, bases[0])
    write_offsets(disk, LOG_STARTS, {})
    assert open_directory(disk).logs[ORDERS].log_start_offset == bases[1]


def retain(directory: LogDirectory, bytes_: int, *, now_ms: int = 0) -> None:
    directory.logs[ORDERS].config.retention_bytes = bytes_
    directory.apply_retention(wall_ms=now_ms, monotonic_ms=now_ms, high_watermarks={ORDERS: COUNT})


def test_after_retention_and_a_crash_nothing_seems_to_be_missing() -> None:
    """The log start is not stored yet; the deleted segments are there under their other names."""
    disk, directory = started()
    retain(directory, 500)
    start = directory.logs[ORDERS].log_start_offset
    assert start > 0
    assert read_offsets(disk, LOG_STARTS)[ORDERS] == 0
    for state in (disk.copy(), disk.after_power_loss(())):
        again = open_directory(state)
        assert again.refused == {}
        assert again.logs[ORDERS].log_start_offset == start
        assert log_faults(state, again.logs[ORDERS]) == [], "they are gone now"
        assert read_offsets(state, LOG_STARTS)[ORDERS] == start


def test_the_log_start_is_stored_before_deleted_segments_are_removed() -> None:
    disk, directory = started()
    retain(directory, 500)
    retain(directory, 500, now_ms=LATE)
    assert not [path for path in disk.files() if path.endswith(".deleted")]
    assert read_offsets(disk, LOG_STARTS)[ORDERS] == directory.logs[ORDERS].log_start_offset
    assert open_directory(disk).refused == {}


def test_a_full_disk_gets_space_from_retention_though_the_log_start_cannot_be_stored() -> None:
    disk, directory = started()
    retain(directory, 500)
    disk.inject("create", error=errno.ENOSPC, lasting=True)
    with pytest.raises(NoSpace):
        retain(directory, 500, now_ms=LATE)
    left = {path: len(data) for path, data in disk.files().items() if path.endswith(".deleted")}
    assert left, "their names are still needed"
    assert set(left.values()) == {0}
    assert open_directory(disk.copy()).refused == {}
    disk.heal()
    retain(directory, 500, now_ms=LATE)
    assert not [path for path in disk.files() if path.endswith(".deleted")]


def test_a_replica_that_began_anew_further_on_is_not_taken_for_one_with_a_hole() -> None:
    disk, directory = started()
    directory.logs[ORDERS].truncate_fully_and_start_at(500)
    for state in (disk.copy(), disk.after_power_loss(())):
        again = open_directory(state)
        assert again.refused == {}
        assert again.logs[ORDERS].log_start_offset == 500


def test_a_new_replica_that_begins_further_on_stores_no_log_start_by_itself() -> None:
    disk, directory = started()
    before = disk.files()[LOG_STARTS]
    log = directory.create_log(("new", 0), b"n" * 16)
    log.truncate_fully_and_start_at(500)
    assert disk.files()[LOG_STARTS] == before
    assert open_directory(disk).logs["new", 0].log_start_offset == 500


# Records that come back from another replica


def segment_of(disk: SimDisk, base: int) -> bytes:
    return disk.files()[f"orders-0/{base:020d}.log"]


def put_back(disk: SimDisk, directory: LogDirectory, records: bytes) -> None:
    found = Restoration(disk, directory.refused[ORDERS])
    found.add(records)
    found.prepare()
    found.finish()


@pytest.mark.parametrize("orderly", [True, False])
@pytest.mark.parametrize("lost", [0, 1])
def test_a_segment_that_another_replica_has_is_put_back(orderly: bool, lost: int) -> None:
    disk, bases = stopped(orderly=orderly)
    healthy = {path: data for path, data in disk.files().items() if path.endswith(".log")}
    records = segment_of(disk, bases[lost])
    lose(disk, bases[lost], all_files=True)
    directory = open_directory(disk)
    put_back(disk, directory, records)
    assert directory.open_again(ORDERS) is None
    log = directory.logs[ORDERS]
    assert (log.log_start_offset, log.log_end_offset) == (0, COUNT)
    assert log_faults(disk, log) == []
    assert {path: disk.files()[path] for path in healthy} == healthy


def test_a_large_hole_is_filled_piece_by_piece() -> None:
    disk, bases = stopped(orderly=True)
    records = segment_of(disk, bases[0])
    lose(disk, bases[0], all_files=True)
    directory = open_directory(disk)
    half = [at for at, _ in iter_batches(records)][2]
    put_back(disk, directory, records[:half])
    error = directory.open_again(ORDERS)
    assert isinstance(error, MissingRecords)
    assert (error.offset, error.end) == (2, bases[1]), "what is back counts"
    put_back(disk, directory, records)
    assert directory.open_again(ORDERS) is None
    assert log_faults(disk, directory.logs[ORDERS]) == []
    assert directory.logs[ORDERS].log_end_offset == COUNT


def test_damaged_batches_beside_each_other_are_written_over() -> None:
    disk, bases = stopped(orderly=False)
    whole = segment_of(disk, bases[1])
    path, places = f"orders-0/{bases[1]:020d}.log", [at for at, _ in iter_batches(whole)]
    for place in places[1:3]:
        disk.flip_bit(path, place + 5)  # of its offset
    disk.remove(f"orders-0/{bases[1]:020d}.index")  # so that the start walks over it
    directory = open_directory(disk)
    found = Restoration(disk, directory.refused[ORDERS])
    assert found.add(whole[: places[2]]) is Fit.MORE, "the next one is damaged too"
    assert found.add(whole[places[2] :]) is Fit.WHOLE
    found.prepare()
    assert segment_of(disk, bases[1]) != whole
    found.finish()
    assert segment_of(disk, bases[1]) == whole
    assert directory.open_again(ORDERS) is None
    assert log_faults(disk, directory.logs[ORDERS]) == []


def other_epoch(number: int) -> bytes:
    return bytes(batch(b"value %d" % number, time_ms=number, base_offset=number, epoch=5))


def test_batches_that_were_not_there_are_not_taken() -> None:
    disk, bases = stopped(orderly=True)
    records = segment_of(disk, bases[0])
    first_two = [at for at, _ in iter_batches(records)][2]
    beyond = records + segment_of(disk, bases[1])
    lose(disk, bases[0], all_files=True)
    error = open_directory(disk).refused[ORDERS]
    flipped = bytearray(records)
    flipped[80] ^= 1
    for foreign in (bytes(flipped), records[first_two:], other_epoch(0), b"no batch at all" * 9):
        assert Restoration(disk, error).add(foreign) is Fit.FOREIGN
    assert Restoration(disk, error).add(records[:first_two]) is Fit.MORE
    found = Restoration(disk, error)
    assert (found.add(beyond), found.next_offset) == (Fit.WHOLE, bases[1]), "no more than is lost"


def test_a_batch_that_another_replica_has_compacted_does_not_fit_a_rotten_place() -> None:
    disk, bases = stopped(orderly=False)
    whole = segment_of(disk, bases[1])
    path, places = f"orders-0/{bases[1]:020d}.log", [at for at, _ in iter_batches(whole)]
    disk.flip_bit(path, places[1] + 70)
    disk.remove(f"orders-0/{bases[1]:020d}.index")  # so that the start walks over it
    error = open_directory(disk).refused[ORDERS]
    header = read_header(whole, places[1])
    emptied = bytes(rewrite(header, ()))
    assert Restoration(disk, error, gaps=True).add(emptied) is Fit.MORE
    assert Restoration(disk, error, gaps=True).add(whole[places[2] :]) is not Fit.WHOLE
    assert Restoration(disk, error, gaps=True).add(whole[places[1] :]) is Fit.WHOLE
