"""The epoch history of one log, and how much of it is on disk (ADR 0028).

Every batch carries its leader epoch, and a load walks over every batch behind the recovery point
on disk. So the file may lack epochs, if only that recovery point has not passed their first
record: `limit_of` says how far it may go. An append therefore waits for no sync, however many
logs begin an epoch at the same moment; the file follows soon after.

What the file must never have is an epoch that the log has no record of: a later batch could
contradict it. Therefore epochs without records are not stored, and a truncation writes the file
before the next append.

Storing in two steps, so that a slow device never stops the event loop: `start_storing` and
`finish_writing` are called on the loop, the syncs they return are run on another thread. What
happens to the history meanwhile makes the result worthless, never wrong.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.types import NO_EPOCH
from tidelog.host.ports import Syncing
from tidelog.storage import checkpoints
from tidelog.storage.atomic_file import TEMPORARY_SUFFIX, discard, join, parent_of
from tidelog.storage.errors import NoSpace
from tidelog.storage.guarded_disk import GuardedDisk
from tidelog.wire.records import BatchHeader

Entries = list[tuple[int, int]]


class PendingEpochs(NamedTuple):
    """A file on its way to the disk, with the epochs up to this one."""

    syncing: Syncing
    latest_epoch: int
    changes: int


class EpochFile:
    """Owner of the history of one log and of its file."""

    __slots__ = ("_changes", "_disk", "_is_stale", "_path", "_stored_epoch", "history")

    def __init__(
        self, disk: GuardedDisk, directory: str, history: EpochHistory, stored_epoch: int
    ) -> None:
        """`stored_epoch`: the latest one that the file has."""
        self._disk = disk
        self._path = path_in(directory)
        self.history = history
        self._stored_epoch = stored_epoch
        self._is_stale = False
        self._changes = 0

    # What is on disk

    @property
    def lacks_the_latest(self) -> bool:
        """Asked at every append, which gives the latest epoch a record."""
        return self.history.latest_epoch > self._stored_epoch

    def is_stored(self, log_end: int) -> bool:
        """Does the file have every epoch with a record?"""
        return self.limit_of(log_end) == log_end

    def limit_of(self, synced_offset: int) -> int:
        """How far a checkpoint may say that the log is synced: not past the first record of an
        epoch that only the batches know."""
        for epoch, start_offset in self.history.entries:
            if epoch > self._stored_epoch:
                return min(synced_offset, start_offset)
        return synced_offset

    # Changes

    def assign(self, epoch: int, start_offset: int) -> None:
        """An epoch begins. It is stored once it has a record."""
        self.history.assign(epoch, start_offset)

    def enter(self, headers: Sequence[BatchHeader], log_end: int) -> Entries | None:
        """The epochs of batches that are about to be appended. The entries before, if they
        changed: for `restore` if the append fails."""
        if self._is_stale:
            self.store(log_end)
        latest = self.history.latest_epoch
        for header in headers:
            if header.leader_epoch != latest:
                break
        else:
            return None
        before = self.history.entries[:]
        # Offsets in a gap belong to the later epoch: who compares histories with us then
        # truncates rather too much and fetches it again.
        ends = [log_end, *(h.next_offset for h in headers[:-1])]
        for header, end in zip(headers, ends, strict=True):
            self.history.assign(header.leader_epoch, min(header.base_offset, end))
        return before

    def restore(self, entries: Entries) -> None:
        """The append failed: nothing of its epochs is in the log."""
        self.history.entries[:] = entries

    def truncate_from_end(self, log_end: int) -> None:
        """The log was cut. Without space the file knows too many until the next append: a load
        forgets those that start behind the log end."""
        self.history.truncate_from_end(log_end)
        self._changes += 1
        if self.history.latest_epoch < self._stored_epoch:
            self._store_if_there_is_space(log_end)

    def truncate_from_start(self, log_start: int) -> None:
        """Records are gone. The file keeps their epochs until it is written for another reason:
        thousands of logs may move at once, and a load forgets the same epochs again."""
        self.history.truncate_from_start(log_start)

    def clear(self) -> None:
        self.history.clear()
        self.store(log_end=0)

    def _store_if_there_is_space(self, log_end: int) -> None:
        try:
            self.store(log_end)
        except NoSpace:
            self._stored_epoch = min(self._stored_epoch, self.history.latest_epoch)

    # Storing

    def store(self, log_end: int) -> None:
        """Durable when it returns."""
        self._is_stale = True
        self._changes += 1
        entries = self._with_records(log_end)
        checkpoints.write_epochs(self._disk, self._path, entries)
        self._stored_epoch = _latest(entries)
        self._is_stale = False

    def start_storing(self, log_end: int) -> PendingEpochs | None:
        """None if there is nothing to store, or no space: then it stays to be done."""
        if self.is_stored(log_end):
            return None
        entries = self._with_records(log_end)
        temporary = self._path + TEMPORARY_SUFFIX
        try:
            file = self._disk.open(temporary, create=True)
            try:
                file.truncate(0)
                file.write(0, checkpoints.render_epochs(entries))
                syncing = file.start_sync()
            finally:
                file.close()
        except NoSpace:
            discard(self._disk, temporary)
            return None
        return PendingEpochs(syncing, _latest(entries), self._changes)

    def finish_writing(self, pending: PendingEpochs) -> Syncing | None:
        """The bytes are on disk: give them their name. The sync that makes it last, or None if
        the history has become another one: then a truncation has written the file."""
        if pending.changes != self._changes:
            return None
        self._disk.rename(self._path + TEMPORARY_SUFFIX, self._path)
        return self._disk.start_sync_dir(parent_of(self._path))

    def finish_storing(self, pending: PendingEpochs) -> None:
        """The name is on disk, too."""
        if pending.changes == self._changes:
            self._stored_epoch = max(self._stored_epoch, pending.latest_epoch)

    def _with_records(self, log_end: int) -> Entries:
        return [entry for entry in self.history.entries if entry[1] < log_end]


def path_in(directory: str) -> str:
    return join(directory, checkpoints.EPOCHS)


def _latest(entries: Entries) -> int:
    return entries[-1][0] if entries else NO_EPOCH
