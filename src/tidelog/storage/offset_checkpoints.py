"""The checkpoint files of a log directory that hold one offset for each of its logs.

A file is written as a whole, so it is written once for many logs and not once for each. What it
shall say is changed on the event loop; `start_writing` takes a copy, which is written on any
thread. Writers take turns, and an older content never replaces a newer one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tidelog.host.locks import new_lock
from tidelog.storage import checkpoints
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.directory_names import parse_directory
from tidelog.storage.errors import StorageError
from tidelog.storage.guarded_disk import GuardedDisk
from tidelog.storage.log import Log

Offsets = dict[PartitionName, int]
Logs = Mapping[PartitionName, Log]


class OffsetCheckpoint:
    """One file. Owned by a `LogDirectory`."""

    __slots__ = ("_disk", "_lock", "_path", "_version", "_written", "offsets", "stored")

    def __init__(self, disk: GuardedDisk, path: str, offsets: Offsets) -> None:
        self._disk = disk
        self._path = path
        self._lock = new_lock()
        self._version = 0
        self._written = 0
        self.offsets = offsets
        """What the file shall say."""
        self.stored: Mapping[PartitionName, int] = dict(offsets)
        """What it says, as far as we know."""

    def get(self, name: PartitionName) -> int:
        return self.offsets.get(name, 0)

    def put(self, name: PartitionName, offset: int) -> None:
        if self.offsets.get(name) != offset:
            self.offsets[name] = offset
            self._version += 1

    def put_all_but(self, kept: Iterable[PartitionName], offsets: Offsets) -> None:
        """These and no others, but what is there about `kept` stays."""
        stored = self.offsets
        offsets.update((name, stored[name]) for name in kept if name in stored)
        self.offsets = offsets
        self._version += 1

    def lower(self, name: PartitionName, offset: int) -> None:
        """Durable when it returns; nothing happens if it is not higher."""
        if max(self.get(name), self.stored.get(name, 0)) > offset:
            self.put(name, offset)
            self.write()

    def store(self, name: PartitionName, offset: int) -> None:
        self.store_all({name: offset})

    def store_all(self, offsets: Offsets) -> None:
        """Durable when it returns. NoSpace: nothing has changed."""
        before = {name: self.offsets.get(name) for name in offsets}
        for name, offset in offsets.items():
            self.put(name, offset)
        try:
            self.write()
        except StorageError:
            for name, former in before.items():
                if former is None:
                    self.forget(name)
                else:
                    self.put(name, former)
            raise

    def forget(self, name: PartitionName) -> None:
        if self.offsets.pop(name, None) is not None:
            self._version += 1

    def write(self) -> None:
        """What changed is durable when this returns. NoSpace: the old content stays."""
        pending = self.start_writing()
        if pending is not None:
            pending.run()

    def start_writing(self) -> "PendingCheckpoint | None":
        """None if the file says all of it already."""
        if self._version == self._written:
            return None
        return PendingCheckpoint(self, self._version, dict(self.offsets))

    def replace(self, version: int, offsets: Offsets) -> None:
        with self._lock:
            if version > self._written:
                checkpoints.write_offsets(self._disk, self._path, offsets)
                self._written = version
                self.stored = offsets


class PendingCheckpoint(NamedTuple):
    """The content of a file at one moment."""

    checkpoint: OffsetCheckpoint
    version: int
    offsets: Offsets

    def run(self) -> None:
        """On any thread."""
        self.checkpoint.replace(self.version, self.offsets)


class OffsetCheckpoints(NamedTuple):
    """All four of a directory. `note_…` says what is so for the next writing."""

    recovery_points: OffsetCheckpoint
    log_starts: OffsetCheckpoint
    high_watermarks: OffsetCheckpoint
    clean_points: OffsetCheckpoint

    def note_recovery_points(self, logs: Logs, refused: Iterable[PartitionName]) -> None:
        """What is known to be synced. What is on disk about logs that could not be opened stays as
        it is; the same for the others."""
        points = {name: log.storable_recovery_point for name, log in logs.items()}
        self.recovery_points.put_all_but(refused, points)

    def note_log_starts(self, logs: Logs, refused: Iterable[PartitionName]) -> None:
        """Of all logs: a log whose first segment is gone must not seem to start later."""
        starts = {name: log.log_start_offset for name, log in logs.items()}
        self.log_starts.put_all_but(refused, starts)

    def note_high_watermarks(
        self, high_watermarks: Mapping[PartitionName, int], refused: Iterable[PartitionName]
    ) -> None:
        self.high_watermarks.put_all_but(refused, dict(high_watermarks))

    def forget(self, name: PartitionName) -> None:
        """A deleted log must not leave a recovery point to the next one of its name."""
        for checkpoint in self:
            checkpoint.forget(name)

    def write(self) -> None:
        """Everything that changed is durable when this returns."""
        write_all(self.start_writing())

    def start_writing(self) -> list[PendingCheckpoint]:
        """What has to be written; `write_all` does it, on any thread."""
        pending = (checkpoint.start_writing() for checkpoint in self)
        return [each for each in pending if each is not None]

    def expect_gaps(self, log: Log) -> None:
        """It is to be compacted. The first log that gets a gap has this written for all."""
        name = _name_of(log)
        if name not in self.clean_points.offsets:
            self.clean_points.put(name, 0)

    # What logs need on disk before they go on

    def before_truncation(self, log: Log) -> None:
        """Take back promises that the truncation is about to make untrue."""
        name = _name_of(log)
        self.recovery_points.lower(name, log.recovery_point)
        self.log_starts.lower(name, log.log_start_offset)
        self.clean_points.lower(name, log.recovery_point)

    def on_gaps_allowed(self, log: Log) -> None:
        """A log that is named in this checkpoint may have gaps."""
        self.expect_gaps(log)
        self.clean_points.write()

    def on_log_start_raised(self, log: Log) -> None:
        self.store_log_starts([(log, log.log_start_offset)])

    def store_log_starts(self, raised: Iterable[tuple[Log, int]]) -> None:
        """Durable when it returns. Not those of new replicas: nothing of them can be lost, and
        thousands of them may begin at once."""
        named = [(_name_of(log), log.size_bytes, offset) for log, offset in raised]
        known = self.log_starts.stored
        self.log_starts.store_all({name: at for name, size, at in named if size or name in known})


def write_all(pending: Sequence[PendingCheckpoint]) -> None:
    """On any thread."""
    for each in pending:
        each.run()


def _name_of(log: Log) -> PartitionName:
    name = parse_directory(log.directory)
    assert name is not None, log.directory
    return name
