"""How far a replica reaches, and how far it may be believed."""

from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.replication.producers import ProducerStates
from tidelog.replica_files.directory import Replica
from tidelog.replica_files.read_only_disk import ReadOnlyDisk
from tidelog.replica_files.segments import SegmentFile, offset_index, segments_of
from tidelog.replica_files.walking import Region, SegmentWalk, regions_from
from tidelog.storage.errors import CorruptFile
from tidelog.storage.producer_replay import follow_batch, is_snapshot
from tidelog.storage.producer_snapshots import SUFFIX, read_snapshot
from tidelog.wire.records import read_header

_TRANSACTIONAL_BIT = 0x10
_TAIL_BYTES = 256 << 10


def log_end(segments: list[SegmentFile]) -> int:
    """The offset after the last whole batch; 0 for a replica without segments."""
    if not segments:
        return 0
    last = segments[-1]
    for position in (offset_index(last).last_position(), 0):
        end = _end_from(last, position)
        if end is not None:
            return end
    return last.base_offset


def _end_from(segment: SegmentFile, position: int) -> int | None:
    """None if no batch begins at this position: then the index is not one of this segment."""
    end = None
    with SegmentWalk(
        segment.path, position=position, check_crc=False, region_bytes=_TAIL_BYTES
    ) as walk:
        for region in walk.regions():
            end = region.table.column("last_offset")[region.table.rows - 1] + 1
    return end


def shared_end(ours: Replica, our_end: int, theirs: Replica, their_end: int) -> int:
    """The offset up to which two replicas have the same records, by their epoch histories: where
    an epoch ends earlier in one of them, they have parted there (KIP-101, KIP-279)."""
    if not ours.epochs or not theirs.epochs:
        return min(our_end, their_end)
    history = EpochHistory(theirs.epochs)
    end = our_end
    for epoch, start in reversed(ours.epochs):
        found = history.end_offset_for(epoch, their_end)
        if found.leader_epoch == epoch:
            return min(end, found.end_offset)
        end = min(end, start)  # theirs knows nothing of this epoch, or is past it
    return end


def last_stable_offset(replica: Replica, high_watermark: int) -> int:
    """Below it every transaction has ended, by what this replica holds below the high watermark.

    From the newest producer snapshot at or below it, then batch by batch.
    """
    producers = ProducerStates()
    start = _load_snapshot(replica, high_watermark, producers)
    segments = segments_of(replica.directory)
    reached = max(start, segments[0].base_offset) if segments else 0
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else None
        if following is not None and following <= start:
            continue
        if segment.base_offset >= high_watermark:
            break
        for region in regions_from(segment, start):
            reached = max(reached, region.table.column("last_offset")[region.table.rows - 1] + 1)
            if not _follow(region, producers, start, high_watermark):
                break
        if following is not None and reached < following:
            break  # damaged: what comes behind it decides about nothing
    unstable = producers.first_unstable_offset(high_watermark)
    ends = [high_watermark, reached, *([] if unstable is None else [unstable])]
    return min(ends)


def _load_snapshot(replica: Replica, high_watermark: int, producers: ProducerStates) -> int:
    disk = ReadOnlyDisk(replica.directory)
    names = [name for name in disk.list("") if is_snapshot(name)]
    for name in sorted(names, reverse=True):
        offset = int(name.removesuffix(SUFFIX))
        if offset > high_watermark:
            continue
        try:
            producers.load(read_snapshot(disk, name))
        except CorruptFile:
            continue  # an older one, or the log itself
        return offset
    return 0


def _follow(region: Region, producers: ProducerStates, start: int, end: int) -> bool:
    """Transactions of these batches; False when the end was reached."""
    table = region.table
    base_offsets, attributes = table.column("base_offset"), table.column("attributes")
    positions = table.column("position")
    for row in range(table.rows):
        if base_offsets[row] >= end:
            return False
        if attributes[row] & _TRANSACTIONAL_BIT and base_offsets[row] >= start:
            position = positions[row]
            follow_batch(producers, read_header(region.data, position), region.data, position)
    return True
