"""The log directories of a broker, and the logs in each.

A directory that fails ends the process: other brokers must take over its partitions immediately,
and a broker that half works is harder to reason about than one that is gone (ADR 0018).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tidelog.broker.logs.checkpoint_writing import CheckpointWriting
from tidelog.broker.logs.epoch_storing import THREADS as EPOCH_THREADS
from tidelog.broker.logs.epoch_storing import EpochStoring
from tidelog.broker.logs.group_commit import GroupCommit
from tidelog.broker.logs.log_making import LogMaking, OnMade, Take
from tidelog.broker.logs.log_removing import LogRemoving
from tidelog.host.ports import MakeWorkers
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.errors import CorruptFile, CorruptSegment, NoSpace, StorageError
from tidelog.storage.log import Log
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.new_logs import NewLogs
from tidelog.storage.repairs import Repair

MAKERS = 8
"""Threads that wait for the disk while logs are made; their syncs become few."""


class Directories:
    """Owner of the log directories."""

    __slots__ = (
        "_checkpoints",
        "_commits",
        "_epochs",
        "_make_workers",
        "_makers",
        "_making",
        "_on_offline",
        "_removing",
        "all",
        "has_room",
        "on_no_space",
        "preferred",
    )

    def __init__(self, directories: Sequence[LogDirectory], make_workers: MakeWorkers) -> None:
        assert directories, "a broker without a log directory"
        self.all = tuple(directories)
        self._commits: dict[LogDirectory, GroupCommit] = {}
        self._epochs: list[EpochStoring] = []
        self._on_offline: Callable[[Exception], None] | None = None
        self.on_no_space: Callable[[LogDirectory], None] = _ignore
        """Hears of a write that found no space."""
        self.has_room: Callable[[LogDirectory], bool] = _always
        self._make_workers = make_workers
        self._makers = make_workers("new-logs", MAKERS)
        self._making: LogMaking | None = None
        self._removing: LogRemoving | None = None
        self._checkpoints: CheckpointWriting | None = None
        self.preferred: dict[PartitionName, LogDirectory] = {}
        """Where logs shall go that are not there yet, if somebody cares."""
        self._keep_one_of_each()

    def start(
        self,
        on_durable: Callable[[Sequence[Log]], None],
        on_offline: Callable[[Exception], None],
    ) -> None:
        self._on_offline = on_offline
        for directory in self.all:
            syncer = self._make_workers("sync", 1)
            commit = GroupCommit(directory, on_durable, on_offline, syncer)
            self._commits[directory] = commit
            directory.on_rolled = partial(commit.request, rolled_only=True)
            workers = self._make_workers("epochs", EPOCH_THREADS)
            self._epochs.append(EpochStoring(directory, on_offline, workers))
        self.sync_all()  # what recovery found behind the recovery points counts once it is synced

    async def stop(self) -> None:
        if self._making is not None:
            await self._making.stop()
        if self._removing is not None:
            await self._removing.stop()
        if self._checkpoints is not None:
            await self._checkpoints.stop()
            self._checkpoints = None
        self._makers.close()
        for epochs in self._epochs:
            await epochs.stop()
        for commit in self._commits.values():
            await commit.stop()

    def _keep_one_of_each(self) -> None:
        """A process that died while a log changed directories leaves two of it, which are the
        same as far as the shorter one goes. The longer one stays."""
        for name in sorted({name for each in self.all for name in each.topic_ids}):
            holders = [each for each in self.all if name in each.topic_ids]
            kept = max(holders, key=lambda each: _log_end(each, name))
            for directory in holders:
                if directory is not kept:
                    target = directory.set_aside_stray(name)
                    fault = CorruptFile(target, "*", "the log is in another log directory too")
                    directory.repairs.append(Repair(fault, "set aside, the longer one is used"))

    def holding(self, name: PartitionName) -> LogDirectory | None:
        """The directory that has a log of this name, opened or refused."""
        return next((each for each in self.all if name in each.topic_ids), None)

    def place_for(self, name: PartitionName) -> LogDirectory:
        """Where this new log goes."""
        return self.preferred.get(name) or self.emptiest()

    def emptiest(self) -> LogDirectory:
        """Where a new log goes if nobody cares."""
        return min(self.all, key=lambda each: (not self.has_room(each), len(each.logs)))

    def create_logs(self, wanted: NewLogs) -> None:
        """Many at once, each where there are the fewest of those with room."""
        for directory, its_own in self._place(wanted).items():
            directory.create_logs(its_own, self._makers.map)

    def _place(self, wanted: NewLogs) -> dict[LogDirectory, NewLogs]:
        counts = {directory: len(directory.logs) for directory in self.all}
        placed: dict[LogDirectory, dict[PartitionName, bytes]] = {each: {} for each in self.all}
        for name, topic_id in wanted.items():
            chosen = self.preferred.get(name) or min(
                self.all, key=lambda each: (not self.has_room(each), counts[each])
            )
            counts[chosen] += 1
            placed[chosen][name] = topic_id
        return {directory: its_own for directory, its_own in placed.items() if its_own}

    def make_logs(self, take: Take, on_made: OnMade) -> None:
        """The same beside the event loop: see `LogMaking`."""
        assert self._on_offline is not None, "logs are made before the start"
        if self._making is None:
            waiter = self._make_workers("log-making", 1)
            self._making = LogMaking(self._place, self._makers, waiter, self._on_offline)
        self._making.begin(take, on_made)

    def remove_logs(self, on_free: Callable[[], None]) -> None:
        """Those that were taken out of service, beside the event loop: see `LogRemoving`."""
        assert self._on_offline is not None, "logs are removed before the start"
        if self._removing is None:
            self._removing = LogRemoving(
                self.all, self._make_workers("log-removing", 1), self._on_offline
            )
        self._removing.begin(on_free)

    def write_checkpoints(self) -> None:
        """What was noted for them, beside the event loop."""
        assert self._on_offline is not None, "checkpoints are written before the start"
        if self._checkpoints is None:
            worker = self._make_workers("checkpoints", 1)
            self._checkpoints = CheckpointWriting(self.all, worker, self._on_offline)
        self._checkpoints.request()

    def is_leaving(self, name: PartitionName) -> bool:
        """No log of this name can be made yet."""
        return any(name in directory.leaving for directory in self.all)

    def is_making(self, name: PartitionName) -> bool:
        return self._making is not None and name in self._making.under_way

    def refusal(self, name: PartitionName) -> CorruptSegment | None:
        """Why a log that is there was not opened."""
        directory = self.holding(name)
        return directory.refused.get(name) if directory is not None else None

    def on_error(self, directory: LogDirectory, error: StorageError) -> None:
        """Something went wrong on the event loop. If it was the device, the node must hear of
        it: no sync may follow that would find out."""
        if isinstance(error, NoSpace):
            self.on_no_space(directory)
        elif not directory.online and self._on_offline is not None:
            self._on_offline(error)

    def request_sync(self, directory: LogDirectory) -> None:
        self._commits[directory].request()

    def store_epochs(self) -> None:
        """Epochs that began since the last time, in the background."""
        for epochs in self._epochs:
            epochs.begin()

    @property
    def commits(self) -> tuple[GroupCommit, ...]:
        return tuple(self._commits.values())

    def sync_all(self) -> None:
        for commit in self._commits.values():
            commit.request()

    def close(self, broker_epoch: int, high_watermarks: Mapping[PartitionName, int]) -> None:
        for directory in self.all:
            own = {name: high_watermarks.get(name, 0) for name in directory.logs}
            directory.close(broker_epoch=broker_epoch, high_watermarks=own)


def _log_end(directory: LogDirectory, name: PartitionName) -> int:
    """-1 of a log that could not be opened."""
    log = directory.logs.get(name)
    return -1 if log is None else log.log_end_offset


def _ignore(_directory: LogDirectory) -> None:
    """Before a broker listens."""


def _always(_directory: LogDirectory) -> bool:
    return True
