"""A disk without I/O, that can crash like a real one and fail like a real one.

`SimDisk` is a `host.ports.Disk`. What it does to data and names when power fails is the
theory of `disk_state`; here are paths, open files, faults and the choice of a crash.
"""

import errno
import os
from collections.abc import Callable, Sequence
from enum import Enum
from functools import lru_cache
from typing import Final, Literal, Protocol

from tidelog.host.ports import Buffer, FileRange
from tidelog.sim.disk_state import (
    ROOT,
    Create,
    DirectoryNode,
    DiskState,
    Effect,
    Extend,
    FailedSync,
    FileNode,
    MakeDirectory,
    Mark,
    PendingEffect,
    Remove,
    Rename,
    SyncDirectory,
    SyncFile,
    Truncate,
    Write,
    is_data_effect,
)

Operation = Literal["create", "read", "write", "truncate", "sync", "rename", "remove", "sync_dir"]
Choose = Callable[[int], int]
"""`choose(n)` is a number from 0 to n - 1, drawn from the seed."""

SECTOR_BYTES: Final = 512
PAGE_BYTES: Final = 4096


class CrashKind(Enum):
    """A process crash keeps the page cache, a power loss does not: two different faults."""

    PROCESS = "process"
    POWER_LOSS = "power loss"


class DiskWatcher(Protocol):
    """Hears what is about to be done to a disk."""

    def before(self, effect: Effect) -> None: ...

    def reading(self, size_bytes: int) -> None: ...


class SimDisk:
    """A directory tree in memory. With `record` it keeps every effect in `trace`."""

    __slots__ = (
        "_arrived",
        "_faults",
        "_state",
        "crashed_at",
        "errors",
        "failed_syncs",
        "marks",
        "room_bytes",
        "trace",
        "watcher",
    )

    def __init__(self, *, record: bool = False) -> None:
        self._state = DiskState()
        self._faults: list[_Fault] = []
        self.trace: list[Effect] | None = [] if record else None
        self.marks: list[object] = []
        self.crashed_at = ""
        """Where a crash happened, in words, when this disk is what it left behind."""
        self._arrived: Sequence[PendingEffect] = ()
        self.watcher: DiskWatcher | None = None
        self.room_bytes: int | None = None
        """How many more bytes files may have altogether; None: as many as they like."""
        self.errors = 0
        """How often an operation failed, by a fault or for want of room."""
        self.failed_syncs = 0

    # Disk

    def open(self, path: str, *, create: bool = False) -> "SimFile":
        number = self._find(path)
        if number is None:
            if not create:
                raise self._missing(path)
            directory, name = self._parent(path)
            self._fail_if_told("create", path)
            if self.room_bytes == 0:
                raise self._failed(errno.ENOSPC, path)
            number = self._state.next_node
            self._do(Create(number, path, directory, name))
        if type(self._state.nodes[number]) is not FileNode:
            raise _os_error(errno.EISDIR, path)
        return SimFile(self, number, path)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def list(self, path: str) -> "list[str]":
        return sorted(self._state.directory(self._require_directory(path)).entries)

    def make_dir(self, path: str) -> None:
        directory = ROOT
        done = ""
        for name in _names(path):
            done = f"{done}/{name}" if done else name
            child = self._state.directory(directory).entries.get(name)
            if child is None:
                self._fail_if_told("create", done)
                child = self._state.next_node
                self._do(MakeDirectory(child, done, directory, name))
            elif type(self._state.nodes[child]) is not DirectoryNode:
                last = _names(done) == _names(path)
                raise _os_error(errno.EEXIST if last else errno.ENOTDIR, done)
            directory = child

    def rename(self, source: str, target: str) -> None:
        source_directory, source_name = self._parent(source)
        directory, name = self._parent(target)
        number = self._require(source)
        replaced = self._find(target)
        if replaced == number:
            return
        if f"{target}/".startswith(f"{source}/"):
            raise _os_error(errno.EINVAL, target)
        if f"{source}/".startswith(f"{target}/"):
            raise _os_error(errno.ENOTEMPTY, target)
        if replaced is not None:
            self._check_replaceable(number, replaced, target)
        self._fail_if_told("rename", target)
        if replaced is not None:
            self._give_back(replaced)
        self._do(Rename(number, target, source_directory, source_name, directory, name))

    def remove(self, path: str) -> None:
        number = self._require(path)
        node = self._state.nodes[number]
        if type(node) is DirectoryNode and node.entries:
            raise _os_error(errno.ENOTEMPTY, path)
        directory, name = self._parent(path)
        self._fail_if_told("remove", path)
        self._give_back(number)
        self._do(Remove(number, path, directory, name))

    def sync_dir(self, path: str) -> None:
        self.start_sync_dir(path).run()

    def start_sync_dir(self, path: str) -> "SimDirectorySyncing":
        return SimDirectorySyncing(self, self._require_directory(path), path)

    # Crashes

    def crash(self, kind: CrashKind, choose: Choose) -> "SimDisk":
        """The disk that the next process finds. This one stays as it is."""
        if kind is CrashKind.PROCESS:
            after = _disk_of(self._state.copy())
            after.crashed_at = "process crash"
        else:
            after = self.after_power_loss(choose_survivors(self.pending(), choose))
        after.marks = self.marks.copy()
        return after

    def pending(self) -> Sequence[PendingEffect]:
        """The effects that a power loss may take, in order."""
        return self._state.pending()

    def after_power_loss(self, survivors: Sequence[PendingEffect]) -> "SimDisk":
        """The disk on which, besides all that was synced, exactly these effects arrived."""
        after = _disk_of(self._state.after_power_loss(survivors))
        after.marks = self.marks.copy()
        after.crashed_at = "power loss"
        after._arrived = survivors
        return after

    @property
    def story(self) -> str:
        """How this disk came to be, and which of the effects that might be lost were not."""
        kept = "; ".join(map(describe, self._arrived)) or "nothing"
        return f"{self.crashed_at or 'no crash'}, kept of what was not synced: {kept}"

    def take_over(self, before: "SimDisk") -> None:
        """This is what a crash left of `before`: the same device, as full and as broken."""
        self._faults, self.room_bytes = before._faults, before.room_bytes
        self.errors, self.failed_syncs = before.errors, before.failed_syncs
        self.watcher = before.watcher

    def copy(self) -> "SimDisk":
        """The same disk once more, pending effects included; not its trace or faults."""
        other = _disk_of(self._state.copy())
        other.marks = self.marks.copy()
        return other

    def replay(self, effect: Effect) -> None:
        """Performs one effect of a trace that began on a copy of this disk."""
        if isinstance(effect, Mark):
            self.mark(effect.value)
        else:
            self._do(effect)

    def mark(self, value: object) -> None:
        """The workload got this far; crash states from here on carry the mark."""
        self.marks.append(value)
        if self.trace is not None:
            self.trace.append(Mark(value))

    # Faults

    def inject(
        self,
        operation: Operation,
        *,
        error: int = errno.EIO,
        after: int = 0,
        path: str = "",
        lasting: bool = False,
        partial_bytes: int = 0,
    ) -> None:
        """Lets an operation fail, after as many have succeeded, once or from then on.

        `path` limits it to a file or to everything below a directory. A failing write first
        puts down `partial_bytes`: a full disk takes what still fits.
        """
        fault = _Fault(operation, error, path)
        fault.after, fault.lasting, fault.partial_bytes = after, lasting, partial_bytes
        self._faults.append(fault)

    @property
    def is_told_to_fail(self) -> bool:
        return bool(self._faults)

    def heal(self) -> None:
        """No more faults, and room for everything."""
        self._faults.clear()
        self.room_bytes = None

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Damages a file at rest."""
        self._state.flip_bit(self._require_file(path), position, bit)

    # For tests and checkers

    def files(self) -> dict[str, bytes]:
        """Every file and its content as a process sees it now."""
        walk = self._state.walk()
        return {path: bytes(node.data) for path, node in walk if type(node) is FileNode}

    def digest(self) -> bytes:
        """Equal for disks that no process could tell apart."""
        return self._state.digest()

    def _do(self, effect: Effect) -> None:
        if self.watcher is not None:
            self.watcher.before(effect)
        if self.trace is not None:
            self.trace.append(effect)
        self._state.apply(effect)

    def _find(self, path: str) -> int | None:
        number = ROOT
        nodes = self._state.nodes
        for name in _names(path):
            node = nodes[number]
            if type(node) is not DirectoryNode:
                return None
            child = node.entries.get(name)
            if child is None:
                return None
            number = child
        return number

    def _require(self, path: str) -> int:
        number = self._find(path)
        if number is None:
            raise self._missing(path)
        return number

    def _missing(self, path: str) -> OSError:
        """A name behind a file is no directory entry at all, as operating systems see it."""
        names = _names(path)
        for count in range(1, len(names)):
            number = self._find("/".join(names[:count]))
            if number is not None and type(self._state.nodes[number]) is FileNode:
                return _os_error(errno.ENOTDIR, path)
        return _os_error(errno.ENOENT, path)

    def _require_directory(self, path: str) -> int:
        number = self._require(path)
        if type(self._state.nodes[number]) is not DirectoryNode:
            raise _os_error(errno.ENOTDIR, path)
        return number

    def _require_file(self, path: str) -> int:
        number = self._require(path)
        if type(self._state.nodes[number]) is not FileNode:
            raise _os_error(errno.EISDIR, path)
        return number

    def _parent(self, path: str) -> tuple[int, str]:
        names = _names(path)
        if not names:
            raise _os_error(errno.EINVAL, path)
        return self._require_directory("/".join(names[:-1])), names[-1]

    def _check_replaceable(self, number: int, replaced: int, target: str) -> None:
        moved, old = self._state.nodes[number], self._state.nodes[replaced]
        if type(old) is DirectoryNode:
            if type(moved) is not DirectoryNode:
                raise _os_error(errno.EISDIR, target)
            if old.entries:
                raise _os_error(errno.ENOTEMPTY, target)
        elif type(moved) is DirectoryNode:
            raise _os_error(errno.ENOTDIR, target)

    def _fail_if_told(self, operation: Operation, path: str) -> None:
        if self._faults:
            fault = self._due_fault(operation, path)
            if fault is not None:
                raise self._failed(fault.error, path)

    def _failed(self, number: int, path: str) -> OSError:
        self.errors += 1
        return _os_error(number, path)

    def _give_back(self, number: int) -> None:
        """The room of a file that loses its name."""
        node = self._state.nodes[number]
        if self.room_bytes is not None and type(node) is FileNode:
            self.room_bytes += len(node.data)

    def _due_fault(self, operation: Operation, path: str) -> "_Fault | None":
        for fault in self._faults:
            if fault.operation == operation and fault.concerns(path):
                if fault.after > 0:
                    fault.after -= 1
                    continue
                if not fault.lasting:
                    self._faults.remove(fault)
                return fault
        return None


class SimFile:
    """An open file of a `SimDisk`."""

    __slots__ = ("_closed", "_disk", "_node", "_path")

    def __init__(self, disk: SimDisk, node: int, path: str) -> None:
        self._disk = disk
        self._node = node
        self._path = path
        self._closed = False

    def size(self) -> int:
        return len(self._file().data)

    def read(self, position: int, size_bytes: int) -> bytes:
        file = self._file()
        self._disk._fail_if_told("read", self._path)
        assert position >= 0, position
        assert size_bytes >= 0, size_bytes
        if self._disk.watcher is not None:
            self._disk.watcher.reading(size_bytes)
        return bytes(memoryview(file.data)[position : position + size_bytes])

    def content(self) -> bytes:
        """All of it, for whoever judges a run: no fault hits this, and nobody notices."""
        return bytes(self._disk._state.file(self._node).data)

    def range_in_memory(self, position: int, size_bytes: int) -> FileRange | None:
        """As on a system that does not tell."""
        return None

    def read_ahead(self, *, allowed: bool) -> None:
        pass

    def write(self, position: int, data: Buffer | Sequence[Buffer]) -> None:
        self._file()
        assert position >= 0, position
        payload = bytes(data) if isinstance(data, Buffer) else b"".join(data)
        if self._disk._faults:
            fault = self._disk._due_fault("write", self._path)
            if fault is not None:
                if fault.partial_bytes > 0:
                    self._write(position, payload[: fault.partial_bytes])
                raise self._disk._failed(fault.error, self._path)
        if self._disk.room_bytes is not None:
            self._take_room(position, payload)
        self._write(position, payload)

    def _take_room(self, position: int, payload: bytes) -> None:
        """A full disk takes what still fits."""
        disk = self._disk
        assert disk.room_bytes is not None, "there is room for everything"
        more_bytes = max(0, position + len(payload) - self.size())
        if more_bytes > disk.room_bytes:
            fitting = payload[: len(payload) - more_bytes + disk.room_bytes]
            disk.room_bytes = 0
            self._write(position, fitting)
            raise disk._failed(errno.ENOSPC, self._path)
        disk.room_bytes -= more_bytes

    def truncate(self, size_bytes: int) -> None:
        size_before = len(self._file().data)
        assert size_bytes >= 0, size_bytes
        self._disk._fail_if_told("truncate", self._path)
        if self._disk.room_bytes is not None:
            # A longer file has a hole, which takes no room.
            self._disk.room_bytes += max(0, size_before - size_bytes)
        self._disk._do(Truncate(self._node, self._path, size_bytes))

    def sync(self) -> None:
        self.start_sync().run()

    def start_sync(self) -> "SimFileSyncing":
        self._file()
        return SimFileSyncing(self._disk, self._node, self._path)

    def close(self) -> None:
        self._closed = True

    def _write(self, position: int, payload: bytes) -> None:
        if payload:
            self._disk._do(Write(self._node, self._path, position, payload))

    def _file(self) -> FileNode:
        if self._closed:
            raise _os_error(errno.EBADF, self._path)
        return self._disk._state.file(self._node)


class SimFileSyncing:
    """A sync of a file of a `SimDisk`: everything that was written until it is run."""

    __slots__ = ("_disk", "_node", "_path")

    def __init__(self, disk: SimDisk, node: int, path: str) -> None:
        self._disk = disk
        self._node = node
        self._path = path

    def run(self) -> None:
        if self._disk._faults:
            fault = self._disk._due_fault("sync", self._path)
            if fault is not None:
                self._disk._do(FailedSync(self._node, self._path))
                self._disk.failed_syncs += 1
                raise self._disk._failed(fault.error, self._path)
        self._disk._do(SyncFile(self._node, self._path))

    def release(self) -> None:
        """It holds nothing."""


class SimDirectorySyncing:
    """A sync of the names in a directory of a `SimDisk`."""

    __slots__ = ("_disk", "_node", "_path")

    def __init__(self, disk: SimDisk, node: int, path: str) -> None:
        self._disk = disk
        self._node = node
        self._path = path

    def run(self) -> None:
        self._disk._fail_if_told("sync_dir", self._path)
        self._disk._do(SyncDirectory(self._node, self._path))

    def release(self) -> None:
        """It holds nothing."""


class _Fault:
    __slots__ = ("after", "error", "lasting", "operation", "partial_bytes", "path")

    def __init__(self, operation: Operation, error: int, path: str) -> None:
        self.operation = operation
        self.error = error
        self.path = path
        self.after = 0
        self.lasting = False
        self.partial_bytes = 0

    def concerns(self, path: str) -> bool:
        return not self.path or path == self.path or path.startswith(f"{self.path}/")


def choose_survivors(pending: Sequence[PendingEffect], choose: Choose) -> list[PendingEffect]:
    """A draw of what arrived. First the manner of the loss, then the single effects:
    coins alone would almost never lose all, keep all, or keep names without data."""
    manner = choose(6)
    if manner == 0:
        return []
    if manner == 1:
        return list(pending)
    if manner == 2:
        return [effect for effect in pending if not is_data_effect(effect)]
    if manner == 3:
        return [effect for effect in pending if is_data_effect(effect)]
    if manner == 4:
        count = choose(len(pending) + 1)
        last = [torn(effect, choose) for effect in pending[count : count + 1]]
        return [*pending[:count], *last]
    fates = [(effect, choose(3)) for effect in pending]
    return [effect if fate == 1 else torn(effect, choose) for effect, fate in fates if fate > 0]


def torn(effect: PendingEffect, choose: Choose) -> PendingEffect:
    """A write of which a part arrived; other effects arrive whole."""
    if type(effect) is not Write:
        return effect
    unit = SECTOR_BYTES if choose(2) == 0 else PAGE_BYTES
    borders = tear_borders(effect, unit)
    end = effect.position + len(effect.data)
    if not borders or choose(4) == 0:
        return Extend(effect.node, effect.path, end)
    border = borders[choose(len(borders))]
    kept = border - effect.position
    if choose(2) == 0:
        return effect._replace(data=effect.data[:kept])
    return effect._replace(position=border, data=effect.data[kept:])


def tear_borders(effect: Write, unit_bytes: int) -> range:
    """The places inside a write at which a disk may have stopped."""
    first = (effect.position // unit_bytes + 1) * unit_bytes
    return range(first, effect.position + len(effect.data), unit_bytes)


def describe(effect: Effect) -> str:
    """One effect in words."""
    if type(effect) is Write:
        return f"write {effect.path} {effect.position}+{len(effect.data)}"
    if type(effect) is Truncate or type(effect) is Extend:
        return f"{type(effect).__name__.lower()} {effect.path} to {effect.size_bytes}"
    if type(effect) is Rename:
        return f"rename {effect.source_name} to {effect.path}"
    if isinstance(effect, Mark):
        return f"mark {effect.value}"
    return f"{type(effect).__name__} {effect.path}"


def _disk_of(state: DiskState) -> SimDisk:
    disk = SimDisk()
    disk._state = state
    return disk


@lru_cache(maxsize=4096)
def _names(path: str) -> tuple[str, ...]:
    """Of the same few hundred files again and again."""
    return tuple(name for name in path.split("/") if name not in ("", "."))


def _os_error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
