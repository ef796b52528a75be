"""Record batches to Arrow and back, compiled and in Python: million records and MB per second.

    python benchmarks/kernel.py [--quick]

One thread, batches of 16 KiB with checksums, keys of 10 bytes, best of several rounds of CPU
time. MB counts the bytes of values. The values are JSON-like, so that compression has work.
"""

import random
import sys
from collections.abc import Callable, Iterator
from time import process_time

import pyarrow as pa

from tidelog.wire import arrow
from tidelog.wire.arrow import BatchSettings, Partitioner, Selection
from tidelog.wire.kernel import choice
from tidelog.wire.records import (
    CODEC_NAMES,
    HEADER_SIZE,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    WritableBuffer,
    iter_batches,
    walk,
)

DATA_BYTES = 32 * 1024 * 1024
TWIN_BYTES = 1024 * 1024
BATCH_BYTES = 16 * 1024
REGION_BYTES = 4 * 1024 * 1024
SINK_ROWS = 10_000
NOW_MS = 1_800_000_000_000
ROUNDS = 3 if "--quick" in sys.argv else 7


def best_seconds(job: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        began = process_time()
        job()
        times.append(process_time() - began)
    return min(times)


def rows(count: int, size: int, *, headers: bool = False) -> pa.RecordBatch:
    draw = random.Random(4711)  # noqa: S311 - the same data every time
    words = [f'"{draw.getrandbits(40):x}":{draw.randrange(10**6)},' for _ in range(999)]

    def value() -> bytes:
        text = "".join(draw.choice(words) for _ in range(size // 14 + 1))
        return text[:size].ljust(size).encode()

    some = [value() for _ in range(min(count, 20_000))]
    columns = {
        "key": pa.array([b"key%07d" % (n % 50_000) for n in range(count)], pa.binary()),
        "value": pa.array([some[n % len(some)] for n in range(count)], pa.binary()),
    }
    if headers:
        pair = [{"key": "trace", "value": b"0123456789abcdef"}]
        columns["headers"] = pa.array([pair] * count, arrow.record_schema(("headers",))[0].type)
    return pa.RecordBatch.from_pydict(columns)


def pieces(
    table: pa.RecordBatch, codec: int, partitions: int = 1
) -> Iterator[dict[int, list[WritableBuffer]]]:
    """Batches of a table that comes in pieces, as Spark hands them to a sink."""
    settings = BatchSettings(codec, BATCH_BYTES)
    partitioner = Partitioner(partitions)
    for start in range(0, table.num_rows, SINK_ROWS):
        piece = table.slice(start, SINK_ROWS)
        yield arrow.encode_batches(piece, partitioner, timestamp_ms=NOW_MS, settings=settings)


def encoded(table: pa.RecordBatch, codec: int) -> list[bytes]:
    """Regions of some MiB, as a reader fetches them or maps them."""
    regions = []
    region = bytearray()
    for made in pieces(table, codec):
        for batch in made[0]:
            region += batch
        if len(region) > REGION_BYTES:
            regions.append(bytes(region))
            region.clear()
    return [*regions, bytes(region)]


def encode(table: pa.RecordBatch, codec: int, partitions: int = 1) -> int:
    return sum(len(made) for made in pieces(table, codec, partitions))


def decode(regions: list[bytes], columns: tuple[str, ...]) -> int:
    selection = Selection("orders", 0, columns)
    return sum(
        piece.num_rows
        for region in regions
        for piece in arrow.decode_columns(region, arrow.scan_batches(region), selection)
    )


def line(name: str, count: int, size: int, seconds: float) -> None:
    rate = count / seconds / 1e6
    print(f"  {name:34} {rate:8.2f} M rec/s {rate * size:9.0f} MB/s", flush=True)


def cases(size: int) -> None:
    budget = DATA_BYTES if arrow.implementation() == "compiled" else TWIN_BYTES
    count = budget // size
    table = rows(count, size)
    plain = arrow.RECORD_COLUMNS
    for codec in (NONE, LZ4, ZSTD, SNAPPY):
        name = CODEC_NAMES[codec]
        regions = encoded(table, codec)
        line(f"decode {name}", count, size, best_seconds(lambda r=regions: decode(r, plain)))
        line(f"encode {name}", count, size, best_seconds(lambda c=codec: encode(table, c)))
    regions = encoded(table, NONE)
    line("decode none, value only", count, size, best_seconds(lambda: decode(regions, ("value",))))
    line("encode none, 8 partitions", count, size, best_seconds(lambda: encode(table, NONE, 8)))
    with_headers = rows(count, size, headers=True)
    regions = encoded(with_headers, NONE)
    every = arrow.RECORD_COLUMNS_WITH_HEADERS
    line("decode none, a header each", count, size, best_seconds(lambda: decode(regions, every)))
    line("encode none, a header each", count, size, best_seconds(lambda: encode(with_headers, 0)))


def whole_batches(size: int) -> None:
    """What makes nothing of a record: the audit, the stamping of staged batches, and the walk
    through every produced batch."""
    is_compiled = arrow.implementation() == "compiled"
    budget = DATA_BYTES if is_compiled else TWIN_BYTES
    walk_of = (walk.compiled() if is_compiled else None) or walk.walk_in_python
    region = bytearray(b"".join(encoded(rows(budget // size, size), NONE)))
    for name, job in (
        ("scan with checksums", lambda: arrow.scan_batches(region)),
        ("scan without", lambda: arrow.scan_batches(region, check_crc=False)),
        ("restamp", lambda: arrow.restamp(region, 7, 0, 0)),
        ("walk", lambda: walk_through(region, walk_of)),
    ):
        seconds = best_seconds(job)
        print(f"  {name:34} {len(region) / seconds / 1e9:8.2f} GB/s of log")


def walk_through(region: bytearray, walk_of: walk.Walk) -> None:
    for position, header in iter_batches(region):
        batch = memoryview(region)[position : position + header.size_bytes]
        found = walk_of(batch, HEADER_SIZE, header.record_count, header.base_timestamp, 1_000_000)
        assert found is not None, position


def main() -> None:
    for kernel in (choice.compiled(), choice.python):
        if kernel is None:
            print("the compiled kernel is not there: pip install -e . with a C compiler")
            continue
        choice.kernel = kernel
        for size in (100, 1024):
            print(f"{kernel.name}, values of {size} bytes")
            cases(size)
        whole_batches(100)


if __name__ == "__main__":
    main()
