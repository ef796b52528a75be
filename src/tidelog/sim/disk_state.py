"""What a virtual disk knows: the tree as processes see it, and the part that would survive.

Theory. Every change is an effect. It is visible at once and pending until the right sync:
data of a file until `SyncFile` of that file, a name until `SyncDir` of its directory. This
is the strict reading of POSIX: syncing a new file does not make its name last. When power
fails, any subset of the pending effects may have reached the disk, because the kernel
writes pages back in any order; what it never does is put an older page over a newer one,
so survivors are applied in the order in which they were made.

Nodes are files and directories apart from their names, so an open file survives its name.
"""

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

ROOT = 0


class Write(NamedTuple):
    """Bytes at a position of a file; the gap to it, if any, reads as zeros."""

    node: int
    path: str
    position: int
    data: bytes


class Truncate(NamedTuple):
    """The file has this size afterwards, shorter or longer."""

    node: int
    path: str
    size_bytes: int


class Extend(NamedTuple):
    """Exists only after a crash: the new size reached the disk and the bytes did not."""

    node: int
    path: str
    size_bytes: int


class Create(NamedTuple):
    """A new empty file under this name."""

    node: int
    path: str
    directory: int
    name: str


class MakeDirectory(NamedTuple):
    """A new empty directory under this name."""

    node: int
    path: str
    directory: int
    name: str


class Rename(NamedTuple):
    """One name replaced by another, atomically. Lasting when the target's directory is
    synced; the old name then is gone for good as well, wherever it was."""

    node: int
    path: str
    source_directory: int
    source_name: str
    directory: int
    name: str


class Remove(NamedTuple):
    """The name is gone; the node goes when nothing names it."""

    node: int
    path: str
    directory: int
    name: str


class SyncFile(NamedTuple):
    """The data of the file lasts."""

    node: int
    path: str


class FailedSync(NamedTuple):
    """A sync of the file failed. The kernel then marks the pages clean: they are still read,
    and a later sync succeeds without ever writing them (reliability.md §2.5, point 5)."""

    node: int
    path: str


class SyncDirectory(NamedTuple):
    """The names in the directory last."""

    node: int
    path: str


class Mark(NamedTuple):
    """No change: the workload says how far it got, for whoever checks crash states."""

    value: object


DataEffect = Write | Truncate | Extend
NameEffect = Create | MakeDirectory | Rename | Remove
PendingEffect = DataEffect | NameEffect
SyncEffect = SyncFile | FailedSync | SyncDirectory
Effect = PendingEffect | SyncEffect | Mark


def is_data_effect(effect: Effect) -> bool:
    """True for what a file's sync makes last, false for names."""
    return type(effect) in (Write, Truncate, Extend)


class FileNode:
    """A file. Content is `bytes` while it is shared between disks, `bytearray` once written."""

    __slots__ = ("data", "durable", "pending")

    def __init__(self, content: bytes = b"") -> None:
        self.data: bytes | bytearray = content
        self.durable: bytes | bytearray = content
        self.pending: list[tuple[int, DataEffect]] = []

    def freeze(self) -> None:
        """Makes both contents shareable; one that changes later is copied then."""
        if type(self.data) is bytearray:
            self.data = bytes(self.data)
        if type(self.durable) is bytearray:
            self.durable = bytes(self.durable)


class DirectoryNode:
    """A directory: names to node numbers."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, int] = {}
        self.durable: dict[str, int] = {}
        self.pending: list[tuple[int, NameEffect]] = []


Node = FileNode | DirectoryNode


class DiskState:
    """The nodes of one disk. The only place that changes them is `apply`."""

    __slots__ = ("_sequence", "next_node", "nodes")

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {ROOT: DirectoryNode()}
        self.next_node = 1
        self._sequence = 0

    def file(self, number: int) -> FileNode:
        node = self.nodes[number]
        assert type(node) is FileNode, (number, type(node))
        return node

    def directory(self, number: int) -> DirectoryNode:
        node = self.nodes[number]
        assert type(node) is DirectoryNode, (number, type(node))
        return node

    def apply(self, effect: Effect) -> None:
        """Performs an effect: visible at once, pending until it is synced."""
        assert type(effect) is not Mark, effect
        _HANDLERS[type(effect)](self, effect)

    def flip_bit(self, number: int, position: int, bit: int) -> None:
        """Damage at rest, seen by whoever reads now or after a crash."""
        file = self.file(number)
        assert 0 <= position < len(file.data), (position, len(file.data))
        file.data = bytearray(file.data)
        file.data[position] ^= 1 << bit
        if position < len(file.durable):
            file.durable = bytearray(file.durable)
            file.durable[position] ^= 1 << bit

    def pending(self) -> list[PendingEffect]:
        """What a power loss may take, in the order in which it was made."""
        reachable = self._nodes_that_may_have_a_name()
        found: list[tuple[int, PendingEffect]] = []
        for number, node in self.nodes.items():
            if number in reachable:
                found.extend(node.pending)
        found.sort(key=_sequence_of)
        return [effect for _, effect in found]

    def copy(self) -> "DiskState":
        """The same state, pending effects included, sharing content until one is written."""
        other = DiskState()
        other.next_node = self.next_node
        other._sequence = self._sequence
        for number, node in self.nodes.items():
            if type(node) is FileNode:
                node.freeze()
                file = other.nodes[number] = FileNode()
                file.data, file.durable = node.data, node.durable
                file.pending = node.pending.copy()
            elif type(node) is DirectoryNode:
                directory = other.nodes[number] = DirectoryNode()
                directory.entries = node.entries.copy()
                directory.durable = node.durable.copy()
                directory.pending = node.pending.copy()
        return other

    def after_power_loss(self, survivors: Iterable[PendingEffect]) -> "DiskState":
        """What is durable plus these effects; nothing of it is pending any more."""
        other = DiskState()
        other.next_node = self.next_node
        for number, node in self.nodes.items():
            if type(node) is FileNode:
                node.freeze()
                assert type(node.durable) is bytes, type(node.durable)
                other.nodes[number] = FileNode(node.durable)
            elif type(node) is DirectoryNode:
                directory = other.nodes[number] = DirectoryNode()
                directory.entries = node.durable.copy()
        for effect in survivors:
            if isinstance(effect, Write | Truncate | Extend):
                file = other.file(effect.node)
                file.data = change_content(file.data, effect)
            else:
                change_entries(other, effect, durable=False)
        other._settle()
        return other

    def digest(self) -> bytes:
        """Equal for disks that no process could tell apart."""
        hasher = hashlib.blake2b(digest_size=16)
        for path, node in self.walk():
            content = b"d" if type(node) is DirectoryNode else self._content_of(node)
            hasher.update(b"%d:%d:" % (len(path), len(content)))
            hasher.update(path.encode())
            hasher.update(content)
        return hasher.digest()

    def walk(self) -> list[tuple[str, Node]]:
        """Every named node with its path, sorted, without the root."""
        found: list[tuple[str, Node]] = []
        waiting = [("", ROOT)]
        while waiting:
            prefix, number = waiting.pop()
            for name, child in self.directory(number).entries.items():
                node = self.nodes[child]
                found.append((prefix + name, node))
                if type(node) is DirectoryNode:
                    waiting.append((f"{prefix}{name}/", child))
        found.sort(key=_path_of)
        return found

    @staticmethod
    def _content_of(node: Node) -> bytes | bytearray:
        assert type(node) is FileNode, type(node)
        return node.data

    def _change_data(self, effect: DataEffect) -> None:
        file = self.file(effect.node)
        file.data = change_content(file.data, effect)
        self._sequence += 1
        file.pending.append((self._sequence, effect))

    def _change_names(self, effect: NameEffect) -> None:
        if type(effect) is Create:
            self.nodes[effect.node] = FileNode()
        elif type(effect) is MakeDirectory:
            self.nodes[effect.node] = DirectoryNode()
        self.next_node = max(self.next_node, effect.node + 1)
        change_entries(self, effect, durable=False)
        self._sequence += 1
        self.directory(effect.directory).pending.append((self._sequence, effect))

    def _sync_file(self, effect: SyncFile) -> None:
        file = self.file(effect.node)
        for _, pending in file.pending:
            file.durable = change_content(file.durable, pending)
        file.pending.clear()

    def _fail_sync(self, effect: FailedSync) -> None:
        self.file(effect.node).pending.clear()

    def _sync_directory(self, effect: SyncDirectory) -> None:
        directory = self.directory(effect.node)
        for sequence, pending in directory.pending:
            change_entries(self, pending, durable=True)
            if type(pending) is Rename and pending.source_directory != effect.node:
                source = self.directory(pending.source_directory)
                source.pending = [
                    older
                    for older in source.pending
                    if older[0] > sequence or older[1].name != pending.source_name
                ]
        directory.pending.clear()

    def _settle(self) -> None:
        """Everything visible is durable. Nodes without a name are gone."""
        named = {ROOT}
        for node in self.nodes.values():
            if type(node) is DirectoryNode:
                node.durable = node.entries.copy()
                named.update(node.entries.values())
            elif type(node) is FileNode:
                node.data = node.durable = bytes(node.data)
        self.nodes = {number: node for number, node in self.nodes.items() if number in named}

    def _nodes_that_may_have_a_name(self) -> set[int]:
        named = {ROOT}
        for node in self.nodes.values():
            if type(node) is DirectoryNode:
                named.update(node.durable.values())
                named.update(effect.node for _, effect in node.pending)
        return named


def change_content(content: bytes | bytearray, effect: DataEffect) -> bytearray:
    """The content after the effect, in place once it is a bytearray."""
    changed = content if type(content) is bytearray else bytearray(content)
    size = len(changed)
    if isinstance(effect, Write):
        if effect.position > size:
            changed.extend(bytes(effect.position - size))
        changed[effect.position : effect.position + len(effect.data)] = effect.data
    elif effect.size_bytes > size:
        changed.extend(bytes(effect.size_bytes - size))
    elif type(effect) is Truncate:
        del changed[effect.size_bytes :]
    return changed


def change_entries(state: DiskState, effect: NameEffect, *, durable: bool) -> None:
    """The visible or the durable names after the effect.

    It may come without the ones before it, so a name goes only if it still is this node.
    """
    directory = state.directory(effect.directory)
    entries = directory.durable if durable else directory.entries
    if type(effect) is Remove:
        if entries.get(effect.name) == effect.node:
            del entries[effect.name]
        return
    if type(effect) is Rename:
        source = state.directory(effect.source_directory)
        source_entries = source.durable if durable else source.entries
        if source_entries.get(effect.source_name) == effect.node:
            del source_entries[effect.source_name]
    entries[effect.name] = effect.node


def _sequence_of(item: tuple[int, PendingEffect]) -> int:
    return item[0]


def _path_of(item: tuple[str, Node]) -> str:
    return item[0]


_HANDLERS: dict[type[Effect], Callable[[DiskState, Any], None]] = {
    Write: DiskState._change_data,
    Truncate: DiskState._change_data,
    Create: DiskState._change_names,
    MakeDirectory: DiskState._change_names,
    Rename: DiskState._change_names,
    Remove: DiskState._change_names,
    SyncFile: DiskState._sync_file,
    FailedSync: DiskState._fail_sync,
    SyncDirectory: DiskState._sync_directory,
}
