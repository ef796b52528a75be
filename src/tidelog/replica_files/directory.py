"""The data directories of nodes: which replicas lie in them, and what their checkpoints say."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tidelog.replica_files.epochs import Entries, complete_epochs
from tidelog.replica_files.read_only_disk import ReadOnlyDisk
from tidelog.storage import checkpoints
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.directory_names import METADATA, directory_of, parse_directory
from tidelog.storage.errors import CorruptFile
from tidelog.storage.meta_properties import FILE_NAME as META_PROPERTIES
from tidelog.storage.meta_properties import read_meta_properties
from tidelog.storage.partition_metadata import FILE_NAME as PARTITION_METADATA
from tidelog.storage.partition_metadata import read_topic_id


class NoDataDirectory(Exception):  # noqa: N818 - it names what is so
    """Not the data directory of a node; the message says why."""


class Replica(NamedTuple):
    """One replica of a partition, by its files."""

    node_id: int
    topic: str
    partition: int
    directory: str
    topic_id: bytes | None = None
    epochs: tuple[tuple[int, int], ...] = ()
    """The epoch history: leader epoch and start offset."""
    log_start: int = 0
    """As checkpointed; the first segment may begin later."""
    high_watermark: int = 0
    """As checkpointed, which may be some seconds old: everything below it is committed."""
    has_gaps: bool = False
    """Compaction may have taken offsets away."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


class DataDirectory:
    """One of the `log.dirs` of a node."""

    __slots__ = (
        "_clean_points",
        "_disk",
        "_high_watermarks",
        "_log_starts",
        "_recovery_points",
        "node_id",
        "path",
    )

    def __init__(self, path: str | Path, node_id: int | None = None) -> None:
        """Whose it is stands in `meta.properties`; `node_id` serves where there is none."""
        self.path = os.path.abspath(path)
        try:
            self._disk = ReadOnlyDisk(self.path)
            self.node_id = _owner(self._disk, node_id)
        except NotADirectoryError:
            raise NoDataDirectory(f"{path} is not a directory") from None
        except CorruptFile as error:
            raise NoDataDirectory(f"{path}: {error}") from None
        except OSError as error:
            raise NoDataDirectory(f"{path}: {error.strerror}") from None
        self._high_watermarks = self._offsets(checkpoints.HIGH_WATERMARKS)
        self._log_starts = self._offsets(checkpoints.LOG_STARTS)
        self._recovery_points = self._offsets(checkpoints.RECOVERY_POINTS)
        self._clean_points = self._offsets(checkpoints.CLEAN_POINTS)

    def partitions(self) -> list[PartitionName]:
        """Those in service; not the metadata log of the quorum."""
        named = (parse_directory(entry) for entry in self._disk.list(""))
        return [name for name in named if name is not None and name != METADATA]

    def replica(self, name: PartitionName) -> Replica | None:
        """None if there is no replica of it here."""
        inner = directory_of(name)
        if not self._disk.exists(inner):
            return None
        return Replica(
            self.node_id,
            *name,
            os.path.join(self.path, inner),
            self._topic_id(inner),
            self._epochs(inner, self._recovery_points.get(name, 0)),
            self._log_starts.get(name, 0),
            self._high_watermarks.get(name, 0),
            name in self._clean_points,
        )

    def _offsets(self, file_name: str) -> dict[PartitionName, int]:
        """A bad checkpoint knows of nothing, as for a node that starts."""
        try:
            return checkpoints.read_offsets(self._disk, file_name)
        except CorruptFile:
            return {}

    def _topic_id(self, inner: str) -> bytes | None:
        try:
            return read_topic_id(self._disk, f"{inner}/{PARTITION_METADATA}")
        except CorruptFile:
            return None

    def _epochs(self, inner: str, recovery_point: int) -> Entries:
        try:
            stored = tuple(checkpoints.read_epochs(self._disk, f"{inner}/{checkpoints.EPOCHS}"))
        except CorruptFile:
            return ()
        return complete_epochs(os.path.join(self.path, inner), stored, recovery_point)


def find_replicas(
    directories: Iterable[DataDirectory], names: Iterable[PartitionName]
) -> dict[PartitionName, list[Replica]]:
    """The replicas of these partitions, in the order of the directories."""
    places = list(directories)
    found: dict[PartitionName, list[Replica]] = {}
    for name in names:
        replicas = [place.replica(name) for place in places]
        found[name] = [each for each in replicas if each is not None]
    return found


def _owner(disk: ReadOnlyDisk, node_id: int | None) -> int:
    properties = read_meta_properties(disk)
    if properties is None:
        if node_id is None:
            raise CorruptFile(META_PROPERTIES, "missing", "a node's log.dirs has one")
        return node_id
    if node_id is not None and node_id != properties.node_id:
        reason = f"it belongs to node {properties.node_id}, not to node {node_id}"
        raise CorruptFile(META_PROPERTIES, "node.id", reason)
    return properties.node_id
