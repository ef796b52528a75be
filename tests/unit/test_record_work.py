"""Which batches have their records looked at, and what is found there."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.lone_broker import node_config
from tidelog.broker import record_work
from tidelog.broker.record_work import BadRecords, RecordWork
from tidelog.broker.topic_settings import TopicSettings, settings_of
from tidelog.core.errors import Error
from tidelog.wire.records import (
    GZIP,
    NONE,
    SNAPPY,
    ZSTD,
    BatchTooLarge,
    InvalidRecord,
    Record,
    decode,
    encode,
    read_header,
)
from tidelog.wire.records.header import HEADER_SIZE, seal

NOW_MS = 1_000_000_000
HOUR_MS = 3_600_000


def settings(tmp_path: Path, **texts: str) -> TopicSettings:
    given = {name.replace("_", "."): value for name, value in texts.items()}
    return settings_of(given, node_config(tmp_path))


def batch(*times: int, codec: int = NONE, key: bytes | None = b"k") -> bytearray:
    return encode([Record(n, time, key, b"v" * 50) for n, time in enumerate(times)], codec=codec)


def work_of(data: bytearray, topic: TopicSettings) -> RecordWork | None:
    return record_work.work_on(read_header(data), topic, NOW_MS)


def test_by_default_no_record_is_touched(tmp_path: Path) -> None:
    for codec in (NONE, GZIP, ZSTD):
        assert work_of(batch(0, NOW_MS, codec=codec), settings(tmp_path)) is None


def test_the_header_alone_tells_that_nothing_is_too_new(tmp_path: Path) -> None:
    topic = settings(tmp_path)
    assert work_of(batch(NOW_MS + HOUR_MS), topic) is None
    assert work_of(batch(NOW_MS + HOUR_MS + 1), topic) is not None
    stamped = settings(tmp_path, message_timestamp_type="LogAppendTime")
    assert work_of(batch(NOW_MS + HOUR_MS + 1), stamped) is None


def test_a_batch_that_has_the_topics_codec_already_stays_as_it_is(tmp_path: Path) -> None:
    topic = settings(tmp_path, compression_type="snappy")
    assert work_of(batch(NOW_MS, codec=SNAPPY), topic) is None
    plain = batch(*[NOW_MS] * 100)
    work = work_of(plain, topic)
    assert work is not None
    squeezed = record_work.perform(work, plain, read_header(plain))
    assert read_header(squeezed).codec == SNAPPY
    assert len(squeezed) < len(plain)
    assert decode(squeezed) == decode(plain)


def test_a_header_that_lies_about_its_newest_timestamp_is_refused(tmp_path: Path) -> None:
    data = batch(NOW_MS)
    data[35:43] = (NOW_MS + 2 * HOUR_MS).to_bytes(8, "big")
    seal(data, 0, read_header(data))
    work = work_of(data, settings(tmp_path))
    assert work is not None
    with pytest.raises(BadRecords, match="header") as refused:
        record_work.perform(work, data, read_header(data))
    assert refused.value.error is Error.INVALID_TIMESTAMP


def test_records_whose_offsets_do_not_count_up_are_refused() -> None:
    data = encode(
        [Record(0, NOW_MS, b"k", b"v"), Record(2, NOW_MS, b"k", b"v")], last_offset_delta=2
    )
    work = RecordWork(True, None, None, None, 1 << 20)
    with pytest.raises(BadRecords, match="offset delta 2") as refused:
        record_work.perform(work, data, read_header(data))
    assert refused.value.records[0].position == 1


def test_bytes_that_are_no_records_are_refused() -> None:
    data = batch(NOW_MS, NOW_MS)
    data[HEADER_SIZE] = 0x7F
    seal(data, 0, read_header(data))
    work = RecordWork(True, None, None, None, 1 << 20)
    with pytest.raises(InvalidRecord):
        record_work.perform(work, data, read_header(data))


def test_a_batch_that_grows_over_the_topics_limit_is_refused() -> None:
    data = batch(*[NOW_MS] * 1000, codec=GZIP)
    work = RecordWork(False, None, None, NONE, 10_000)
    with pytest.raises(BatchTooLarge, match=r"max\.message\.bytes is 10000"):
        record_work.perform(work, data, read_header(data))


def test_not_every_bad_record_is_told_of() -> None:
    data = batch(*[NOW_MS] * 5000, key=None)
    work = RecordWork(True, None, None, None, 1 << 20)
    with pytest.raises(BadRecords) as refused:
        record_work.perform(work, data, read_header(data))
    assert len(refused.value.records) == record_work.REPORTED_RECORDS_MAX


def test_only_small_plain_batches_are_worked_on_at_once() -> None:
    header = read_header(batch(NOW_MS))
    assert record_work.is_small(header)
    assert not record_work.is_small(header._replace(record_count=record_work.SMALL_RECORDS + 1))
    assert not record_work.is_small(header._replace(batch_length=record_work.SMALL_BYTES))
    assert not record_work.is_small(read_header(batch(NOW_MS, codec=ZSTD)))


def test_a_compacted_topic_is_told_from_its_settings(tmp_path: Path) -> None:
    topic = settings(tmp_path, cleanup_policy="compact,delete")
    work = work_of(batch(NOW_MS), topic)
    assert work is not None
    assert work.require_keys
    without = replace(topic, log=replace(topic.log, cleanup_policy=("delete",)))
    assert work_of(batch(NOW_MS), without) is None
