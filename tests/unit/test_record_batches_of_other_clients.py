"""Batches travel between us and two clients we did not write, in both directions."""

import types
import warnings

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog.wire import records
from tidelog.wire.records import Record

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


@pytest.fixture(autouse=True)
def snappy_for_kafka_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """kafka-python wants the package python-snappy; the block format it does itself."""
    blocks = types.SimpleNamespace(
        compress=lambda data: bytes(cramjam.snappy.compress_raw(data)),
        decompress=lambda data: bytes(cramjam.snappy.decompress_raw(data)),
    )
    monkeypatch.setattr(kafka.codec, "snappy", blocks)


payloads = st.none() | st.binary(max_size=60).map(lambda some: some * 9)
keys = st.text(max_size=4)
batches_of_records = st.lists(
    st.tuples(
        st.integers(0, 2**42),
        payloads,
        payloads,
        st.lists(st.tuples(keys, st.none() | st.binary(max_size=9)), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=20,
).map(lambda rows: [Record(index, *row) for index, row in enumerate(rows)])
quick = settings(
    max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


def as_ours(record: object) -> Record:
    fields = {name: getattr(record, name) for name in ("offset", "timestamp", "key", "value")}
    return Record(**fields, headers=tuple(record.headers))  # type: ignore[attr-defined]


@both_clients
@every_codec
@quick
@given(wanted=batches_of_records)
def test_they_read_what_we_write(client: str, codec: int, wanted: list[Record]) -> None:
    batch = records.encode(
        wanted, codec=codec, producer_id=7, producer_epoch=1, base_sequence=4, transactional=True
    )
    records.stamp(batch, 0, base_offset=5000, leader_epoch=3)
    theirs = READERS[client](bytes(batch))
    assert theirs.validate_crc()
    assert (theirs.base_offset, theirs.producer_id, theirs.base_sequence) == (5000, 7, 4)
    assert theirs.is_transactional
    got = [as_ours(record) for record in theirs]
    assert got == [record._replace(offset=record.offset + 5000) for record in wanted]


@both_clients
@every_codec
@quick
@given(wanted=batches_of_records)
def test_we_read_what_they_write(client: str, codec: int, wanted: list[Record]) -> None:
    builder = BUILDERS[client](
        magic=2, compression_type=codec, is_transactional=True, producer_id=7,
        producer_epoch=1, base_sequence=4, batch_size=1 << 20,
    )  # fmt: skip
    for offset, timestamp, key, value, headers in wanted:
        builder.append(offset, timestamp=timestamp, key=key, value=value, headers=list(headers))
    batch = bytes(builder.build())
    header = records.validate_client_batch(batch)
    assert (header.producer_id, header.base_sequence, header.is_transactional) == (7, 4, True)
    assert records.decode(batch) == wanted
    if all(record.timestamp == wanted[0].timestamp for record in wanted) and codec == 0:
        ours = records.encode(
            wanted, leader_epoch=header.leader_epoch, producer_id=7, producer_epoch=1,
            base_sequence=4, transactional=True,
        )  # fmt: skip
        assert ours == batch


@both_clients
@every_codec
def test_their_compression_really_was_tried(client: str, codec: int) -> None:
    """Both fall back to no compression when it does not pay; here it does."""
    builder = BUILDERS[client](
        magic=2, compression_type=codec, is_transactional=False, producer_id=-1,
        producer_epoch=-1, base_sequence=-1, batch_size=1 << 20,
    )  # fmt: skip
    value = b"tide" * 25_000  # several blocks in every format
    builder.append(0, timestamp=9, key=None, value=value, headers=[])
    batch = bytes(builder.build())
    assert records.read_header(batch).codec == codec
    assert records.decode(batch) == [Record(0, 9, None, value)]


@both_clients
@pytest.mark.parametrize("commit", [True, False])
def test_they_understand_our_transaction_markers(client: str, commit: bool) -> None:
    marker = records.EndTxnMarker(commit, 7, 1, 2)
    batch = bytes(records.encode_end_txn_marker(marker, timestamp_ms=5, base_offset=11))
    theirs = READERS[client](batch)
    assert theirs.validate_crc()
    assert theirs.is_control_batch
    (record,) = list(theirs)
    assert record.offset == 11
    if client == "kafka-python":
        assert (record.commit, record.abort) == (commit, not commit)
    else:
        from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord

        wanted = COMMIT_MARKER if commit else ABORT_MARKER
        assert ControlRecord.parse(record.key) == wanted
