"""Snapshots of the metadata: `<end offset>-<epoch>.checkpoint`, whole and durable or not there."""

from tidelog.core.quorum.messages import SnapshotId
from tidelog.storage import atomic_file
from tidelog.storage.atomic_file import discard, join, read_file
from tidelog.storage.entry_codec import EntryCodec
from tidelog.storage.errors import CorruptFile, UnknownContent
from tidelog.storage.guarded_disk import GuardedDisk
from tidelog.storage.repairs import Repair, Repairs
from tidelog.wire.records import InvalidBatch, UnknownRecord

SUFFIX = ".checkpoint"
_OFFSET_DIGITS = 20
_EPOCH_DIGITS = 10


def file_name(snapshot: SnapshotId) -> str:
    return f"{snapshot.end_offset:0{_OFFSET_DIGITS}d}-{snapshot.epoch:0{_EPOCH_DIGITS}d}{SUFFIX}"


def parse_file_name(name: str) -> SnapshotId | None:
    """None if it is not the name of a snapshot."""
    if not name.endswith(SUFFIX) or not name.isascii():
        return None
    end_offset, _, epoch = name.removesuffix(SUFFIX).partition("-")
    if not (end_offset.isdigit() and epoch.isdigit()):
        return None
    snapshot = SnapshotId(int(end_offset), int(epoch))
    return snapshot if file_name(snapshot) == name else None


class SnapshotStore:
    """The snapshots in the directory of the metadata log. Which to keep is decided there."""

    __slots__ = ("_codec", "_directory", "_disk")

    def __init__(self, disk: GuardedDisk, directory: str, codec: EntryCodec) -> None:
        self._disk = disk
        self._directory = directory
        self._codec = codec

    def load(self, repairs: Repairs) -> list[SnapshotId]:
        """The good ones, oldest first. Bad ones are noted and removed: each can be replaced by
        an older one and the log, or by another node's."""
        found = []
        bad = []
        for name in self._disk.list(self._directory):
            snapshot = parse_file_name(name)
            if snapshot is None:
                continue
            try:
                self.records(snapshot)
                found.append(snapshot)
            except UnknownContent:
                raise
            except CorruptFile as error:
                repairs.append(
                    Repair(error, "removed, the log and older snapshots stand in for it")
                )
                bad.append(snapshot)
        self.remove(bad)
        return sorted(found)

    def write(self, snapshot: SnapshotId, content: bytes) -> None:
        """Durable when it returns. CorruptFile if the content is not a snapshot."""
        self._decode(snapshot, content)
        atomic_file.replace_file(self._disk, self._path(snapshot), content)

    def records(self, snapshot: SnapshotId) -> tuple[object, ...]:
        """Its metadata records, decoded."""
        return self._decode(snapshot, read_file(self._disk, self._path(snapshot)) or b"")

    def chunk(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes]:
        """Its size, and the bytes from `position`."""
        file = self._disk.open(self._path(snapshot))
        try:
            return file.size(), file.read(position, max_bytes)
        finally:
            file.close()

    def remove(self, snapshots: list[SnapshotId]) -> None:
        """Gone for good when this returns."""
        for snapshot in snapshots:
            discard(self._disk, self._path(snapshot))
        if snapshots:
            self._disk.sync_dir(self._directory)

    def _decode(self, snapshot: SnapshotId, content: bytes) -> tuple[object, ...]:
        try:
            records, _ = self._codec.decode_snapshot(content)
        except InvalidBatch as error:
            where = f"{len(content)} bytes"
            fault = UnknownContent if isinstance(error, UnknownRecord) else CorruptFile
            raise fault(self._path(snapshot), where, str(error)) from error
        return records

    def _path(self, snapshot: SnapshotId) -> str:
        return join(self._directory, file_name(snapshot))
