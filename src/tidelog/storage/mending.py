"""Putting back batches whose bytes have changed at rest, from a replica that has them (ADR 0036).

The leader epoch and the offset of a batch name it: every replica that has it has the same bytes,
as long as nobody has compacted them. So what another replica sends for a damaged place is written
over it, if it proves to be that batch (checksum, offset, leader epoch) and if our own intact
batches go on exactly where it ends. Nothing is written before all of that is known. A crash in the
middle leaves a place that is damaged as before.
"""

from contextlib import suppress
from enum import Enum
from typing import NamedTuple

from tidelog.core.types import NO_EPOCH
from tidelog.host.ports import Buffer, Syncing
from tidelog.storage.errors import CorruptSegment
from tidelog.storage.guarded_disk import GuardedFile
from tidelog.storage.log import Log
from tidelog.storage.scan import fits_segment, follows
from tidelog.storage.segment import Segment
from tidelog.wire.records import (
    HEADER_SIZE,
    BatchHeader,
    InvalidBatch,
    check_crc,
    iter_batches,
    read_header,
)

SEARCHED_BYTES = 2 << 20
"""How far behind a damaged batch the next intact one is looked for."""
_PLACES_TRIED = 20_000
_HIGH_BYTES = 5
"""Of a base offset: the same in nearly all batches of a segment, so they are worth looking for."""
_MAGIC_POSITION, _MAGIC = 16, 2


class Damage(NamedTuple):
    """Records that this replica cannot read: offsets from `offset` to below `next_offset`."""

    path: str
    position: int
    offset: int
    next_offset: int
    reason: str

    @property
    def offsets(self) -> str:
        last = self.next_offset - 1
        many = last > self.offset
        return f"offsets {self.offset} to {last}" if many else f"offset {self.offset}"


class Fit(Enum):
    """What the batches that were received are worth."""

    MORE = "more is needed"
    WHOLE = "they fill the damaged place exactly"
    FOREIGN = "they are not what was there, or not of its size"


def damage_of(log: Log, error: CorruptSegment) -> Damage | None:
    """How far it goes. None if the segment is gone, or not part of this log."""
    segment = _segment(log, error.path)
    if segment is None:
        return None
    bad = _bad_batch_before(segment, error.position, error.offset)
    if bad is None:
        position, offset, reason = error.position, error.offset, error.reason
    else:
        (position, offset), reason = bad, "the checksum does not match"
    next_offset = _next_intact(segment, position, offset)
    return Damage(error.path, position, offset, next_offset, reason)


def _bad_batch_before(segment: Segment, position: int, offset: int) -> tuple[int, int] | None:
    """Position and offset of a batch that led a walk astray to this place: its length or its
    number of records has changed, and whoever only looks for a place checks no checksums. None if
    the batches before this place lead there."""
    segment.load_indexes()
    least, leads_here = position - SEARCHED_BYTES, False
    while position > max(least, 0) and not leads_here:
        start = segment.offsets.last_position_within(0, position - 1) or 0
        last = (start, segment.base_offset)
        with suppress(CorruptSegment):
            for batch in segment.batches(start):
                if batch.position >= position:
                    break
                header = batch.header
                if not check_crc(batch.buffer, batch.start, header):
                    known = batch.position == last[0] > start
                    return batch.position, last[1] if known else header.base_offset
                last = (batch.position + header.size_bytes, header.next_offset)
        # If not, it was led astray in front of them: there is no knowing how far.
        leads_here = last == (position, offset)
        position, offset = start, -1
    return None


def is_damaged(log: Log, damage: Damage) -> bool:
    """Still: somebody else may have put the bytes back, or they were read wrongly. False if that
    part of the log is gone."""
    segment = _segment(log, damage.path)
    if (
        segment is None
        or segment.size <= damage.position
        or log.log_start_offset >= damage.next_offset
        or log.log_end_offset <= damage.offset
    ):
        return False
    return not _is_intact_at(log, segment, damage.position, damage.offset)


def _is_intact_at(log: Log, segment: Segment, position: int, next_offset: int) -> bool:
    """Is there a whole batch that continues the log from this offset?"""
    left = segment.size - position
    header = _header(segment.file.read(position, min(HEADER_SIZE, left)), 0)
    if header is None or header.size_bytes > left:
        return False
    if not is_next(log, segment, header, next_offset):
        return False
    return check_crc(segment.file.read(position, header.size_bytes), 0, header)


def is_next(log: Log, segment: Segment, header: BatchHeader, next_offset: int) -> bool:
    """The batch that was appended there once, by everything that its header says."""
    epoch = log.epochs.epoch_at(header.last_offset)
    return follows(header, next_offset, gaps=segment.gaps) and epoch in (
        header.leader_epoch,
        NO_EPOCH,
    )


def _segment(log: Log, path: str) -> Segment | None:
    return next((each for each in log.segments if each.path == path), None)


def _next_intact(segment: Segment, position: int, offset: int) -> int:
    """The base offset of the first batch behind the damage that can be read, as far as we look;
    the end of the segment if there is none."""
    data = segment.file.read(position, min(SEARCHED_BYTES, segment.size - position))
    damaged = _header(data, 0)
    if damaged is not None and _is_later(segment, data, damaged.size_bytes, offset):
        return read_header(data, damaged.size_bytes).base_offset
    prefix = offset.to_bytes(8, "big")[:_HIGH_BYTES]
    place = 0  # its length is damaged too
    for _ in range(_PLACES_TRIED):
        place = data.find(prefix, place + 1)
        if place < 0:
            break
        if _is_later(segment, data, place, offset):
            return read_header(data, place).base_offset
    return segment.next_offset


def _is_later(segment: Segment, data: bytes, place: int, offset: int) -> bool:
    """Is there an intact batch with a later offset at this place?"""
    header = _header(data, place)
    return (
        header is not None
        and offset < header.base_offset < segment.next_offset
        and fits_segment(header, segment.base_offset)
        and place + header.size_bytes <= len(data)
        and check_crc(data, place, header)
    )


def _header(data: Buffer, position: int) -> BatchHeader | None:
    magic = data[position + _MAGIC_POSITION : position + _MAGIC_POSITION + 1]
    if magic != bytes((_MAGIC,)):
        return None
    try:
        return read_header(data, position)
    except InvalidBatch:
        return None


class Patch:
    """Collects batches for one damaged place until they fill it."""

    __slots__ = (
        "_end",
        "_limit",
        "_log",
        "_pieces",
        "_position",
        "_segment",
        "_start",
        "next_offset",
    )

    def __init__(self, log: Log, damage: Damage, *, committed_offset: int) -> None:
        """Only what is committed is the same everywhere."""
        self._log = log
        self._segment = _segment(log, damage.path)
        self._limit = committed_offset
        self._end = damage.next_offset
        self._start = self._position = damage.position
        self.next_offset = damage.offset
        """Where the next batch has to begin."""
        self._pieces: list[bytes] = []

    @property
    def count(self) -> int:
        return len(self._pieces)

    def add(self, records: Buffer) -> Fit:
        """Whole batches from `next_offset` on. After FOREIGN the patch is of no use."""
        if self._segment is None:
            return Fit.FOREIGN
        try:
            for position, header in iter_batches(records):
                if header.next_offset <= self.next_offset:
                    continue  # it begins with the batch that contains the offset
                if not self._belongs(self._segment, records, position, header):
                    return Fit.FOREIGN
                self._pieces.append(bytes(records[position : position + header.size_bytes]))
                self._position += header.size_bytes
                self.next_offset = header.next_offset
                if self._goes_on(self._segment):
                    return Fit.WHOLE
                if self.next_offset >= self._end:
                    return Fit.FOREIGN  # what is intact here begins at another place
        except InvalidBatch:
            return Fit.FOREIGN
        return Fit.MORE

    def _belongs(
        self, segment: Segment, records: Buffer, position: int, header: BatchHeader
    ) -> bool:
        return (
            is_next(self._log, segment, header, self.next_offset)
            and header.last_offset < self._limit
            and self._position + header.size_bytes <= segment.size
            and header.next_offset <= segment.next_offset
            and check_crc(records, position, header)
        )

    def _goes_on(self, segment: Segment) -> bool:
        """Is what we have behind the patch intact, and does it continue it?"""
        if self._position == segment.size:
            return self.next_offset == segment.next_offset
        return _is_intact_at(self._log, segment, self._position, self.next_offset)

    def write(self) -> "Written":
        """Put it in its place. It counts when it is synced, which may be done on a thread."""
        segment = self._segment
        assert segment is not None, "a patch without a segment fits nowhere"
        segment.file.write(self._start, self._pieces)
        return Written(segment.file.start_sync(), segment)


def opened_again(segment: Segment) -> GuardedFile:
    """The file of a segment, for a reader that does not run on the event loop."""
    return _guarded(segment).open_again()


def _guarded(segment: Segment) -> GuardedFile:
    file = segment.file
    assert isinstance(file, GuardedFile), file
    return file


class Written(NamedTuple):
    """A patch in its place: run `syncing`, then `end`."""

    syncing: Syncing
    segment: Segment

    def end(self, error: OSError | None) -> None:
        """DirectoryOffline if the sync failed."""
        _guarded(self.segment).sync_ended(error)
        if self._index_is_cut():
            self.segment.rebuild_indexes()

    def _index_is_cut(self) -> bool:
        """A read that met a damaged header has kept the index only up to there."""
        segment = self.segment
        return segment.size - segment.offsets.last_position() > (
            16 * max(segment.config.index_interval_bytes, 1 << 16)
        )
