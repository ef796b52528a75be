"""Putting back the beginning of a compacted log that was refused (ADR 0031).

Each broker compacts for itself. So nobody knows batch by batch what was in a hole, and records of
another replica must not be mixed with what our own compaction left behind the hole: where a
tombstone has gone here, the record that it deletes may still be there. Everything below our clean
point is therefore taken from one replica. What we have from there on was never cleaned.

Together they hold the newest record of every key: what the other replica has removed was
superseded by a record that it still has, or by one above the clean point.

The records become one segment, which takes the place of those that it covers as a cleaned segment
does (`swap`). Offsets without a record at its end are covered by an empty batch, so that segments
follow one another. The new segment holds old values beside new ones, so the log counts as not
cleaned from then on. `LogDirectory` notes that before it lets the swap happen.
"""

from tidelog.core.replication.epochs import EpochHistory
from tidelog.host.ports import Buffer, Disk
from tidelog.storage import checkpoints
from tidelog.storage.atomic_file import TEMPORARY_SUFFIX, discard, join, parent_of
from tidelog.storage.epoch_file import path_in
from tidelog.storage.errors import MissingRecords
from tidelog.storage.mending import Fit
from tidelog.storage.scan import fits_segment
from tidelog.storage.segment import INDEX_SUFFIXES, LOG_SUFFIX, file_name
from tidelog.storage.swap import SWAP_SUFFIX, is_log
from tidelog.wire.records import BatchHeader, InvalidBatch, check_crc, encode, iter_batches

LARGEST_SEGMENT_BYTES = (1 << 31) - 1
"""The indexes of a segment cannot express more."""


class PrefixRestoration:
    """The records of one replica for the beginning of one refused log."""

    __slots__ = (
        "_directory",
        "_disk",
        "_end",
        "_epochs",
        "_pieces",
        "_start",
        "_written_bytes",
        "next_offset",
        "size_bytes",
    )

    def __init__(self, disk: Disk, error: MissingRecords, end: int) -> None:
        """Up to `end`, where a segment of ours begins. CorruptFile if the epochs of what was lost
        cannot be known."""
        assert error.offset < error.end <= end, f"{error}, up to {end}"
        self._disk = disk
        self._directory = parent_of(error.path)
        self._start = error.offset
        self._end = end
        self._epochs = EpochHistory(checkpoints.read_epochs(disk, path_in(self._directory)))
        self._pieces: list[bytes] = []
        self._written_bytes = 0
        self.next_offset = error.offset
        """Where the next batch begins, or further on."""
        self.size_bytes = 0
        """Of what is held in memory."""

    def add(self, records: Buffer) -> Fit:
        """Whole batches from `next_offset` on. After FOREIGN they are of no use."""
        try:
            for position, header in iter_batches(records):
                if header.next_offset <= self.next_offset:
                    continue  # it begins with the batch that contains the offset
                if header.base_offset >= self._end:
                    self._cover_the_rest()
                    return Fit.WHOLE
                if not self._belongs(records, position, header):
                    return Fit.FOREIGN
                self._take(bytes(records[position : position + header.size_bytes]))
                self.next_offset = header.next_offset
                if self.next_offset == self._end:
                    return Fit.WHOLE
        except InvalidBatch:
            return Fit.FOREIGN
        return Fit.MORE

    def _belongs(self, records: Buffer, position: int, header: BatchHeader) -> bool:
        return (
            self.next_offset <= header.base_offset
            and header.next_offset <= self._end
            and fits_segment(header, self._start)
            and self._written_bytes + self.size_bytes + header.size_bytes <= LARGEST_SEGMENT_BYTES
            and header.leader_epoch == self._epochs.epoch_at(header.last_offset)
            and check_crc(records, position, header)
        )

    def _take(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.size_bytes += len(piece)

    def _cover_the_rest(self) -> None:
        last = self._end - 1
        batch = encode(
            (),
            base_offset=self.next_offset,
            leader_epoch=self._epochs.epoch_at(last),
            last_offset_delta=last - self.next_offset,
        )
        self._take(bytes(batch))
        self.next_offset = self._end

    @property
    def is_hole(self) -> bool:
        """It is, but a part of it is worth nothing."""
        return False

    def make_room(self) -> bool:
        """Write what is held in memory, on any thread, so that there can be more."""
        self._write(sync=False)
        return True

    def prepare(self) -> None:
        """What may take long, on any thread. Nothing that a load would use is touched."""
        self._write(sync=True)

    def finish(self) -> None:
        """Durable when it returns; the next load puts the segment in its place."""
        for suffix in INDEX_SUFFIXES:  # of the segment that was lost
            discard(self._disk, join(self._directory, file_name(self._start, suffix)))
        self._disk.rename(self._path + TEMPORARY_SUFFIX, self._path + SWAP_SUFFIX)
        self._disk.sync_dir(self._directory)

    @property
    def _path(self) -> str:
        return join(self._directory, file_name(self._start, LOG_SUFFIX))

    def _write(self, *, sync: bool) -> None:
        file = self._disk.open(self._path + TEMPORARY_SUFFIX, create=True)
        try:
            if not self._written_bytes:
                file.truncate(0)  # an earlier try may have left more
            file.write(self._written_bytes, self._pieces)
            if sync:
                file.sync()
        finally:
            file.close()
        self._written_bytes += self.size_bytes
        self._pieces, self.size_bytes = [], 0


def end_of_prefix(disk: Disk, error: MissingRecords, clean_point: int) -> int | None:
    """Where the first segment begins that is behind the hole and was never cleaned; None if there
    is none."""
    least = max(error.end, clean_point)
    return min(
        (base for base in bases_in(disk, parent_of(error.path)) if base >= least), default=None
    )


def restored_base(disk: Disk, directory: str) -> int | None:
    """Of a segment that was put back and is about to take its place. One that was cleaned has the
    former one beside it."""
    suffix = LOG_SUFFIX + SWAP_SUFFIX
    bases = set(bases_in(disk, directory))
    swaps = [
        int(name.removesuffix(suffix)) for name in disk.list(directory) if name.endswith(suffix)
    ]
    return min((base for base in swaps if base not in bases), default=None)


def bases_in(disk: Disk, directory: str) -> list[int]:
    return [int(name.removesuffix(LOG_SUFFIX)) for name in disk.list(directory) if is_log(name)]
