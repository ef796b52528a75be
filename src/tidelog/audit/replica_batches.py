"""What a replica holds, batch by batch, from the headers of its segment files.

Every batch is walked over and its checksum is computed; records are not looked at. Where a file
holds no batch any more, the walk goes on at the next place that the index knows.
"""

from array import array
from collections.abc import Callable
from typing import Final, NamedTuple

from tidelog.replica_files import (
    Region,
    Replica,
    SegmentFile,
    SegmentWalk,
    Stopped,
    missing_at_start,
    resume_after,
    segments_of,
)

COLUMNS: Final = (
    "base_offset",
    "last_offset",
    "leader_epoch",
    "crc",
    "size_bytes",
    "crc_ok",
    "segment",
    "position",
)
"""`segment` is the base offset of the file, `position` the byte in it."""
NEVER: Final = (1 << 63) - 1

Numbers = dict[str, "array[int]"]
TellBytes = Callable[[int], None]


class Unreadable(NamedTuple):
    """From here on a file holds no batch."""

    offset: int
    """Which one would have to follow."""
    segment: int
    position: int


class Standing(NamedTuple):
    """What is known of a replica beside its batches."""

    high_watermark: int = 0
    """As it has checkpointed it: it had everything below."""
    shared_end: int = NEVER
    """Up to where its epoch history agrees with that of the leader."""
    in_sync: bool = False
    """As the cluster said after the high watermark was asked for: it has everything below that."""
    has_gaps: bool = False
    """Compaction may have taken offsets away."""


class ReplicaBatches(NamedTuple):
    """One replica, for a comparison."""

    node_id: int
    numbers: Numbers
    unreadable: tuple[Unreadable, ...] = ()
    start: int = 0
    """Where its first segment begins."""
    standing: Standing = Standing()
    bytes_read: int = 0
    missing_start: tuple[int, int] | None = None
    """Offsets, the last one excluded, that its files should hold and do not."""

    @property
    def rows(self) -> int:
        return len(self.numbers["base_offset"])


def no_numbers() -> Numbers:
    return {name: array("q") for name in COLUMNS}


def scan_replica(
    replica: Replica,
    *,
    end: int = NEVER,
    standing: Standing | None = None,
    tell: TellBytes | None = None,
) -> ReplicaBatches:
    """Everything up to the batch with the offset `end`."""
    bytes_read = 0
    while True:
        scan = _Scan(end, tell)
        try:
            start = scan.run(segments_of(replica.directory))
        except FileNotFoundError:
            bytes_read += scan.bytes_read
            continue  # retention or compaction took a file: what is there now counts
        return ReplicaBatches(
            replica.node_id,
            scan.numbers,
            tuple(scan.unreadable),
            max(start, replica.log_start),
            standing or Standing(replica.high_watermark, has_gaps=replica.has_gaps),
            bytes_read + scan.bytes_read,
            missing_at_start(replica),
        )


class _Scan:
    """One pass over the files of a replica."""

    __slots__ = ("_end", "_tell", "bytes_read", "numbers", "unreadable")

    def __init__(self, end: int, tell: TellBytes | None) -> None:
        self._end = end
        self._tell = tell
        self.numbers = no_numbers()
        self.unreadable: list[Unreadable] = []
        self.bytes_read = 0

    def run(self, segments: list[SegmentFile]) -> int:
        for segment in segments:
            if segment.base_offset >= self._end:
                break
            self._segment(segment)
        return segments[0].base_offset if segments else 0

    def _segment(self, segment: SegmentFile) -> None:
        position: int | None = 0
        while position is not None:
            with SegmentWalk(segment.path, position=position) as walk:
                for region in walk.regions():
                    self._note(region, segment)
                    if self.numbers["base_offset"][-1] >= self._end:
                        break
                self.bytes_read += walk.bytes_read
            if walk.stopped is Stopped.END:
                return
            follows = self.numbers["last_offset"][-1] + 1 if self.numbers["crc"] else 0
            offset = max(segment.base_offset, follows)
            self.unreadable.append(Unreadable(offset, segment.base_offset, walk.position))
            position = resume_after(segment, walk.position)

    def _note(self, region: Region, segment: SegmentFile) -> None:
        table, numbers = region.table, self.numbers
        for name in COLUMNS[:6]:
            numbers[name].frombytes(table.column_bytes(name))
        numbers["segment"].extend(array("q", [segment.base_offset]) * table.rows)
        begin = region.position
        numbers["position"].extend([begin + each for each in table.column("position")])
        if self._tell is not None:
            self._tell(len(region.data))
