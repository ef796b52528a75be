"""The four codecs of Kafka. Every one decompresses as a stream that stops at a limit.

A hostile client can make 1 MB stand for 4 GB. So nothing here asks a library for "all of
it": each call can only produce a bounded piece, and the sizes that peers declare are
checked before memory is taken for them (reliability.md §2.4).
"""

import struct
import threading
import zlib
from collections.abc import Callable
from typing import Final

import cramjam
import lz4.frame
import zstandard

from tidelog.wire.records.errors import BatchTooLarge, InvalidRecord, UnsupportedCodec
from tidelog.wire.records.header import Buffer

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

CODEC_NAMES: Final = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

_PIECE_BYTES = 256 * 1024
_LEAST_PIECE_BYTES = 16 * 1024
_LIKELY_RATIO = 4
_GZIP_PIECE_BYTES = 4 * 1024 * 1024
_GZIP_FRAMING = 31  # zlib's window bits 15, plus 16 for the gzip header and trailer
_ZSTD_WINDOW_LIMIT = 1 << 27
"""What zstd itself accepts by default: level 22 of an honest client asks for exactly this."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_SNAPPY_COPY_BYTES = 64
_SNAPPY_COPY_COST_BYTES = 3
_BLOCK_LENGTH = struct.Struct(">i")

_of_thread = threading.local()


def compress(codec: int, data: Buffer) -> bytes:
    """The data as every Kafka client can read it; UnsupportedCodec if there is no such codec."""
    compressor = _COMPRESSORS.get(codec)
    if compressor is None:
        raise UnsupportedCodec(f"there is no compression codec {codec}")
    return compressor(data)


def decompress(codec: int, data: Buffer, limit_bytes: int) -> bytes:
    """The plain data, at most `limit_bytes` of it; BatchTooLarge as soon as it is more."""
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise UnsupportedCodec(f"there is no compression codec {codec}")
    return decompressor(data, limit_bytes)


def _too_large(codec: int, limit_bytes: int) -> BatchTooLarge:
    return BatchTooLarge(
        f"{CODEC_NAMES[codec]} records decompress to more than {limit_bytes} bytes"
    )


def _broken(codec: int, cause: object) -> InvalidRecord:
    return InvalidRecord(f"the records are not valid {CODEC_NAMES[codec]}: {cause}")


def _copy(data: Buffer) -> bytes:
    return bytes(data)


def _copy_within_limit(data: Buffer, limit_bytes: int) -> bytes:
    if len(data) > limit_bytes:
        raise _too_large(NONE, limit_bytes)
    return bytes(data)


def _gzip_compress(data: Buffer) -> bytes:
    compressor = zlib.compressobj(wbits=_GZIP_FRAMING)
    return compressor.compress(data) + compressor.flush()


def _gzip_decompress(data: Buffer, limit_bytes: int) -> bytes:
    # In pieces, because zlib joins its output at the end: that would take twice the memory. One
    # member only: no client writes several, and a thousand empty ones would cost us time.
    decompressor = zlib.decompressobj(wbits=_GZIP_FRAMING)
    piece_bytes = min(_GZIP_PIECE_BYTES, limit_bytes + 1)
    plain = bytearray()
    left: Buffer = data
    try:
        while piece := decompressor.decompress(left, piece_bytes):
            plain += piece
            if len(plain) > limit_bytes:
                raise _too_large(GZIP, limit_bytes)
            left = decompressor.unconsumed_tail
    except zlib.error as error:
        raise _broken(GZIP, error) from None
    if not decompressor.eof:
        raise _broken(GZIP, "the stream ends too early")
    if decompressor.unused_data:
        raise _broken(GZIP, f"{len(decompressor.unused_data)} bytes follow the stream")
    return bytes(plain)


def _snappy_compress(data: Buffer) -> bytes:
    """In the block framing of xerial, Java's library: librdkafka reads it as well.

    Java reads raw snappy only through a fallback, so raw is what others may send to us and
    never what we write.
    """
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_BLOCK_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _snappy_decompress(data: Buffer, limit_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return bytes(_snappy_block(view, limit_bytes, limit_bytes))
    # Version and compatibility follow the magic. Their byte order differs between writers
    # and there has only ever been one version, so they are skipped unread.
    position = len(_XERIAL_HEADER)
    size = len(view)
    if size < position:
        raise _broken(SNAPPY, "the xerial header is cut short")
    plain = bytearray()
    while position < size:
        if size - position < _BLOCK_LENGTH.size:
            raise _broken(SNAPPY, "a block length is cut short")
        (length,) = _BLOCK_LENGTH.unpack_from(view, position)
        position += _BLOCK_LENGTH.size
        if length <= 0 or length > size - position:  # even nothing takes one byte
            raise _broken(SNAPPY, f"block of {length} bytes, {size - position} are left")
        block = view[position : position + length]
        plain += _snappy_block(block, limit_bytes - len(plain), limit_bytes)
        position += length
    return bytes(plain)


def _snappy_block(block: memoryview, left_bytes: int, limit_bytes: int) -> bytearray:
    """One raw block. It declares its size in front: believe it only if it is possible.

    No element of the format makes more than 64 bytes out of 3.
    """
    try:
        declared: int = cramjam.snappy.decompress_raw_len(block)
        if declared > left_bytes:
            raise _too_large(SNAPPY, limit_bytes)
        if declared * _SNAPPY_COPY_COST_BYTES > len(block) * _SNAPPY_COPY_BYTES:
            raise _broken(SNAPPY, f"{len(block)} bytes cannot stand for {declared}")
        plain = bytearray(declared)
        # The library cannot write into an empty buffer, and there is nothing to write.
        if declared > 0 and cramjam.snappy.decompress_raw_into(block, plain) != declared:
            raise _broken(SNAPPY, f"less than the declared {declared} bytes")
    except cramjam.DecompressionError as error:
        raise _broken(SNAPPY, error) from None
    return plain


def _lz4_compress(data: Buffer) -> bytes:
    # KIP-57: Java reads independent blocks only, and 64 KiB is what its own writer uses.
    compressed: bytes = lz4.frame.compress(
        data,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        content_checksum=False,
        store_size=False,
    )
    return compressed


def _lz4_decompress(data: Buffer, limit_bytes: int) -> bytes:
    # The library takes memory for the most it may put out, so small records ask for little.
    piece_bytes = min(_PIECE_BYTES, max(_LEAST_PIECE_BYTES, _LIKELY_RATIO * len(data)))
    context = lz4.frame.create_decompression_context()
    view = memoryview(data)
    position = 0
    parts: list[bytes] = []
    size_bytes = 0
    finished = False
    while not finished:
        try:
            output, used, finished = lz4.frame.decompress_chunk(
                context, view[position:], max_length=piece_bytes
            )
        except RuntimeError as error:
            raise _broken(LZ4, error) from None
        if not (used or output or finished):
            raise _broken(LZ4, "the frame ends too early")
        position += used
        size_bytes += len(output)
        if size_bytes > limit_bytes:
            raise _too_large(LZ4, limit_bytes)
        parts.append(output)
    if position < len(view):
        raise _broken(LZ4, f"{len(view) - position} bytes follow the frame")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _zstd_compress(data: Buffer) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def _zstd_decompressor() -> zstandard.ZstdDecompressor:
    """One for each thread: making one costs more than a small batch."""
    made: zstandard.ZstdDecompressor | None = getattr(_of_thread, "zstd", None)
    if made is None:
        made = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_LIMIT)
        _of_thread.zstd = made
    return made


def _zstd_decompress(data: Buffer, limit_bytes: int) -> bytes:
    """Most are one frame that does not stand for much more than it is: in one piece. Whatever
    is different, or wrong, is found out piece by piece."""
    likely_bytes = min(limit_bytes, max(_LEAST_PIECE_BYTES, _LIKELY_RATIO * len(data)))
    try:
        if zstandard.frame_content_size(data) <= likely_bytes:
            return _zstd_decompressor().decompress(
                data, max_output_size=likely_bytes, allow_extra_data=False
            )
    except zstandard.ZstdError:
        pass
    return _zstd_decompress_in_pieces(data, limit_bytes)


def _zstd_decompress_in_pieces(data: Buffer, limit_bytes: int) -> bytes:
    """A frame that is cut short yields what is there; the record count then tells."""
    decompressor = _zstd_decompressor()
    plain = bytearray()
    try:
        with decompressor.stream_reader(data, read_across_frames=True) as reader:
            while piece := reader.read(_PIECE_BYTES):
                plain += piece
                if len(plain) > limit_bytes:
                    raise _too_large(ZSTD, limit_bytes)
    except zstandard.ZstdError as error:
        raise _broken(ZSTD, error) from None
    return bytes(plain)


_COMPRESSORS: Final[dict[int, Callable[[Buffer], bytes]]] = {
    NONE: _copy,
    GZIP: _gzip_compress,
    SNAPPY: _snappy_compress,
    LZ4: _lz4_compress,
    ZSTD: _zstd_compress,
}
_DECOMPRESSORS: Final[dict[int, Callable[[Buffer, int], bytes]]] = {
    NONE: _copy_within_limit,
    GZIP: _gzip_decompress,
    SNAPPY: _snappy_decompress,
    LZ4: _lz4_decompress,
    ZSTD: _zstd_decompress,
}
