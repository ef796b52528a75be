"""The codecs: formats of other writers, damage, and bombs."""

import lzma
import struct
import subprocess
import sys
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.wire import records
from tidelog.wire.records import compression

calm = settings(deadline=None)
LIMIT = 8 * 1024 * 1024
COMPRESSING = [records.GZIP, records.SNAPPY, records.LZ4, records.ZSTD]
every_codec = pytest.mark.parametrize(
    "codec", COMPRESSING, ids=[records.CODEC_NAMES[codec] for codec in COMPRESSING]
)


@every_codec
@calm
@given(data=st.binary(max_size=5000), repeat=st.integers(1, 40))
def test_what_is_compressed_comes_back(codec: int, data: bytes, repeat: int) -> None:
    plain = data * repeat
    squeezed = compression.compress(codec, plain)
    assert compression.decompress(codec, memoryview(squeezed), len(plain)) == plain


@every_codec
def test_the_limit_is_exact(codec: int) -> None:
    squeezed = compression.compress(codec, bytes(100_000))
    assert len(compression.decompress(codec, squeezed, 100_000)) == 100_000
    with pytest.raises(records.BatchTooLarge):
        compression.decompress(codec, squeezed, 99_999)


@every_codec
def test_a_stream_that_is_cut_short_never_yields_all_of_the_data(codec: int) -> None:
    plain = lzma.compress(bytes(range(256)) * 20)  # dense, so that every byte matters
    squeezed = compression.compress(codec, plain)
    for size in range(len(squeezed)):
        try:
            got = compression.decompress(codec, squeezed[:size], LIMIT)
        except records.InvalidRecord:
            continue
        assert plain.startswith(got)
        assert len(got) < len(plain)


@pytest.mark.parametrize("codec", [records.GZIP, records.LZ4, records.ZSTD])
def test_bytes_after_the_end_of_a_stream_are_refused(codec: int) -> None:
    squeezed = compression.compress(codec, b"payload")
    with pytest.raises(records.InvalidRecord):
        compression.decompress(codec, squeezed + b"more", LIMIT)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_do_not_exist_are_refused(codec: int) -> None:
    with pytest.raises(records.UnsupportedCodec):
        compression.decompress(codec, b"", LIMIT)
    with pytest.raises(records.UnsupportedCodec):
        compression.compress(codec, b"")


@calm
@given(plain=st.binary(max_size=3000))
def test_snappy_is_read_raw_and_in_xerial_blocks(plain: bytes) -> None:
    raw = bytes(cramjam.snappy.compress_raw(plain))
    assert compression.decompress(records.SNAPPY, raw, LIMIT) == plain
    cuts = [plain[:10], b"", plain[10:]]
    blocks = [bytes(cramjam.snappy.compress_raw(cut)) for cut in cuts]
    framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    # Some writers put the version in little-endian order: it must not matter.
    for version in (b"\0\0\0\1\0\0\0\1", b"\1\0\0\0\1\0\0\0"):
        xerial = b"\x82SNAPPY\0" + version + framed
        assert compression.decompress(records.SNAPPY, xerial, LIMIT) == plain


def test_snappy_is_written_in_the_blocks_that_java_and_librdkafka_read() -> None:
    plain = bytes(range(256)) * 300
    squeezed = compression.compress(records.SNAPPY, plain)
    assert squeezed.startswith(b"\x82SNAPPY\0\0\0\0\1\0\0\0\1")
    (length,) = struct.unpack_from(">i", squeezed, 16)
    first = bytes(cramjam.snappy.decompress_raw(squeezed[20 : 20 + length]))
    assert first == plain[: 32 * 1024]


def test_lz4_is_written_in_independent_blocks_without_a_content_size() -> None:
    info = lz4.frame.get_frame_info(compression.compress(records.LZ4, bytes(200_000)))
    assert info["block_linked"] is False
    assert info["content_size"] == 0
    assert info["block_size"] == 64 * 1024


@pytest.mark.parametrize(
    "blocks",
    [
        b"\0\0\0",
        b"\0\0\0\0",
        b"\0\0\0\x05ab",
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"\0\0\0\x05\xff\xff\xff\xff\x0f",
        b"\0\0\0\x02\x05\x00",
    ],
)
def test_lies_in_xerial_blocks_are_refused(blocks: bytes) -> None:
    with pytest.raises(records.InvalidBatch):
        compression.decompress(records.SNAPPY, b"\x82SNAPPY\0" + bytes(8) + blocks, LIMIT)
    with pytest.raises(records.InvalidRecord):
        compression.decompress(records.SNAPPY, b"\x82SNAPPY\0\0\0", LIMIT)


def test_a_snappy_size_that_the_format_cannot_reach_is_refused_before_memory_is_taken() -> None:
    declares_four_mib = b"\x80\x80\x80\x02" + b"\x00" * 1000
    with pytest.raises(records.InvalidRecord, match="cannot stand for"):
        compression.decompress(records.SNAPPY, declares_four_mib, LIMIT)


def gzip_bomb() -> bytes:
    """4 GiB in 4 MB: 1030 to 1 is the most that deflate can do."""
    compressor = zlib.compressobj(wbits=31)
    first = compressor.compress(bytes(16 << 20)) + compressor.flush(zlib.Z_FULL_FLUSH)
    repeated = zlib.compressobj(wbits=-15)
    block = repeated.compress(bytes(16 << 20)) + repeated.flush(zlib.Z_FULL_FLUSH)
    return first + block * 255


def lz4_bomb() -> bytes:
    """4 GiB in 17 MB: 255 to 1 is the most that lz4 can do."""
    compressor = lz4.frame.LZ4FrameCompressor(
        block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_linked=False, auto_flush=True
    )
    begin = compressor.begin()
    block = compressor.compress(bytes(4 << 20))
    return bytes(begin + block * 1024)


def zstd_bomb() -> bytes:
    """4 GiB in 128 KiB: every block says "128 KiB of this byte"."""
    begin = b"\x28\xb5\x2f\xfd\x00\x58"  # window of 2 MiB, no content size
    run = struct.pack("<I", (128 << 10) << 3 | 1 << 1)[:3] + b"\0"
    return begin + run * 32_768


def snappy_bomb() -> bytes:
    """As much as snappy can do, 21 to 1, in blocks that are all true."""
    block = bytes(cramjam.snappy.compress_raw(bytes(1 << 20)))
    return b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + (struct.pack(">i", len(block)) + block) * 80


def snappy_lie() -> bytes:
    """One block that claims 4 GiB."""
    return b"\xff\xff\xff\xff\x0f" + b"\x00a" + b"\xfe\x01\x00" * 300_000


def zstd_window_lie() -> bytes:
    """A frame that asks its reader to keep 1 TiB at hand."""
    return b"\x28\xb5\x2f\xfd\x00\xf0" + zstandard.compress(b"x")[6:]


BOMBS = {
    "gzip": (records.GZIP, gzip_bomb),
    "lz4": (records.LZ4, lz4_bomb),
    "zstd": (records.ZSTD, zstd_bomb),
    "snappy": (records.SNAPPY, snappy_bomb),
    "snappy-lie": (records.SNAPPY, snappy_lie),
    "zstd-window-lie": (records.ZSTD, zstd_window_lie),
}

DEFUSE = """
import resource, sys
from tidelog.wire.records import InvalidBatch, compression
codec, limit, bomb = int(sys.argv[1]), int(sys.argv[2]), sys.stdin.buffer.read()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 4 * limit, used + 4 * limit))
try:
    compression.decompress(codec, bomb, limit)
except InvalidBatch as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_stopped_in_an_address_space_that_could_not_hold_them(name: str) -> None:
    codec, build = BOMBS[name]
    done = subprocess.run(
        [sys.executable, "-c", DEFUSE, str(codec), str(LIMIT)],
        input=build(), capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    wanted = b"InvalidRecord" if name == "zstd-window-lie" else b"BatchTooLarge"
    assert (done.stdout.strip(), done.stderr) == (wanted, b"")
