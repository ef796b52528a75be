"""What a broker may claim about itself after a crash."""

import pytest

from support.batches import batch
from tidelog.sim.crash_states import CrashStates
from tidelog.sim.disk import CrashKind, SimDisk
from tidelog.storage import LogConfig, LogDirectory
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.config import Durability
from tidelog.storage.intact_mark import FILE_NAME
from tidelog.storage.meta_properties import FILE_NAME as META_PROPERTIES
from tidelog.storage.meta_properties import MetaProperties, format_directory

A: PartitionName = ("a", 0)
B: PartitionName = ("b", 0)
SEGMENT = "a-0/00000000000000000000.log"


def opened(disk: SimDisk, durability: Durability = "fsync") -> LogDirectory:
    return LogDirectory.open(
        disk, lambda _: LogConfig(durability=durability), cluster_id="c", node_id=1
    )


def registered(disk: SimDisk, epoch: int, durability: Durability = "fsync") -> LogDirectory:
    """A broker that has taken records of two partitions, and knows that they are synced."""
    format_directory(disk, MetaProperties("c", 1, b"d" * 16))
    directory = opened(disk, durability)
    directory.note_registered(epoch)
    for name in (A, B):
        log = directory.create_log(name, b"i" * 16)
        log.append_as_leader(batch(b"1", b"2", b"3"), 0)
    directory.sync_dirty()
    directory.unstored.store_all()
    directory.checkpoint_recovery_points()
    return directory


def killed(disk: SimDisk) -> SimDisk:
    return disk.crash(CrashKind.PROCESS, lambda limit: 0)


def test_a_killed_broker_that_acknowledged_what_was_synced_is_intact() -> None:
    disk = SimDisk()
    directory = registered(disk, 7)
    assert directory.intact_since_epoch() == 7
    for crashed in (killed(disk), disk.after_power_loss(())):
        again = opened(crashed)
        assert again.broker_epoch_at_stop is None
        assert again.intact_since_epoch() == 7
        assert opened(crashed).intact_since_epoch() == 7, "until it has registered again"
        again.note_registered(9)
        assert opened(killed(crashed)).intact_since_epoch() == 9


def test_in_page_cache_mode_only_an_orderly_stop_proves_it_and_only_once() -> None:
    disk = SimDisk()
    directory = registered(disk, 7, "page-cache")
    assert opened(killed(disk), "page-cache").intact_since_epoch() == -1
    directory.close(broker_epoch=7, high_watermarks={})
    again = opened(disk, "page-cache")
    assert again.intact_since_epoch() == 7
    assert opened(killed(disk), "page-cache").intact_since_epoch() == -1


def test_a_broker_that_no_longer_syncs_takes_its_mark_back() -> None:
    disk = SimDisk()
    registered(disk, 7)
    again = opened(disk, "page-cache")
    assert again.intact_since_epoch() == -1
    again.note_registered(8)
    assert not disk.after_power_loss(()).exists(FILE_NAME)


def test_the_mark_does_not_survive_a_refused_log_or_its_repair() -> None:
    disk = SimDisk()
    registered(disk, 7)
    disk.flip_bit(SEGMENT, 70)
    again = opened(disk)
    assert list(again.refused) == [A]
    assert again.intact_since_epoch() == -1
    assert not disk.after_power_loss(()).exists(FILE_NAME)
    again.note_registered(8)
    assert not disk.exists(FILE_NAME), "a log is still refused"
    again.repair(A)
    assert again.intact_since_epoch() == -1
    assert opened(disk).intact_since_epoch() == -1
    again.note_registered(9)
    assert opened(disk).intact_since_epoch() == 9, "as this incarnation it has lost nothing"


def test_also_an_orderly_stop_proves_nothing_when_a_log_has_gone_bad_since() -> None:
    disk = SimDisk()
    registered(disk, 7).close(broker_epoch=7, high_watermarks={})
    disk.flip_bit(SEGMENT, 70)
    again = opened(disk)
    assert (again.broker_epoch_at_stop, again.intact_since_epoch()) == (7, -1)


def test_a_repair_that_a_crash_interrupts_never_leaves_the_mark() -> None:
    disk = SimDisk()
    registered(disk, 7)
    disk.flip_bit(SEGMENT, 70)

    def repair(disk: SimDisk) -> None:
        opened(disk).repair(A)

    for crashed in CrashStates(repair, start=disk.after_power_loss(())):
        again = opened(crashed)
        assert again.intact_since_epoch() == -1, crashed.story


def remove_tree(disk: SimDisk, path: str) -> None:
    for name in disk.list(path):
        disk.remove(f"{path}/{name}")
    disk.remove(path)


def test_the_mark_does_not_survive_logs_that_were_taken_away() -> None:
    disk = SimDisk()
    registered(disk, 7)
    remove_tree(disk, "a-0")
    again = opened(disk)
    assert again.intact_since_epoch() == -1
    assert "the directory is gone" in str(again.repairs[0])
    assert opened(disk).intact_since_epoch() == -1


def test_a_log_without_its_topic_id_is_lost_too() -> None:
    disk = SimDisk()
    registered(disk, 7)
    disk.remove("a-0/partition.metadata")
    assert opened(disk).intact_since_epoch() == -1


def test_deleted_logs_are_not_missed_whenever_a_crash_comes() -> None:
    start = SimDisk()
    registered(start, 7)

    def delete(disk: SimDisk) -> None:
        opened(disk).delete_log(A)

    states = CrashStates(delete, start=start.after_power_loss(()))
    for crashed in states:
        again = opened(crashed)
        assert again.intact_since_epoch() == 7, (crashed.story, again.repairs)
    assert states.count > 5


def test_a_mark_of_another_directory_proves_nothing() -> None:
    disk = SimDisk()
    registered(disk, 7)
    for path in ("a-0", "b-0"):
        remove_tree(disk, path)
    for path in (META_PROPERTIES, "recovery-point-offset-checkpoint"):
        disk.remove(path)
    format_directory(disk, MetaProperties("c", 1, b"n" * 16))
    assert opened(disk).intact_since_epoch() == -1


@pytest.mark.parametrize(
    "content", [b"", b"7", b"{", b'{"version":1}', b'{"version":0,"brokerEpoch":7}', bytes(40)]
)
def test_a_mark_that_cannot_be_read_proves_nothing(content: bytes) -> None:
    disk = SimDisk()
    registered(disk, 7)
    file = disk.open(FILE_NAME)
    file.truncate(0)
    file.write(0, content)
    assert opened(disk).intact_since_epoch() == -1


def test_on_a_full_disk_the_mark_of_the_former_incarnation_stays() -> None:
    disk = SimDisk()
    registered(disk, 7)
    again = opened(disk)
    disk.inject("write", error=28, lasting=True)
    again.note_registered(9)
    disk.heal()
    assert opened(disk).intact_since_epoch() == 7
