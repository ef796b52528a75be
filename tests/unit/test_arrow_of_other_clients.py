"""Columns travel between us and two clients we did not write, in both directions."""

import types
import warnings

import cramjam
import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder

from support.kernels import Row, both_kernels, rows_of, using
from tidelog.wire import records
from tidelog.wire.arrow import (
    BatchSettings,
    Partitioner,
    Selection,
    encode_batches,
    record_schema,
    restamp,
)
from tidelog.wire.kernel import choice

with warnings.catch_warnings():
    # It reads its schemas through a function that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.codec
    from kafka.record.default_records import DefaultRecordBatch as PythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder

CODECS = sorted(records.CODEC_NAMES)
every_codec = pytest.mark.parametrize(
    "codec", CODECS, ids=[records.CODEC_NAMES[codec] for codec in CODECS]
)
both_clients = pytest.mark.parametrize("client", ["aiokafka", "kafka-python"])
READERS = {"aiokafka": AioBatch, "kafka-python": PythonBatch}
BUILDERS = {"aiokafka": AioBuilder, "kafka-python": PythonBuilder}

SOME_HEADERS = [("trace", b"1"), ("trace", None), ("größe", b"")]
STORY = [
    # time, key, value, headers: nulls, nothing, short, long, and text that is not ASCII
    (1_700_000_000_000, b"k", b"v", []),
    (1_700_000_000_001, None, b"tide" * 25_000, SOME_HEADERS),
    (1_699_999_999_000, b"", None, []),
    (1_700_000_099_000, b"key" * 50, b"", [("h" * 200, b"x" * 200)]),
    (1_700_000_099_000, None, None, []),
]


@pytest.fixture(autouse=True)
def snappy_for_kafka_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """kafka-python wants the package python-snappy; the block format it does itself."""
    blocks = types.SimpleNamespace(
        compress=lambda data: bytes(cramjam.snappy.compress_raw(data)),
        decompress=lambda data: bytes(cramjam.snappy.decompress_raw(data)),
    )
    monkeypatch.setattr(kafka.codec, "snappy", blocks)


@both_kernels
@both_clients
@every_codec
def test_they_read_what_we_encode(kernel: choice.Kernel, client: str, codec: int) -> None:
    columns = {
        "key": pa.array([key for _, key, _, _ in STORY], pa.binary()),
        "value": pa.array([value for _, _, value, _ in STORY], pa.binary()),
        "timestamp": pa.array([time for time, *_ in STORY], pa.timestamp("ms", "UTC")),
        "headers": pa.array(
            [[{"key": k, "value": v} for k, v in headers] for *_, headers in STORY],
            record_schema(("headers",))[0].type,
        ),
    }
    table = pa.RecordBatch.from_pydict(columns)
    with using(kernel):
        made = encode_batches(
            table, Partitioner(1), timestamp_ms=5, settings=BatchSettings(codec, 1 << 20)
        )
        (batch,) = made[0]
        restamp(batch, 7, 1, 4, transactional=True)
    theirs = READERS[client](bytes(batch))
    assert theirs.validate_crc()
    assert (theirs.producer_id, theirs.base_sequence, theirs.compression_type) == (7, 4, codec)
    assert theirs.is_transactional
    found = [(row.timestamp, row.key, row.value, list(row.headers)) for row in theirs]
    assert found == STORY


@both_kernels
@both_clients
@every_codec
def test_we_decode_what_they_write(kernel: choice.Kernel, client: str, codec: int) -> None:
    builder = BUILDERS[client](
        magic=2, compression_type=codec, is_transactional=False, producer_id=-1,
        producer_epoch=-1, base_sequence=-1, batch_size=1 << 20,
    )  # fmt: skip
    for offset, (time, key, value, headers) in enumerate(STORY):
        builder.append(offset, timestamp=time, key=key, value=value, headers=headers)
    region = bytes(builder.build())
    assert records.read_header(region).codec == codec
    with using(kernel):
        found = rows_of(region, Selection("orders", 3))
    assert found == [
        Row(key, value, "orders", 3, offset, time * 1000, 0, tuple(headers))
        for offset, (time, key, value, headers) in enumerate(STORY)
    ]
