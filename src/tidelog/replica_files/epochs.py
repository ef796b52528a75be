"""The epoch history of a replica: as its file says, and as its batches go on (ADR 0028)."""

from tidelog.core.replication.epochs import EpochHistory
from tidelog.replica_files.segments import SegmentFile, offset_index, segments_of
from tidelog.replica_files.walking import SegmentWalk, regions_from

Entries = tuple[tuple[int, int], ...]

_TAIL_BYTES = 256 << 10


def complete_epochs(directory: str, stored: Entries, recovery_point: int) -> Entries:
    """The file may lack epochs that began behind the recovery point on disk, as a node that
    starts would learn them. The last batch tells whether it does."""
    segments = segments_of(directory)
    history = EpochHistory(stored)
    try:
        if not segments or _last_epoch(segments) <= history.latest_epoch:
            return stored
        start = max(recovery_point, stored[-1][1]) if stored else 0
        for number, segment in enumerate(segments):
            if number + 1 == len(segments) or segments[number + 1].base_offset > start:
                _learn(segment, start, history)
    except FileNotFoundError:
        return stored  # the replica is on its way out
    return tuple(history.entries)


def _last_epoch(segments: list[SegmentFile]) -> int:
    """Of the last whole batch; -1 if there is none."""
    filled = [segment for segment in segments if segment.size_bytes]
    if not filled:
        return -1
    for position in (offset_index(filled[-1]).last_position(), 0):
        with SegmentWalk(
            filled[-1].path, position=position, check_crc=False, region_bytes=_TAIL_BYTES
        ) as walk:
            epoch = None
            for region in walk.regions():
                epoch = int(region.table.column("leader_epoch")[region.table.rows - 1])
            if epoch is not None:
                return epoch
    return -1


def _learn(segment: SegmentFile, start: int, history: EpochHistory) -> None:
    known, end = len(history.entries), segment.base_offset
    for region in regions_from(segment, start):
        table = region.table
        epochs, base_offsets = table.column("leader_epoch"), table.column("base_offset")
        last_offsets = table.column("last_offset")
        for row in range(table.rows):
            while epochs[row] < history.latest_epoch and len(history.entries) > known:
                history.entries.pop()  # epochs never fall: a damaged batch told of that one
            if last_offsets[row] >= start and epochs[row] > history.latest_epoch:
                history.assign(int(epochs[row]), min(int(base_offsets[row]), max(end, start)))
            end = int(last_offsets[row]) + 1
