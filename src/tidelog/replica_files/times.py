"""What lies at a time, found by the time index."""

from tidelog.replica_files.directory import Replica
from tidelog.replica_files.segments import SegmentFile, segments_of, time_index
from tidelog.replica_files.walking import Region, regions_from
from tidelog.wire.records import InvalidBatch, check_crc, iter_records, read_header

_REGION_BYTES = 256 << 10


def offset_at_time(replica: Replica, timestamp_ms: int, log_start: int) -> int | None:
    """The first record at or behind the log start that is not older; None if all are."""
    segments = segments_of(replica.directory)
    for number, segment in enumerate(segments):
        is_sealed = number + 1 < len(segments)
        if is_sealed and segments[number + 1].base_offset <= log_start:
            continue
        times = time_index(segment)
        newest = times.last()
        if is_sealed and newest is not None and newest[0] < timestamp_ms:
            continue
        first = max(times.offset_for(timestamp_ms), log_start)
        found = _look(segment, first, timestamp_ms, log_start)
        if found is not None:
            return found
    return None


def _look(segment: SegmentFile, first: int, timestamp_ms: int, log_start: int) -> int | None:
    for region in regions_from(segment, first, region_bytes=_REGION_BYTES):
        found = _in_region(region, timestamp_ms, log_start)
        if found is not None:
            return found
    return None


def _in_region(region: Region, timestamp_ms: int, log_start: int) -> int | None:
    table = region.table
    newest, last_offsets = table.column("max_timestamp"), table.column("last_offset")
    for row in range(table.rows):
        if newest[row] < timestamp_ms or last_offsets[row] < log_start:
            continue
        position = table.column("position")[row]
        header = read_header(region.data, position)
        if not check_crc(region.data, position, header):
            return header.base_offset  # whoever reads from here on hears of it
        try:
            for record in iter_records(region.data, position, header):
                if record.timestamp >= timestamp_ms and record.offset >= log_start:
                    return record.offset
        except InvalidBatch:
            return header.base_offset
    return None
