"""Batches that come from elsewhere, looked at before a log takes them."""

from collections.abc import Iterator, Sequence

from tidelog.host.ports import Buffer
from tidelog.storage.errors import BatchLargerThanSegment, UnexpectedAppend
from tidelog.storage.scan import follows
from tidelog.storage.segment import Segment
from tidelog.wire.records import BatchHeader, InvalidBatch, check_crc, read_header, stamp
from tidelog.wire.records.run import BatchRun

Piece = tuple[Buffer, BatchHeader]


def pieces_for(
    batches: Sequence[Buffer], headers: Sequence[BatchHeader] | None, segment_bytes: int
) -> list[Piece]:
    """As they were read, if they were; a run that no segment can take is taken apart."""
    if headers is None or any(
        header.size_bytes > segment_bytes for header in headers if isinstance(header, BatchRun)
    ):
        return pieces_of(batches)
    return list(zip(batches, headers, strict=True))


def pieces_of(batches: Sequence[Buffer]) -> list[Piece]:
    """One piece per batch; UnexpectedAppend unless all are whole."""
    pieces: list[Piece] = []
    for run in batches:
        view = memoryview(run)
        position = 0
        while position < len(view):
            try:
                header = read_header(view, position)
            except InvalidBatch as error:
                raise UnexpectedAppend(f"not a batch: {error}") from error
            end = position + header.size_bytes
            pieces.append((view[position:end], header))
            position = end
    return pieces


def inspect(pieces: Sequence[Piece], *, gaps: bool) -> None:
    """UnexpectedAppend unless all are intact and in order. A run was checked when it was read."""
    next_offset = None
    for data, header in pieces:
        try:
            if not isinstance(header, BatchRun) and not check_crc(data, 0, header):
                raise UnexpectedAppend(f"bad checksum at {header.base_offset}")
        except InvalidBatch as error:
            raise UnexpectedAppend(f"not a batch: {error}") from error
        if header.base_offset != next_offset and not follows(header, next_offset, gaps=gaps):
            raise UnexpectedAppend(f"{header.base_offset} where {next_offset} belongs")
        if header.leader_epoch < 0:
            raise UnexpectedAppend(f"no leader epoch at {header.base_offset}")
        next_offset = header.base_offset + header.last_offset_delta + 1


def is_next_run(headers: Sequence[BatchHeader], segment: Segment) -> bool:
    """One run that goes on where this segment ends, and may go into it or the next one as it is:
    what `inspect` would look at was looked at when the run was read."""
    first = headers[0] if len(headers) == 1 else None
    return (
        isinstance(first, BatchRun)
        and first.base_offset == segment.next_offset
        and first.size_bytes <= segment.config.segment_bytes
    )


def runs(
    pieces: Sequence[Piece], size_bytes: int, segment_bytes: int
) -> Iterator[tuple[list[Buffer], list[BatchHeader]]]:
    """Pieces that go into a segment together; the first ones behind the `size_bytes` of the one
    that is appended to, if they fit there."""
    datas: list[Buffer] = []
    headers: list[BatchHeader] = []
    for data, header in pieces:
        if size_bytes + len(data) > segment_bytes:
            if headers:
                yield datas, headers
            datas, headers, size_bytes = [], [], 0
        datas.append(data)
        headers.append(header)
        size_bytes += len(data)
    yield datas, headers


def offsets_in(pieces: Sequence[Piece]) -> int:
    return sum(header.last_offset_delta + 1 for _, header in pieces)


def stamped(
    batches: Sequence[Buffer], base_offset: int, leader_epoch: int, segment_bytes: int
) -> tuple[list[Buffer], list[BatchHeader]]:
    """Batches as they follow one another from this offset on, changed in place if they can be.
    BatchLargerThanSegment unless a segment can take all of them."""
    size_bytes = sum(map(len, batches))
    if size_bytes > segment_bytes:
        raise BatchLargerThanSegment(
            f"{size_bytes} bytes do not fit in a segment of {segment_bytes}"
        )
    datas: list[Buffer] = []
    headers: list[BatchHeader] = []
    for batch in batches:
        data = writable(batch)
        stamp(data, 0, base_offset=base_offset, leader_epoch=leader_epoch)
        header = read_header(data)
        assert header.size_bytes == len(data), f"{header.size_bytes} of {len(data)} bytes"
        datas.append(data)
        headers.append(header)
        base_offset = header.next_offset
    return datas, headers


def writable(batch: Buffer) -> bytearray | memoryview:
    """The batch itself if it may be stamped in place, else a copy."""
    if isinstance(batch, bytearray) or (isinstance(batch, memoryview) and not batch.readonly):
        return batch
    return bytearray(batch)
