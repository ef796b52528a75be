"""M35–M40 and M46: rules of the storage engine, found in the states that a crash can leave."""

from typing import Any

from tidelog.host.ports import Buffer, Disk
from tidelog.sim.mutants.patch import Mutant, Patch
from tidelog.storage import atomic_file, recovery
from tidelog.storage.errors import CorruptSegment
from tidelog.storage.guarded_disk import GuardedFile
from tidelog.storage.log import Log
from tidelog.storage.retention import RetentionClock
from tidelog.storage.segment import Segment
from tidelog.wire.records import BatchHeader


def _intact_unseen(data: bytes, position: int, header: BatchHeader) -> bool:
    return True


def _fill_with_zeros(segment: Segment, fault: CorruptSegment) -> None:
    segment.file.write(fault.position, bytes(segment.size - fault.position))
    segment.next_offset = fault.offset


def _sync_nothing(log: Log) -> None:
    log._names_are_unsynced = False


def _rename_then_sync(disk: Disk, path: str, content: Buffer) -> None:
    temporary = path + atomic_file.TEMPORARY_SUFFIX
    file = disk.open(temporary, create=True)
    file.truncate(0)
    file.write(0, content)
    disk.rename(temporary, path)
    disk.sync_dir(atomic_file.parent_of(path))
    file.sync()
    file.close()


def _sync_twice(file: GuardedFile) -> None:
    """The kernel has marked the pages clean: the second sync succeeds and writes nothing."""
    try:
        file._inner.sync()
    except OSError:
        file._inner.sync()


def _believe_wall_clock(clock: RetentionClock, *, wall_ms: int, monotonic_ms: int) -> int:
    return wall_ms


def _start_at_first_file(request: recovery.LoadRequest, segments: list[Segment]) -> None:
    return None


def _one(
    name: str, title: str, owner: Any, attribute: str, replacement: Any, *focus: str
) -> Mutant:
    return Mutant(name, title, (Patch(owner, attribute, replacement),), depth="crash", focus=focus)


MUTANTS = (
    _one("M35", "checksums are not looked at during recovery",
         recovery, "is_intact", _intact_unseen, "append"),
    _one("M36", "a torn tail is filled with zeros instead of being cut",
         recovery, "cut_torn_tail", _fill_with_zeros),
    _one("M37", "the recovery point advances without a sync",
         Log, "_make_durable", _sync_nothing),
    _one("M38", "a checkpoint is renamed before its data is synced",
         atomic_file, "replace_file", _rename_then_sync),
    _one("M39", "a failed sync is tried again and believed",
         GuardedFile, "sync", _sync_twice),
    _one("M40", "retention believes a wall clock that jumped",
         RetentionClock, "trusted_now", _believe_wall_clock, "retention"),
    _one("M46", "a log start is taken from the first segment file found",
         recovery, "hole_at_start", _start_at_first_file, "first segment vanishes"),
)  # fmt: skip
