"""Batches that come from elsewhere, looked at before a log takes them."""

from collections.abc import Sequence

from tidelog.host.ports import Buffer
from tidelog.storage.errors import UnexpectedAppend
from tidelog.storage.scan import follows
from tidelog.wire.records import BatchHeader, InvalidBatch, check_crc, read_header


def inspect(batches: Sequence[Buffer], *, gaps: bool) -> list[tuple[Buffer, BatchHeader]]:
    """One piece per batch; UnexpectedAppend unless all are whole, intact and in order."""
    pieces: list[tuple[Buffer, BatchHeader]] = []
    for run in batches:
        view = memoryview(run)
        position = 0
        while position < len(view):
            try:
                header = read_header(view, position)
                if not check_crc(view, position, header):
                    raise UnexpectedAppend(f"bad checksum at {header.base_offset}")
            except InvalidBatch as error:
                raise UnexpectedAppend(f"not a batch: {error}") from error
            if pieces and not follows(header, pieces[-1][1].next_offset, gaps=gaps):
                raise UnexpectedAppend(f"{header.base_offset} follows {pieces[-1][1].last_offset}")
            if header.leader_epoch < 0:
                raise UnexpectedAppend(f"no leader epoch at {header.base_offset}")
            end = position + header.size_bytes
            pieces.append((view[position:end], header))
            position = end
    return pieces


def offsets_in(pieces: Sequence[tuple[Buffer, BatchHeader]]) -> int:
    return sum(header.last_offset_delta + 1 for _, header in pieces)


def writable(batch: Buffer) -> bytearray | memoryview:
    """The batch itself if it may be stamped in place, else a copy."""
    if isinstance(batch, bytearray) or (isinstance(batch, memoryview) and not batch.readonly):
        return batch
    return bytearray(batch)
