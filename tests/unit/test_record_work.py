"""What is found in the records of a produced batch, and where it is looked for."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from support.lone_broker import node_config
from tidelog.broker.produce import record_work
from tidelog.broker.produce.record_work import BadRecords, RecordWork
from tidelog.broker.replication.topic_settings import TopicSettings, settings_of
from tidelog.core.errors import Error
from tidelog.wire.records import (
    CODEC_NAMES,
    GZIP,
    NONE,
    SNAPPY,
    ZSTD,
    BatchTooLarge,
    Buffer,
    DecodeLimits,
    InvalidBatch,
    InvalidRecord,
    Record,
    decode,
    encode,
    read_header,
    walk,
)
from tidelog.wire.records.header import HEADER_SIZE, MAX_INT64, MIN_INT64, seal

NOW_MS = 1_000_000_000
HOUR_MS = 3_600_000


def settings(tmp_path: Path, **texts: str) -> TopicSettings:
    given = {name.replace("_", "."): value for name, value in texts.items()}
    return settings_of(given, node_config(tmp_path))


def batch(*times: int, codec: int = NONE, key: bytes | None = b"k") -> bytearray:
    return encode([Record(n, time, key, b"v" * 50) for n, time in enumerate(times)], codec=codec)


def work_of(data: bytearray, topic: TopicSettings) -> RecordWork:
    return record_work.work_on(read_header(data), topic, NOW_MS)


def demands(*, require_keys: bool = False, codec: int | None = None, **other: int) -> RecordWork:
    return RecordWork(require_keys, MIN_INT64, MAX_INT64, codec, other.get("max_bytes", 1 << 20))


def performed(work: RecordWork, data: bytearray) -> Buffer:
    return record_work.perform(work, data, read_header(data))


@pytest.mark.parametrize("codec", sorted(CODEC_NAMES))
def test_a_good_batch_is_appended_as_it_came(tmp_path: Path, codec: int) -> None:
    data = batch(NOW_MS - 5, NOW_MS, NOW_MS - 7, codec=codec)
    before = bytes(data)
    assert performed(work_of(data, settings(tmp_path)), data) is data
    assert data == before


@pytest.mark.parametrize("codec", sorted(CODEC_NAMES))
@pytest.mark.parametrize(("claimed", "there"), [(5, 1), (1, 5), (2, 3), (250_000, 1)])
def test_a_count_that_is_not_true_is_refused(codec: int, claimed: int, there: int) -> None:
    data = batch(*[NOW_MS] * there, codec=codec)
    data[57:61] = claimed.to_bytes(4, "big")
    data[23:27] = (claimed - 1).to_bytes(4, "big")
    seal(data, 0, read_header(data))
    with pytest.raises(InvalidBatch) as refused:
        performed(demands(), data)
    assert refused.value.kafka_error == Error.INVALID_RECORD


@pytest.mark.parametrize("codec", sorted(set(CODEC_NAMES) - {NONE}))
def test_compressed_bytes_that_are_none_are_refused(codec: int) -> None:
    data = batch(NOW_MS, codec=codec)
    data[HEADER_SIZE : HEADER_SIZE + 4] = b"\xff\xff\xff\xff"
    seal(data, 0, read_header(data))
    with pytest.raises(InvalidRecord, match=f"not valid {CODEC_NAMES[codec]}"):
        performed(demands(), data)


def bomb(codec: int, plain_bytes: int) -> bytearray:
    """One record under a header that is in order, large only once it is decompressed."""
    return encode([Record(0, NOW_MS, None, bytes(plain_bytes))], codec=codec)


@pytest.mark.parametrize("codec", sorted(set(CODEC_NAMES) - {NONE}))
def test_what_decompresses_past_the_limit_is_refused_as_too_large(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_work, "LIMITS", DecodeLimits(max_decompressed_bytes=1 << 20))
    data = bomb(codec, 1 << 21)
    assert len(data) < 1 << 18
    with pytest.raises(BatchTooLarge, match=f"{CODEC_NAMES[codec]} records decompress to more"):
        performed(demands(), data)


def test_the_times_of_the_records_count_and_not_what_the_header_says(tmp_path: Path) -> None:
    topic = settings(tmp_path)
    hour_later = batch(NOW_MS + HOUR_MS)
    assert performed(work_of(hour_later, topic), hour_later) is hour_later
    too_late = batch(NOW_MS + HOUR_MS + 1)
    too_late[35:43] = NOW_MS.to_bytes(8, "big")
    seal(too_late, 0, read_header(too_late))
    with pytest.raises(BadRecords, match="record 0 has timestamp") as refused:
        performed(work_of(too_late, topic), too_late)
    assert refused.value.error is Error.INVALID_TIMESTAMP
    stamped = settings(tmp_path, message_timestamp_type="LogAppendTime")
    assert performed(work_of(too_late, stamped), too_late) is too_late


def test_a_batch_that_has_the_topics_codec_already_stays_as_it_is(tmp_path: Path) -> None:
    topic = settings(tmp_path, compression_type="snappy")
    assert work_of(batch(NOW_MS, codec=SNAPPY), topic).codec is None
    plain = batch(*[NOW_MS] * 100)
    squeezed = performed(work_of(plain, topic), plain)
    assert read_header(squeezed).codec == SNAPPY
    assert len(squeezed) < len(plain)
    assert decode(squeezed) == decode(plain)


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("claimed_ms", [NOW_MS + 2 * HOUR_MS, 5, -1])
def test_a_header_that_lies_about_its_newest_timestamp_is_set_right(
    tmp_path: Path, codec: int, claimed_ms: int
) -> None:
    data = batch(NOW_MS - 1, NOW_MS, codec=codec)
    honest = bytes(data)
    data[35:43] = claimed_ms.to_bytes(8, "big", signed=True)
    seal(data, 0, read_header(data))
    assert performed(work_of(data, settings(tmp_path)), data) == honest


def test_records_whose_offsets_do_not_count_up_are_refused() -> None:
    data = encode(
        [Record(0, NOW_MS, b"k", b"v"), Record(2, NOW_MS, b"k", b"v")], last_offset_delta=2
    )
    with pytest.raises(InvalidRecord, match="record 1 has offset delta 2"):
        performed(demands(), data)


def test_bytes_that_are_no_records_are_refused() -> None:
    data = batch(NOW_MS, NOW_MS)
    data[HEADER_SIZE] = 0x7F
    seal(data, 0, read_header(data))
    with pytest.raises(InvalidRecord):
        performed(demands(), data)


def test_a_batch_that_grows_over_the_topics_limit_is_refused() -> None:
    data = batch(*[NOW_MS] * 1000, codec=GZIP)
    with pytest.raises(BatchTooLarge, match=r"max\.message\.bytes is 10000"):
        performed(demands(codec=NONE, max_bytes=10_000), data)


def test_not_every_bad_record_is_told_of() -> None:
    data = batch(*[NOW_MS] * 5000, key=None)
    with pytest.raises(BadRecords) as refused:
        performed(demands(require_keys=True), data)
    assert len(refused.value.records) == record_work.REPORTED_RECORDS_MAX


def at_once(work: RecordWork, data: bytearray) -> Buffer | None:
    return record_work.perform_at_once(work, data, read_header(data))


needs_the_compiled_walk = pytest.mark.skipif(
    walk.compiled() is None or not walk.is_compiled(), reason="not compiled here"
)


@needs_the_compiled_walk
def test_a_large_plain_batch_is_walked_at_once() -> None:
    data = batch(*[NOW_MS] * 10_000)
    assert at_once(demands(), data) is data


def test_without_the_compiled_walk_only_small_batches_are_looked_at_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(walk, "walk", walk.walk_in_python)
    small, large = batch(NOW_MS), batch(*[NOW_MS] * (record_work.SMALL_RECORDS + 1))
    assert at_once(demands(), small) is small
    assert at_once(demands(), large) is None
    assert performed(demands(), large) is large


@needs_the_compiled_walk
@pytest.mark.parametrize("codec", sorted(set(CODEC_NAMES) - {NONE}))
def test_what_compressed_records_may_cost_at_once_is_bounded(codec: int) -> None:
    modest = bomb(codec, 200_000)
    assert at_once(demands(), modest) is modest
    assert at_once(demands(), bomb(codec, 300_000)) is None
    noise = [Record(0, NOW_MS, None, random.Random(1).randbytes(70_000))]
    assert at_once(demands(), encode(noise, codec=codec)) is None


@needs_the_compiled_walk
def test_nobody_looks_for_guilty_records_in_a_large_batch_at_once() -> None:
    data = batch(*[NOW_MS] * 10_000, key=None)
    assert at_once(demands(require_keys=True), data) is None
    with pytest.raises(BadRecords, match="record 0 has no key"):
        performed(demands(require_keys=True), data)


def test_only_small_plain_batches_are_compressed_at_once() -> None:
    header = read_header(batch(NOW_MS))
    assert record_work.is_small(header)
    assert not record_work.is_small(header._replace(record_count=record_work.SMALL_RECORDS + 1))
    assert not record_work.is_small(header._replace(batch_length=record_work.SMALL_BYTES))
    assert not record_work.is_small(read_header(batch(NOW_MS, codec=ZSTD)))
    assert at_once(demands(codec=GZIP), batch(*[NOW_MS] * 1000)) is None


def test_a_compacted_topic_is_told_from_its_settings(tmp_path: Path) -> None:
    topic = settings(tmp_path, cleanup_policy="compact,delete")
    assert work_of(batch(NOW_MS), topic).require_keys
    without = replace(topic, log=replace(topic.log, cleanup_policy=("delete",)))
    assert not work_of(batch(NOW_MS), without).require_keys
