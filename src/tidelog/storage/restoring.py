"""Putting records back into a log that was refused, from a replica that has them (ADR 0031, 0036).

An offset and a leader epoch name one batch, and our own epoch history knows the epochs of what we
had. So batches of another replica that fill the lost place exactly, with these epochs, are those
that were there. A hole becomes a segment of its own, written under a temporary name; a bad batch
is written over. Nothing that could be read before is changed.

Each broker compacts for itself. A bad batch of a compacted log is put back if another replica has
one that fits into its place to the byte. A hole in such a log is for `prefix_restoring`.
"""

from tidelog.core.replication.epochs import EpochHistory
from tidelog.host.ports import Buffer, Disk
from tidelog.storage import checkpoints
from tidelog.storage.atomic_file import TEMPORARY_SUFFIX, join, parent_of
from tidelog.storage.epoch_file import path_in
from tidelog.storage.errors import CorruptSegment, MissingRecords
from tidelog.storage.mending import Fit
from tidelog.storage.scan import follows
from tidelog.storage.segment import LOG_SUFFIX, file_name
from tidelog.wire.records import (
    HEADER_SIZE,
    BatchHeader,
    InvalidBatch,
    check_crc,
    iter_batches,
    read_header,
)


class Restoration:
    """Batches for one lost place of one refused log, which may have gaps between its offsets."""

    __slots__ = (
        "_disk",
        "_end",
        "_epochs",
        "_error",
        "_gaps",
        "_pieces",
        "next_offset",
        "size_bytes",
    )

    def __init__(self, disk: Disk, error: CorruptSegment, *, gaps: bool = False) -> None:
        """CorruptFile if the epochs of what was lost cannot be known."""
        assert not (gaps and isinstance(error, MissingRecords)), f"nobody knows: {error}"
        self._disk = disk
        self._error = error
        self._gaps = gaps
        entries = checkpoints.read_epochs(disk, path_in(parent_of(error.path)))
        self._epochs = EpochHistory(entries)
        self._end = error.end if isinstance(error, MissingRecords) else None
        assert self._end is None or self._end > error.offset, f"an empty hole: {error}"
        self._pieces: list[bytes] = []
        self.next_offset = error.offset
        """Where the next batch has to begin."""
        self.size_bytes = 0

    def add(self, records: Buffer) -> Fit:
        """Whole batches from `next_offset` on. After FOREIGN they are of no use."""
        try:
            for position, header in iter_batches(records):
                if header.next_offset <= self.next_offset:
                    continue  # it begins with the batch that contains the offset
                if not self._belongs(records, position, header):
                    return Fit.FOREIGN
                self._pieces.append(bytes(records[position : position + header.size_bytes]))
                self.size_bytes += header.size_bytes
                self.next_offset = header.next_offset
                if self._fills():
                    return Fit.WHOLE
        except InvalidBatch:
            return Fit.FOREIGN
        return Fit.MORE

    def _belongs(self, records: Buffer, position: int, header: BatchHeader) -> bool:
        return (
            follows(header, self.next_offset, gaps=self._gaps)
            and (self._end is None or header.next_offset <= self._end)
            and header.leader_epoch == self._epochs.epoch_at(header.last_offset)
            and check_crc(records, position, header)
        )

    def _fills(self) -> bool:
        """Does the log go on exactly behind them?"""
        if self._end is not None:
            return self.next_offset == self._end
        file = self._disk.open(self._error.path)
        try:
            behind, size = self._error.position + self.size_bytes, file.size()
            if behind >= size:
                return behind == size
            later = read_header(file.read(behind, HEADER_SIZE))
            return follows(later, self.next_offset, gaps=self._gaps)
        except InvalidBatch:
            return False  # that one is damaged too
        finally:
            file.close()

    @property
    def is_hole(self) -> bool:
        """Then a part from its beginning is worth keeping, too: it leaves a smaller hole."""
        return self._end is not None

    def make_room(self) -> bool:
        """Whether more can be taken: it cannot, a part is put back first."""
        return False

    def prepare(self) -> None:
        """What may take long, on any thread. Nothing that a load would use is touched."""
        if self.is_hole:
            self._write(self._new_path + TEMPORARY_SUFFIX, 0)

    def finish(self) -> None:
        """Durable when it returns; a crash leaves the place lost, as it was."""
        if self.is_hole:
            self._disk.rename(self._new_path + TEMPORARY_SUFFIX, self._new_path)
            self._disk.sync_dir(parent_of(self._new_path))
        else:
            self._write(self._error.path, self._error.position)

    @property
    def _new_path(self) -> str:
        return join(parent_of(self._error.path), file_name(self._error.offset, LOG_SUFFIX))

    def _write(self, path: str, position: int) -> None:
        assert self._pieces, f"nothing to put back into {path}"
        file = self._disk.open(path, create=True)
        try:
            if self.is_hole:
                file.truncate(0)  # an earlier try may have left more
            else:
                assert position + self.size_bytes <= file.size(), f"{path} must not grow"
            file.write(position, self._pieces)
            file.sync()
        finally:
            file.close()
