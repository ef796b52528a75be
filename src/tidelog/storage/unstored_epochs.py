"""The logs of a directory whose epoch checkpoints lack an epoch (ADR 0028).

One round writes the checkpoints of some of them: `start` writes the files, `name_files` gives
them their names, `finish` believes it. All three are called on the event loop; after each of the
first two the syncs of the round are run on other threads, in any order.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.host.ports import Syncing
from tidelog.storage.epoch_file import PendingEpochs
from tidelog.storage.guarded_disk import GuardedDisk
from tidelog.storage.log import Log


class Part(NamedTuple):
    """One log of a round, and what has to be synced for it next."""

    log: Log
    pending: PendingEpochs
    syncing: Syncing


Round = Sequence[Part]


class UnstoredEpochs:
    """Owned by a `LogDirectory`. One round at a time."""

    __slots__ = ("_disk", "_logs")

    def __init__(self, disk: GuardedDisk) -> None:
        self._disk = disk
        self._logs: dict[str, Log] = {}

    def __len__(self) -> int:
        return len(self._logs)

    def watch(self, log: Log) -> None:
        """Recovery may have learned epochs; from now on appends begin them."""
        log.on_epochs_unstored = self._note
        if not log.epochs_are_stored:
            self._note(log)

    def _note(self, log: Log) -> None:
        self._logs[log.directory] = log

    def forget(self, log: Log) -> None:
        """The log is closed, or gone."""
        self._logs.pop(log.directory, None)

    def store_all(self) -> None:
        """In one step. Everything is on disk when this returns."""
        for log in list(self._logs.values()):
            log.store_epochs()
            self.forget(log)

    def start(self, most: int) -> Round:
        """Empty if there is nothing to do, or no space for it."""
        parts: list[Part] = []
        for log in list(self._logs.values()):
            pending = log.epoch_file.start_storing(log.log_end_offset)
            if pending is not None:
                parts.append(Part(log, pending, pending.syncing))
            elif log.epochs_are_stored:
                self.forget(log)
            if len(parts) == most:
                break
        return parts

    def name_files(self, round_: Round, error: OSError | None) -> Round:
        """DirectoryOffline if a sync failed."""
        self._disk.sync_ended("", error)
        named: list[Part] = []
        for part in round_:
            if self._logs.get(part.log.directory) is part.log:
                syncing = part.log.epoch_file.finish_writing(part.pending)
                if syncing is not None:
                    named.append(part._replace(syncing=syncing))
        return named

    def finish(self, round_: Round, error: OSError | None) -> None:
        """DirectoryOffline if a sync failed."""
        self._disk.sync_ended("", error)
        for part in round_:
            if self._logs.get(part.log.directory) is part.log:
                part.log.epoch_file.finish_storing(part.pending)
                if part.log.epochs_are_stored:
                    self.forget(part.log)
