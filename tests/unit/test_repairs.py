"""Files that are bad at a start: each repair is told once, with file, place and consequence."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from support.batches import batch, marker
from support.lone_broker import node_config
from support.text_codec import TextCodec
from tidelog.core.metadata.records import Topic
from tidelog.core.quorum.messages import SnapshotId
from tidelog.core.types import LogEntry
from tidelog.host.clock import SystemClock
from tidelog.host.disk import FileDisk
from tidelog.node.disks import Disks, open_metadata_log
from tidelog.quorum.entry_codec import KafkaEntryCodec
from tidelog.sim.disk import SimDisk
from tidelog.storage import LogConfig, LogDirectory, repairs
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.meta_properties import MetaProperties, format_directory
from tidelog.storage.metadata_log import MetadataLog

ORDERS: PartitionName = ("orders", 0)
COUNT = 30
END = 1 << 62
CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=100)


def open_directory(disk: SimDisk) -> LogDirectory:
    return LogDirectory.open(disk, lambda _: CONFIG, cluster_id="c", node_id=1)


def stopped(*, orderly: bool = True) -> SimDisk:
    """A log of several segments, with aborted transactions in the last one."""
    disk = SimDisk()
    format_directory(disk, MetaProperties("c", 1, b"d" * 16))
    directory = open_directory(disk)
    directory.note_registered(7)
    log = directory.create_log(ORDERS, b"t" * 16)
    for number in range(COUNT):
        log.append_as_leader(batch(b"%d" % number, time_ms=1000 + number), number // 20)
    for sequence in range(2):
        data = batch(b"x", producer=5, sequence=sequence, transactional=True, time_ms=2000)
        log.append_as_leader(data, 2)
        log.append_as_leader(marker(5, commit=False, time_ms=2000), 2)
    directory.sync_dirty()
    log.store_epochs()
    directory.checkpoint_recovery_points()
    if orderly:
        directory.close(broker_epoch=7, high_watermarks={ORDERS: COUNT})
    return disk


def newest(disk: SimDisk, suffix: str) -> str:
    return max(path for path in disk.files() if path.endswith(suffix))


def oldest(disk: SimDisk, suffix: str) -> str:
    return min(path for path in disk.files() if path.endswith(suffix))


def garbled(disk: SimDisk, path: str) -> str:
    file = disk.open(path)
    file.truncate(0)
    file.write(0, b"garbage")
    return path


def gone(disk: SimDisk, path: str) -> str:
    disk.remove(path)
    return path


def cut(disk: SimDisk, path: str) -> str:
    file = disk.open(path)
    file.truncate(file.size() - 3)
    return path


def lying(disk: SimDisk, path: str) -> str:
    """Every position, or the last time, is larger by one: an index that looks like one."""
    file = disk.open(path)
    size = file.size()
    ends = range(8, size + 1, 8) if path.endswith(".index") else [size - 4]
    for end in ends:
        number = int.from_bytes(file.read(end - 4, 4), "big")
        file.write(end - 4, (number + 1).to_bytes(4, "big"))
    return path


def longer(disk: SimDisk, path: str) -> str:
    file = disk.open(path)
    file.write(file.size(), b"xyz")
    return path


def no_directory(disk: SimDisk) -> str:
    for path in list(disk.files()):
        if path.startswith("orders-0/"):
            disk.remove(path)
    disk.remove("orders-0")
    return "orders-0"


def torn_before_any_checkpoint(disk: SimDisk) -> str:
    """Nothing says that it was synced, so it is cut without being refused."""
    gone(disk, "recovery-point-offset-checkpoint")
    return cut(disk, newest(disk, ".log"))


class Case(NamedTuple):
    damage: Callable[[SimDisk], str]
    """Returns the file that has to be named."""
    told: str
    orderly: bool = True


ANEW = "made anew from its segment"
AGAIN = "fetched again"
REPLAYED = "producers are learned"
CASES = {
    "offset index garbled": Case(lambda d: garbled(d, newest(d, ".index")), ANEW),
    "offset index gone": Case(lambda d: gone(d, oldest(d, ".index")), ANEW),
    "offset index leads astray": Case(lambda d: lying(d, newest(d, ".index")), ANEW),
    "older offset index leads astray": Case(lambda d: lying(d, oldest(d, ".index")), ANEW),
    "time index garbled": Case(lambda d: garbled(d, newest(d, ".timeindex")), ANEW),
    "time index gone": Case(lambda d: gone(d, oldest(d, ".timeindex")), ANEW),
    "time index lies": Case(lambda d: lying(d, newest(d, ".timeindex")), ANEW),
    "transaction index garbled": Case(lambda d: garbled(d, newest(d, ".txnindex")), ANEW),
    "epochs garbled": Case(lambda d: garbled(d, "orders-0/leader-epoch-checkpoint"), "batches"),
    "epochs gone": Case(lambda d: gone(d, "orders-0/leader-epoch-checkpoint"), "batches"),
    "producers garbled": Case(lambda d: garbled(d, newest(d, ".snapshot")), REPLAYED),
    "producers gone": Case(lambda d: gone(d, newest(d, ".snapshot")), REPLAYED),
    "last segment torn": Case(lambda d: cut(d, newest(d, ".log")), AGAIN),
    "last segment torn by a crash": Case(lambda d: cut(d, newest(d, ".log")), AGAIN, orderly=False),
    "last segment torn behind its recovery point": Case(
        torn_before_any_checkpoint, AGAIN, orderly=False
    ),
    "last segment garbled": Case(lambda d: garbled(d, newest(d, ".log")), AGAIN),
    "recovery points garbled": Case(
        lambda d: garbled(d, "recovery-point-offset-checkpoint"), "read from its start"
    ),
    "recovery points gone": Case(
        lambda d: gone(d, "recovery-point-offset-checkpoint"), "read from its start"
    ),
    "log starts garbled": Case(lambda d: garbled(d, "log-start-offset-checkpoint"), "first"),
    "log starts gone": Case(lambda d: gone(d, "log-start-offset-checkpoint"), "first segment"),
    "high watermarks garbled": Case(
        lambda d: garbled(d, "replication-offset-checkpoint"), "begin at the log starts"
    ),
    "high watermarks gone": Case(
        lambda d: gone(d, "replication-offset-checkpoint"), "begin at the log starts"
    ),
    "topic id garbled": Case(lambda d: garbled(d, "orders-0/partition.metadata"), "kept as orders"),
    "topic id gone": Case(lambda d: gone(d, "orders-0/partition.metadata"), "fetches everything"),
    "whole log gone": Case(no_directory, "fetches everything"),
    "proof of the stop garbled": Case(
        lambda d: garbled(d, ".kafka_cleanshutdown"), "after a crash"
    ),
    "intact mark garbled": Case(
        lambda d: garbled(d, ".intact-since-epoch"), "until it has caught up", orderly=False
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_repair_at_a_start_is_noted_once(case: Case) -> None:
    disk = stopped(orderly=case.orderly)
    path = case.damage(disk)
    directory = open_directory(disk)
    if ORDERS in directory.refused:
        directory.repair(ORDERS)
    (told,) = repairs.one_per_file(directory.repairs)
    assert told.fault.path == path
    assert case.told in told.done
    assert ("byte" in told.fault.where) or ("line" in told.fault.where) or path == "orders-0"


@pytest.mark.parametrize("orderly", [True, False])
def test_a_start_without_damage_has_nothing_to_tell(orderly: bool) -> None:
    disk = stopped(orderly=orderly)
    assert open_directory(disk).repairs == []
    if not orderly:
        assert open_directory(disk.after_power_loss(())).repairs == []


def first_lies(disk: SimDisk, path: str) -> str:
    disk.open(path).write(7, b"\x01")
    return path


@pytest.mark.parametrize("damage", [longer, first_lies])
def test_an_index_that_is_found_bad_by_a_reader_is_noted_then(
    damage: Callable[[SimDisk, str], str],
) -> None:
    disk = stopped()
    path = damage(disk, oldest(disk, ".index"))
    directory = open_directory(disk)
    assert directory.repairs == []
    log = directory.logs[ORDERS]
    for offset in reversed(range(log.segments[1].base_offset)):
        assert log.read(offset, END, 1)
    assert [repair.fault.path for repair in repairs.one_per_file(directory.repairs)] == [path]


def test_repairs_are_told_one_line_per_file_and_not_twice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = stopped()
    path = garbled(disk, newest(disk, ".index"))
    garbled(disk, "replication-offset-checkpoint")
    directory = open_directory(disk)
    directory.repairs.extend(directory.repairs)
    with caplog.at_level(logging.WARNING, "tidelog.storage"):
        repairs.tell("/data/kafka", directory.repairs)
        repairs.tell("/data/kafka", directory.repairs)
    first, second = (record.getMessage() for record in caplog.records)
    assert first == (
        "repaired in /data/kafka: replication-offset-checkpoint, line 1: version 'garbage', only 0"
        " is known; high watermarks begin at the log starts, leaders tell the rest"
    )
    assert second == (
        f"repaired in /data/kafka: {path}, byte 0: 7 bytes are not a multiple of 8; made anew from"
        " its segment, no record is lost"
    )


METADATA_CASES = {
    "snapshot garbled": (lambda d: garbled(d, newest(d, "3.checkpoint")), "stand in for it"),
    "recovery point garbled": (
        lambda d: garbled(d, "__cluster_metadata-0/recovery-point-offset-checkpoint"),
        "read and checked",
    ),
    "log torn": (lambda d: cut(d, newest(d, ".log")), AGAIN),
    "epochs garbled": (
        lambda d: garbled(d, "__cluster_metadata-0/leader-epoch-checkpoint"),
        "batches",
    ),
}


@pytest.mark.parametrize(("damage", "done"), METADATA_CASES.values(), ids=METADATA_CASES)
def test_repairs_of_the_metadata_log_are_noted(damage: Callable[[SimDisk], str], done: str) -> None:
    disk = SimDisk()
    log = MetadataLog.open(disk, TextCodec())
    for number in range(9):
        log.append((LogEntry(number, 3, (f"record {number}",)),))
        log.sync()
        if number in (4, 5):
            log.write_snapshot(SnapshotId(number + 1, 3), (f"up to {number}",), ())
    assert MetadataLog.open(disk.copy(), TextCodec()).repairs == []
    path = damage(disk)
    (told,) = repairs.one_per_file(MetadataLog.open(disk, TextCodec()).repairs)
    assert told.fault.path == path
    assert done in told.done


def test_a_node_that_lost_its_last_vote_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FileDisk(tmp_path)
    log = MetadataLog.open(disk, KafkaEntryCodec())
    log.append((LogEntry(0, 1, (Topic("orders", b"t" * 16),)),))
    log.close()
    disks = Disks(disk, MetaProperties("story", 1, b"d" * 16), {})
    with caplog.at_level(logging.WARNING, "tidelog.storage"):
        open_metadata_log(node_config(tmp_path), disks, KafkaEntryCodec(), SystemClock()).release()
    (line,) = (record.getMessage() for record in caplog.records)
    assert line == (
        f"repaired in {tmp_path}: __cluster_metadata-0/quorum-state, byte 0: the file is gone; the"
        " node forgot its last vote, and begins without one"
    )
