"""A real process is killed in front of every change it makes to a real disk.

The live twin of the crash states: nothing is simulated. The operating system keeps what was
written, so beside the promises also every batch that the log says was appended must be there.
"""

import mmap
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from support.killing_disk import KillingDisk, killed
from tidelog.host.disk import FileDisk
from tidelog.host.ports import Disk
from tidelog.sim.crash_writer import (
    CLUSTER,
    NODE,
    ORDERS,
    PROPERTIES,
    TOPIC_ID,
    config_of,
    one_record,
    stamped,
)
from tidelog.sim.log_check import log_faults, stored_batches
from tidelog.storage.log import Log
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.meta_properties import format_directory

_PROMISE = struct.Struct("=qqq")


class Promises:
    """Numbers in memory that a child shares with its parent and that outlive it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _PROMISE.size)
        self.say(generation=0, appended=0, start=0)

    def say(self, *, generation: int, appended: int, start: int) -> None:
        _PROMISE.pack_into(self._memory, 0, generation, appended, start)

    @property
    def heard(self) -> tuple[int, int, int]:
        generation, appended, start = _PROMISE.unpack_from(self._memory, 0)
        return generation, appended, start


HISTORIES = [
    [stamped(one_record(n, time_ms=n), n, n // 5) for n in range(12)],
    [stamped(one_record(n, time_ms=n), n, n // 5) for n in range(5)]
    + [stamped(one_record(n, tag="x"), n, 7) for n in range(5, 11)],
]


def open_directory(disk: Disk) -> LogDirectory:
    return LogDirectory.open(disk, config_of, cluster_id=CLUSTER, node_id=NODE)


def workload(disk: Disk, promises: Promises) -> None:
    """Append, roll, checkpoint, truncate, append other records, forget old ones, stop, start."""
    format_directory(disk, PROPERTIES)
    directory = open_directory(disk)
    log = directory.create_log(ORDERS, TOPIC_ID)
    for number in range(12):
        log.append_as_leader(one_record(number, time_ms=number), number // 5)
        promises.say(generation=0, appended=number + 1, start=0)
        if number % 3 == 0:
            directory.sync_dirty()
        if number == 6:
            directory.unstored.store_all()
            directory.checkpoint_recovery_points()
    directory.checkpoint_recovery_points()
    promises.say(generation=1, appended=5, start=0)
    log.truncate_to(5)
    for number in range(5, 11):
        log.append_as_leader(one_record(number, tag="x"), 7)
        promises.say(generation=2, appended=number + 1, start=0)
    directory.sync_dirty()
    promises.say(generation=2, appended=11, start=7)
    log.raise_log_start(7)
    log.apply_retention(0, 11)
    log.remove_deleted_files(1 << 40)
    directory.close(broker_epoch=3, high_watermarks={ORDERS: 11})
    again = open_directory(disk)
    again.logs[ORDERS].release()


def check(disk: Disk, promises: Promises) -> None:
    generation, appended, start_at_most = promises.heard
    directory = open_directory(disk)
    assert directory.refused == {}
    log = directory.logs.get(ORDERS)
    if log is None:
        assert appended == 0
        return
    assert log_faults(disk, log) == []
    assert log.log_end_offset >= appended
    assert log.log_start_offset <= start_at_most
    first, end = log.segments[0].base_offset, log.log_end_offset
    allowed = {0: HISTORIES[:1], 1: HISTORIES, 2: HISTORIES[1:]}[generation]
    assert any(contents(disk, log) == history[first:end] for history in allowed)
    log.release()


def contents(disk: Disk, log: Log) -> list[bytes]:
    return [batch.data for segment in log.segments for batch in stored_batches(disk, segment)[0]]


@pytest.fixture
def fast_path(tmp_path: Path) -> Iterator[Path]:
    """A kill leaves the page cache alone, so a file system in memory shows the same as one on
    a device; it only does not wait for the device thousands of times."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    with TemporaryDirectory(dir=memory) as path:
        yield Path(path)


def test_a_process_killed_at_any_change_recovers(fast_path: Path) -> None:
    kill_at = 0
    while True:
        root = fast_path / "log"
        root.mkdir()
        promises = Promises()

        def run(disk: KillingDisk, promises: Promises = promises) -> None:
            workload(disk, promises)

        was_killed = killed(run, FileDisk(root), kill_at)
        disk = FileDisk(root)
        if (root / "meta.properties").exists():
            check(disk, promises)
            check(disk, promises)
        shutil.rmtree(root)
        if not was_killed:
            break
        kill_at += 1
    assert kill_at > 150, "every change of the workload was tried"
