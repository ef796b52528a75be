"""A sync that runs on another thread while the log goes on."""

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.batches import batch, marker
from tidelog.broker.logs.directories import Directories
from tidelog.broker.logs.group_commit import GroupCommit
from tidelog.host.disk import FileDisk
from tidelog.host.workers import ThreadWorkers
from tidelog.sim.disk import CrashKind, SimDisk
from tidelog.storage import DirectoryOffline, Log, LogConfig, LogDirectory, group_commit
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.meta_properties import MetaProperties, format_directory
from tidelog.storage.pending_sync import PendingSync
from tidelog.storage.producer_snapshots import read_snapshot
from tidelog.wire.records import decode, iter_batches

PATH = "t-0"
END = 1 << 62
A: PartitionName = ("a", 0)
B: PartitionName = ("b", 0)


def config() -> LogConfig:
    return LogConfig(segment_bytes=400, index_interval_bytes=100)


def new_log(disk: SimDisk | FileDisk) -> Log:
    disk.make_dir(PATH)
    disk.sync_dir("")
    return Log.open(disk, PATH, config())


def append(log: Log, *values: bytes, epoch: int = 0) -> None:
    for value in values:
        log.append_as_leader(batch(value), epoch)


def started(log: Log) -> PendingSync:
    pending = log.start_sync()
    assert pending is not None
    return pending


def after_power_loss(disk: SimDisk, log: Log) -> Log:
    """What is left when nothing that was not synced is. The checkpoint says what the log says."""
    return Log.open(
        disk.after_power_loss(()),
        PATH,
        config(),
        recovery_point=log.storable_recovery_point,
        repair=False,
    )


def values_of(log: Log) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < log.log_end_offset:
        for run in log.read(len(found), END, 1 << 20):
            for position, _ in iter_batches(run):
                found += [bytes(each.value or b"") for each in decode(run, position=position)]
    return found


# Stories of one log


def test_the_recovery_point_moves_when_the_sync_is_finished_and_not_before() -> None:
    disk = SimDisk()
    log = new_log(disk)
    log.sync()
    assert log.start_sync() is None
    append(log, b"1", b"2")
    pending = started(log)
    assert log.recovery_point == 0
    pending.run()
    assert log.recovery_point == 0, "the thread touches nothing of the log"
    assert log.finish_sync(pending, None)
    assert log.recovery_point == 2
    assert log.is_synced
    assert after_power_loss(disk, log).log_end_offset == 2


def test_what_is_appended_during_a_sync_waits_for_the_next_one() -> None:
    disk = SimDisk()
    log = new_log(disk)
    append(log, b"1")
    pending = started(log)
    pending.run()
    append(log, b"2")
    assert log.finish_sync(pending, None)
    assert (log.recovery_point, log.is_synced) == (1, False)
    assert after_power_loss(disk, log).log_end_offset == 1
    log.sync()
    assert after_power_loss(disk, log).log_end_offset == 2


def test_a_roll_leaves_the_old_segment_to_the_next_sync() -> None:
    disk = SimDisk()
    log = new_log(disk)
    append(log, b"1", b"2")
    pending = started(log)
    disk.inject("sync")
    log.roll()
    append(log, b"3")
    disk.heal()
    assert (log.recovery_point, after_power_loss(disk, log).log_end_offset) == (0, 0)
    pending.run()
    assert log.finish_sync(pending, None)
    assert (log.recovery_point, log.is_synced) == (2, False)
    assert after_power_loss(disk, log).log_end_offset == 2
    pending = started(log)
    pending.run()
    assert log.finish_sync(pending, None)
    assert (log.recovery_point, log.is_synced) == (3, True)
    log.store_epochs()
    assert log.storable_recovery_point == 3
    again = after_power_loss(disk, log)
    assert [segment.base_offset for segment in again.segments] == [0, 2]
    snapshot = f"{PATH}/{2:020d}.snapshot"
    assert read_snapshot(disk.after_power_loss(()), snapshot) == [], "whole, and of no producers"


def test_the_indexes_of_a_segment_are_on_disk_before_its_end_counts_as_synced() -> None:
    """A load does not walk over a segment below the recovery point: it would believe an index of
    aborted transactions that has lost its entries."""
    disk = SimDisk()
    log = new_log(disk)
    append(log, b"1")
    log.sync()
    log.append_as_leader(batch(b"2", producer=7, sequence=0, transactional=True), 0)
    log.append_as_leader(marker(7, commit=False), 0)
    pending = started(log)
    log.roll()
    pending.run()
    log.finish_sync(pending, None)
    log.store_epochs()
    assert (log.recovery_point, log.storable_recovery_point) == (3, 2)
    again = after_power_loss(disk, log)
    assert again.log_end_offset == 3
    assert [each.producer_id for each in again.aborted_transactions(0, 3)] == [7]


def test_a_checkpoint_from_before_a_roll_does_not_vouch_for_the_indexes_of_the_old_segment() -> (
    None
):
    """While a segment is the last one, its end may be checkpointed: a load walks over the last
    segment in any case. After a roll it is not the last one any more, and whatever of the roll a
    power loss keeps, its aborted transactions are known."""
    disk = SimDisk()
    log = new_log(disk)
    log.append_as_leader(batch(b"1", producer=7, sequence=0, transactional=True), 0)
    log.append_as_leader(marker(7, commit=False), 0)
    log.sync()
    log.store_epochs()
    checkpointed = log.storable_recovery_point
    assert checkpointed == log.log_end_offset == 2
    log.roll()
    append(log, b"3")
    pending = disk.pending()
    assert len(pending) < 12
    for kept in range(1 << len(pending)):
        survivors = [effect for bit, effect in enumerate(pending) if kept >> bit & 1]
        left = disk.after_power_loss(survivors)
        again = Log.open(left, PATH, config(), recovery_point=checkpointed)
        assert again.log_end_offset >= 2
        aborted = again.aborted_transactions(0, 2)
        assert [each.producer_id for each in aborted] == [7], left.story


def test_a_segment_that_is_rolled_away_again_after_a_truncation_is_sealed_again() -> None:
    disk = SimDisk()
    log = new_log(disk)
    append(log, b"1", b"2")
    log.roll()
    pending = started(log)
    pending.run()
    log.truncate_to(1)
    log.append_as_leader(batch(b"2", producer=7, sequence=0, transactional=True), 1)
    log.append_as_leader(marker(7, commit=False), 1)
    log.roll()
    log.finish_sync(pending, None)
    assert not log.is_synced
    log.sync()
    again = after_power_loss(disk, log)
    assert [each.producer_id for each in again.aborted_transactions(0, 3)] == [7]


def test_a_log_with_a_hole_behind_its_recovery_point_ends_before_it() -> None:
    """Names of files reach the disk in any order: that of a later segment may survive alone."""
    disk = SimDisk()
    log = new_log(disk)
    append(log, b"1")
    log.sync()
    for value in (b"2", b"3"):
        log.roll()
        append(log, value)
    disk.remove(log.segments[1].path)
    again = Log.open(disk, PATH, config(), recovery_point=log.storable_recovery_point)
    assert values_of(again) == [b"1"]
    assert [segment.base_offset for segment in again.segments] == [0]


def test_records_that_replaced_truncated_ones_are_not_taken_for_synced() -> None:
    disk = SimDisk()
    log = new_log(disk)
    append(log, b"1", b"2", b"3")
    pending = started(log)
    pending.run()
    log.truncate_to(1)
    append(log, b"other", b"others", epoch=1)
    assert not log.finish_sync(pending, None)
    assert log.recovery_point == 0
    log.sync()
    assert log.recovery_point == 3
    assert after_power_loss(disk, log).log_end_offset == 3


def test_a_sync_of_names_that_came_later_is_still_owed() -> None:
    """The file of aborted transactions is made by the append that needs it."""
    disk = SimDisk()
    log = new_log(disk)
    log.append_as_leader(batch(b"1", producer=7, sequence=0, transactional=True), 0)
    pending = started(log)
    pending.run()
    log.append_as_leader(marker(7, commit=False), 0)
    log.finish_sync(pending, None)
    assert not log.is_synced
    second = started(log)
    second.run()
    log.finish_sync(second, None)
    assert log.is_synced
    assert disk.after_power_loss(()).exists(f"{PATH}/00000000000000000000.txnindex")


def test_recovered_segments_are_sealed_by_the_first_sync() -> None:
    disk = SimDisk()
    log = new_log(disk)
    append(log, *[b"x" * 60] * 12)
    crashed = disk.crash(CrashKind.PROCESS, lambda limit: 0)
    again = Log.open(crashed, PATH, config(), recovery_point=0)
    assert len(again.segments) > 2
    pending = started(again)
    again.truncate_to(1)
    pending.run()
    again.finish_sync(pending, None)
    append(again, b"2")
    again.sync()
    assert after_power_loss(crashed, again).log_end_offset == 2


def test_a_log_that_is_closed_during_a_sync_stays_closed() -> None:
    disk = SimDisk()
    log = new_log(disk)
    append(log, b"1")
    pending = started(log)
    log.close()
    pending.run()
    log.finish_sync(pending, None)
    assert log.recovery_point == 1


def test_after_a_failed_sync_nothing_is_trusted() -> None:
    disk = SimDisk()
    log = new_log(disk)
    append(log, b"1")
    pending = started(log)
    disk.inject("sync")
    with pytest.raises(OSError, match="Input/output error") as caught:
        pending.run()
    with pytest.raises(DirectoryOffline, match=r"sync of t-0/00000000000000000000\.log"):
        log.finish_sync(pending, caught.value)
    assert log.recovery_point == 0
    with pytest.raises(DirectoryOffline):
        append(log, b"2")
    with pytest.raises(DirectoryOffline):
        log.sync()


# All interleavings


class Workload:
    """A log, what it should hold, and the syncs that are under way."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.log = new_log(self.disk)
        self.written: list[bytes] = []
        self.epoch = 0
        self.pending: list[tuple[PendingSync, bool]] = []

    def append(self, number: int) -> None:
        for _ in range(number % 3 + 1):
            value = b"%d" % (len(self.written) + 100 * self.epoch) * (number + 1)
            append(self.log, value, epoch=self.epoch)
            self.written.append(value)

    def truncate(self, number: int) -> None:
        offset = len(self.written) * number // 10
        self.log.truncate_to(offset)
        del self.written[offset:]
        self.epoch += 1

    def start(self, number: int) -> None:
        pending = self.log.start_sync()
        if pending is not None:
            self.pending.append((pending, False))

    def run(self, number: int) -> None:
        waiting = [place for place, (_, ran) in enumerate(self.pending) if not ran]
        if waiting:
            place = waiting[number % len(waiting)]
            pending, _ = self.pending[place]
            pending.run()
            self.pending[place] = (pending, True)

    def finish(self, number: int) -> None:
        finished = [entry for entry in self.pending if entry[1]]
        if finished:
            entry = finished[number % len(finished)]
            self.pending.remove(entry)
            self.log.finish_sync(entry[0], None)

    def sync(self, number: int) -> None:
        self.log.sync()

    def roll(self, number: int) -> None:
        self.log.roll()

    def check(self, draw: Callable[[int], int]) -> None:
        """Every crash keeps what is below the recovery point, and nothing but a prefix."""
        log = self.log
        assert log.log_end_offset == len(self.written)
        drawn = self.disk.crash(CrashKind.POWER_LOSS, draw)
        for crashed in (self.disk.after_power_loss(()), drawn):
            again = Log.open(crashed, PATH, config(), recovery_point=log.storable_recovery_point)
            assert log.recovery_point <= again.log_end_offset <= len(self.written)
            assert values_of(again) == self.written[: again.log_end_offset]


STEPS = ("append", "append", "start", "run", "finish", "roll", "truncate", "sync")


@settings(deadline=None, max_examples=150)
@given(
    history=st.lists(
        st.tuples(st.sampled_from(STEPS), st.integers(0, 9)), min_size=15, max_size=40
    ),
    seed=st.randoms(use_true_random=False),
)
def test_the_recovery_point_never_passes_what_a_crash_would_keep(history, seed) -> None:
    workload = Workload()
    for step, number in history:
        getattr(workload, step)(number)
        workload.check(seed.randrange)


# A directory of logs


def directory_on(disk: SimDisk | FileDisk) -> LogDirectory:
    format_directory(disk, MetaProperties("c", 1, b"d" * 16))
    directory = LogDirectory.open(disk, lambda _: config(), cluster_id="c", node_id=1)
    directory.create_log(A, b"a" * 16)
    directory.create_log(B, b"b" * 16)
    directory.sync_dirty()
    return directory


def test_one_pass_moves_every_dirty_log() -> None:
    directory = directory_on(SimDisk())
    a, b = directory.logs[A], directory.logs[B]
    assert directory.start_sync() is None
    append(a, b"1")
    append(b, b"1", b"2")
    pending = directory.start_sync()
    assert pending is not None
    append(b, b"3")
    pending.run()
    assert directory.finish_sync(pending, None) == [a, b]
    assert (a.durable_offset, b.durable_offset) == (1, 2)
    assert list(directory.dirty.values()) == [b], "it has records that came later"
    again = directory.start_sync()
    assert again is not None
    again.run()
    assert directory.finish_sync(again, None) == [b]
    assert directory.start_sync() is None


def test_where_written_counts_as_held_a_roll_is_synced_and_appends_wait_for_their_time(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        disk = FileDisk(tmp_path)
        format_directory(disk, MetaProperties("c", 1, b"d" * 16))
        relaxed = LogConfig(segment_bytes=400, durability="page-cache")
        directory = LogDirectory.open(disk, lambda _: relaxed, cluster_id="c", node_id=1)
        owner = Directories([directory], ThreadWorkers)
        failures: list[Exception] = []
        owner.start(lambda moved: None, failures.append)
        a, b = directory.create_log(A, b"a" * 16), directory.create_log(B, b"b" * 16)
        append(a, b"1")
        append(b, b"1")
        owner.sync_all()
        while not (a.is_synced and b.is_synced):
            await asyncio.sleep(0)
        append(b, b"2")
        append(a, *[b"x" * 60] * 4)
        assert len(a.segments) == 2
        while not a.is_synced:
            await asyncio.sleep(0)
        assert b.recovery_point == 1, "nobody waits for it"
        owner.sync_all()
        while not b.is_synced:
            await asyncio.sleep(0)
        await owner.stop()
        assert not failures
        directory.close(broker_epoch=1, high_watermarks={})

    asyncio.run(asyncio.wait_for(main(), 60))


def five_dirty_logs(disk: SimDisk | FileDisk) -> tuple[LogDirectory, list[Log]]:
    directory = directory_on(disk)
    logs = [directory.create_log(("t", number), b"t" * 16) for number in range(5)]
    directory.sync_dirty()
    for log in logs:
        append(log, b"x")
    return directory, logs


def test_a_pass_takes_no_more_logs_than_it_has_descriptors_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is written to again waits behind those that have waited longer."""
    monkeypatch.setattr(group_commit, "MOST_LOGS", 3)
    directory, logs = five_dirty_logs(SimDisk())
    first = directory.start_sync()
    assert first is not None
    first.run()
    append(logs[0], b"again")
    assert directory.finish_sync(first, None) == logs[:3]
    second = directory.start_sync()
    assert second is not None
    second.run()
    assert directory.finish_sync(second, None) == [logs[3], logs[4], logs[0]]
    assert not directory.dirty


def test_one_request_is_followed_by_passes_until_all_that_was_dirty_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And by no more, although somebody writes all the time."""
    monkeypatch.setattr(group_commit, "MOST_LOGS", 2)

    async def main() -> None:
        directory, logs = five_dirty_logs(FileDisk(tmp_path))
        failures: list[Exception] = []
        durable: list[Log] = []

        def on_durable(moved: Sequence[Log]) -> None:
            durable.extend(moved)
            append(logs[0], b"more")

        commit = GroupCommit(directory, on_durable, failures.append, ThreadWorkers("sync", 1))
        commit.request()
        while len(durable) < len(logs):
            await asyncio.sleep(0)
        await commit.stop()
        assert not failures
        assert set(durable) == set(logs)
        assert commit.passes == 3
        assert list(directory.dirty.values()) == [logs[0]]
        directory.close(broker_epoch=1, high_watermarks={})

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_log_that_is_deleted_and_made_anew_during_a_pass_is_left_alone() -> None:
    disk = SimDisk()
    directory = directory_on(disk)
    append(directory.logs[A], b"1", b"2")
    append(directory.logs[B], b"1")
    pending = directory.start_sync()
    assert pending is not None
    directory.delete_log(A)
    new = directory.create_log(A, b"n" * 16)
    append(new, b"other")
    pending.run()
    assert directory.finish_sync(pending, None) == [directory.logs[B]]
    assert new.durable_offset == 0
    assert new.directory in directory.dirty


def test_a_failed_pass_takes_the_directory_offline_and_moves_nothing() -> None:
    disk = SimDisk()
    directory = directory_on(disk)
    append(directory.logs[A], b"1")
    append(directory.logs[B], b"1")
    pending = directory.start_sync()
    assert pending is not None
    disk.inject("sync", path="b-0")
    with pytest.raises(OSError, match="b-0") as caught:
        pending.run()
    assert directory.online, "until the loop hears of it"
    with pytest.raises(DirectoryOffline):
        directory.finish_sync(pending, caught.value)
    assert not directory.online
    assert (directory.logs[A].durable_offset, directory.logs[B].durable_offset) == (0, 0)
    with pytest.raises(DirectoryOffline):
        directory.start_sync()


def test_a_pass_proves_nothing_in_a_directory_that_went_offline_meanwhile() -> None:
    disk = SimDisk()
    directory = directory_on(disk)
    append(directory.logs[A], b"1")
    pending = directory.start_sync()
    assert pending is not None
    pending.run()
    disk.inject("write")
    with pytest.raises(DirectoryOffline):
        append(directory.logs[B], b"1")
    with pytest.raises(DirectoryOffline):
        directory.finish_sync(pending, None)
    assert directory.logs[A].durable_offset == 0


# The real disk


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_pass_on_a_thread_survives_everything_the_loop_does(tmp_path: Path) -> None:
    directory = directory_on(FileDisk(tmp_path))
    before = descriptors()
    append(directory.logs[A], b"1")
    append(directory.logs[B], b"1")
    pending = directory.start_sync()
    assert pending is not None
    directory.delete_log(A)
    append(directory.logs[B], *[b"x" * 60] * 12)
    directory.logs[B].truncate_to(1)
    thread = threading.Thread(target=pending.run)
    thread.start()
    thread.join()
    assert directory.finish_sync(pending, None) == [], "it was about records that were cut"
    again = directory.start_sync()
    assert again is not None
    again.run()
    assert directory.finish_sync(again, None) == [directory.logs[B]]
    assert directory.logs[B].durable_offset == 1
    assert descriptors() <= before
    directory.close(broker_epoch=1, high_watermarks={})


def test_a_failed_or_abandoned_pass_gives_its_descriptors_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = directory_on(FileDisk(tmp_path))
    append(directory.logs[A], b"1")
    append(directory.logs[B], b"1")
    before = descriptors()
    abandoned = directory.start_sync()
    assert abandoned is not None
    abandoned.release()
    pending = directory.start_sync()
    assert pending is not None

    def broken(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken)
        with pytest.raises(OSError, match=r"a-0/00000000000000000000\.log"):
            pending.run()
    assert descriptors() == before
    with pytest.raises(DirectoryOffline, match="Input/output error"):
        directory.finish_sync(pending, OSError(errno.EIO, "Input/output error"))
    for log in directory.logs.values():
        log.release()


def test_a_sync_on_the_loop_waits_for_the_one_on_the_thread_and_shares_its_fate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel reports a failed write-back once to all copies of a descriptor."""
    file = FileDisk(tmp_path).open("a", create=True)
    file.write(0, b"x")
    running, may_fail = threading.Event(), threading.Event()
    calls: list[int] = []

    def first_fails(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            running.set()
            assert may_fail.wait(10)
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", first_fails)
    syncing = file.start_sync()
    errors: list[OSError] = []

    def run() -> None:
        try:
            syncing.run()
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert running.wait(10)
    threading.Timer(0, may_fail.set).start()
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    thread.join()
    assert len(errors) == len(calls) == 1
    file.close()
