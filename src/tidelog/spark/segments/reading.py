"""What a task of Spark's does to read records from segment files.

A task knows offsets and a directory, not files: retention and compaction may take files away
between the plan and the read. Every batch must match its checksum, continue the one before it,
and have the leader epoch that the history says; the rest of a replica cannot be believed.
"""

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tidelog.replica_files import (
    CorruptFile,
    Region,
    SegmentFile,
    SegmentWalk,
    Stopped,
    aborted_transactions,
    offset_index,
    segments_of,
)
from tidelog.spark.failure import DataLoss, TidelogError
from tidelog.spark.segments.ranges import SegmentRange, SegmentsPlan
from tidelog.wire.arrow import AbortedRange, BatchTable, Selection, decode_columns
from tidelog.wire.records import InvalidBatch

LOGGER = logging.getLogger("tidelog.spark")

AUDIT = "compare it with the other replicas by `tidelog audit replicas`"
ACCEPT_LOSS = "set failOnDataLoss=false to go on with what is there"
_MOST_LISTINGS = 5


class Reads:
    """How much was read to get the rows."""

    __slots__ = ("bytes_read", "segments")

    def __init__(self) -> None:
        self.bytes_read = 0
        self.segments = 0


def read_segments(
    ranges: Sequence[SegmentRange], plan: SegmentsPlan, reads: Reads | None = None
) -> Iterator[pa.RecordBatch]:
    """The records of these ranges in order, in pieces of about 2 MiB.

    TidelogError says what could not be read; DataLoss if it is not there any more.
    """
    counts = Reads() if reads is None else reads
    for each in ranges:
        if each.size > 0:
            yield from _read_range(each, plan, counts)


def _read_range(wanted: SegmentRange, plan: SegmentsPlan, reads: Reads) -> Iterator[pa.RecordBatch]:
    """From the first replica, and where that cannot be believed, from another one."""
    first_trouble: TidelogError | None = None
    for replica in (wanted.replica, *wanted.others):
        is_last = replica is (wanted.others or (wanted.replica,))[-1]
        lenient = plan if is_last else plan._replace(fail_on_data_loss=True)
        reading = _Reading(wanted._replace(replica=replica), lenient, reads)
        try:
            yield from reading.pieces()
        except (_Damaged, DataLoss) as error:
            first_trouble = first_trouble or error
            if is_last:
                raise first_trouble from error
            LOGGER.warning("%s; another replica is read instead", error)
            wanted = wanted._replace(start=reading.next_offset)
        else:
            return


class _Damaged(TidelogError):  # noqa: N818 - it names what is so
    """Bytes that are not what was once appended."""


class _Reading:
    """One pass over one range."""

    __slots__ = ("_aborted", "_epochs", "_expected", "_plan", "_range", "_reads", "next_offset")

    def __init__(self, wanted: SegmentRange, plan: SegmentsPlan, reads: Reads) -> None:
        self._range = wanted
        self._plan = plan
        self._reads = reads
        self.next_offset = wanted.start
        """The offset to read next."""
        self._expected: int | None = None
        """The offset that the next batch must begin with; the first one may begin anywhere."""
        self._aborted: tuple[AbortedRange, ...] = ()
        starts = [start for _, start in wanted.epochs]
        self._epochs = (np.array([epoch for epoch, _ in wanted.epochs]), np.array(starts))

    def pieces(self) -> Iterator[pa.RecordBatch]:
        segments = self._listed()
        while self.next_offset < self._range.end and segments:
            segment = segments.pop(0)
            if segments and segments[0].base_offset <= self.next_offset:
                continue
            try:
                walk = self._opened(segment)
            except FileNotFoundError:
                segments = self._listed()
                continue
            with walk:
                yield from self._walk(walk, segment, is_last=not segments)
        if self.next_offset < self._range.end:
            self._lose(self._range.end, f"and the log ends at {self.next_offset}")

    def _listed(self) -> list[SegmentFile]:
        """From the segment with the next offset on. Again after one could not be opened."""
        trouble: CorruptFile | None = None
        for _ in range(_MOST_LISTINGS):
            segments = segments_of(self._range.replica.directory)
            if not segments:
                self._lose(self._range.end, "and there is nothing any more")
                return []
            if segments[0].base_offset > self.next_offset:
                first = min(segments[0].base_offset, self._range.end)
                self._lose(first, f"and the log starts at {segments[0].base_offset} now")
            try:
                self._aborted = self._aborted_in(segments)
            except CorruptFile as error:
                trouble = error  # or it was being written just then
                continue
            return segments
        raise TidelogError(f"{self._where}: {trouble}", AUDIT)

    def _opened(self, segment: SegmentFile) -> SegmentWalk:
        index = offset_index(segment)
        position = index.position_for(self.next_offset)
        walk = SegmentWalk(segment.path, position=position, region_bytes=self._plan.region_bytes)
        self._reads.segments += 1
        return walk

    def _walk(
        self, walk: SegmentWalk, segment: SegmentFile, *, is_last: bool
    ) -> Iterator[pa.RecordBatch]:
        hint = offset_index(segment).position_behind(self._range.end)
        began = walk.position
        try:
            for region in walk.regions(hint):
                if began and region.position == began and not self._fits(region):
                    walk.position, self._expected = 0, None  # not the index of this segment
                    yield from self._walk(walk, segment, is_last=is_last)
                    return
                yield from self._decoded(region, segment)
                if self.next_offset >= self._range.end:
                    return
        finally:
            self._reads.bytes_read += walk.bytes_read
            walk.bytes_read = 0
        if began and walk.position == began and walk.stopped is not Stopped.END:
            walk.position, self._expected = 0, None
            yield from self._walk(walk, segment, is_last=is_last)
            return
        if walk.stopped is Stopped.GARBAGE or (walk.stopped is Stopped.TORN and not is_last):
            self._damaged(f"{segment.path} holds no batch at byte {walk.position}")

    def _fits(self, region: Region) -> bool:
        first = region.table.column("base_offset")[0]
        return bool(first <= self.next_offset) and region.table.column("crc_ok")[0] == 1

    def _decoded(self, region: Region, segment: SegmentFile) -> Iterator[pa.RecordBatch]:
        table = region.table
        self._check(table, segment, region.position)
        replica, values, columns = self._range.replica, self._plan.values, self._plan.columns
        selection = Selection(
            replica.topic,
            replica.partition,
            columns if values is None else values.raw_columns(columns),
            from_offset=self.next_offset,
            to_offset=self._range.end,
            aborted=self._aborted,
        )
        try:
            for piece in decode_columns(region.data, table, selection):
                yield piece if values is None else values.made(piece, columns, replica.name)
        except InvalidBatch as error:
            what = f"{self._where} from offset {self.next_offset}: {segment.path}: {error}"
            raise TidelogError(what, AUDIT) from error
        self.next_offset = max(self.next_offset, table.column("last_offset")[table.rows - 1] + 1)

    def _check(self, table: BatchTable, segment: SegmentFile, position: int) -> None:
        """Checksums match; offsets continue and epochs are those of the history, which both lie
        outside the checksum. Nothing of a region is given away before all of it is known."""
        base = np.frombuffer(table.column_bytes("base_offset"), np.int64)
        last = np.frombuffer(table.column_bytes("last_offset"), np.int64)
        epoch = np.frombuffer(table.column_bytes("leader_epoch"), np.int64)
        wanted = base < self._range.end
        steps = base[1:] - last[:-1] - 1
        bad = np.zeros(len(base), bool)
        bad[1:] = (steps < 0) if self._range.replica.has_gaps else (steps != 0)
        if self._expected is not None:
            step = base[0] - self._expected
            bad[0] = step < 0 if self._range.replica.has_gaps else step != 0
        self._expected = int(last[-1]) + 1
        epochs, starts = self._epochs
        if len(epochs):
            place = np.searchsorted(starts, last, side="right") - 1
            bad |= (place >= 0) & (epochs[place] != epoch)
        wrong = np.frombuffer(table.column_bytes("crc_ok"), np.int64) != 1
        bad = (bad | wrong) & wanted & (last >= self.next_offset)
        if bad.any():
            row = int(bad.argmax())
            at = position + table.column("position")[row]
            what = "its checksum is wrong" if wrong[row] else "it does not continue the log"
            self._damaged(
                f"{segment.path} has at byte {at} offset {base[row]} of leader epoch {epoch[row]},"
                f" and {what}"
            )

    def _aborted_in(self, segments: list[SegmentFile]) -> tuple[AbortedRange, ...]:
        if not self._plan.committed:
            return ()
        found = aborted_transactions(segments, self.next_offset, self._range.end)
        return tuple(
            AbortedRange(each.producer_id, each.first_offset, each.last_offset) for each in found
        )

    @property
    def _where(self) -> str:
        replica = self._range.replica
        return f"{replica.name} of broker {replica.node_id}"

    def _damaged(self, what: str) -> None:
        raise _Damaged(f"{self._where} from offset {self.next_offset}: {what}", AUDIT)

    def _lose(self, end: int, why: str) -> None:
        """Go on at `end`, if it was said that this is fine."""
        what = f"offsets {self.next_offset} to {end - 1} of {self._where} were to be read, {why}"
        if self._plan.fail_on_data_loss:
            raise DataLoss(what, ACCEPT_LOSS)
        LOGGER.warning("%s; it was said that this is fine", what)
        self.next_offset, self._expected = end, None
