"""Every option of a source: what it means, and what is said when it makes no sense."""

import re

import pytest
from pyspark.sql.types import DoubleType, IntegerType

from tidelog.client.offsets import EARLIEST, LATEST
from tidelog.spark.columns import check_columns, default_schema, record_columns
from tidelog.spark.failure import InvalidOption
from tidelog.spark.source_options import Admission, Lookups, Packing, Subscription, source_options

WHERE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def options(*, streaming=True, **given):
    names = {name.replace("__", "."): value for name, value in given.items()}
    return source_options({**WHERE, **names}, streaming=streaming)


def test_what_is_not_said_is_as_in_the_stock_connector():
    stream, batch = options(), options(streaming=False)
    assert (stream.start.everywhere, batch.start.everywhere) == (LATEST, EARLIEST)
    assert batch.end.everywhere == LATEST
    assert stream.fail_on_data_loss
    assert stream.admission == Admission(max_delay_ms=15 * 60_000)
    assert stream.lookups == Lookups(3, 1000, 1000)
    assert stream.poll_timeout_ms == 120_000
    assert stream.committed  # the one difference: nobody wants what was rolled back
    assert stream.stable_id is stream.start_group is None


def test_topics_are_named_matched_or_assigned():
    assert options(subscribe=" a, b ,a").subscription == Subscription(topics=("a", "b"))
    given = {"kafka.bootstrap.servers": "x:1"}
    pattern = source_options({**given, "subscribePattern": "a.*"}, streaming=True)
    assert pattern.subscription == Subscription(pattern="a.*")
    assigned = source_options({**given, "assign": '{"b":[1,0],"a":[2]}'}, streaming=True)
    assert assigned.subscription.partitions == (("a", 2), ("b", 0), ("b", 1))


def test_a_time_for_all_counts_more_than_one_for_each_and_that_more_than_offsets():
    every = {
        "startingOffsets": '{"orders":{"0":7}}',
        "startingOffsetsByTimestamp": '{"orders":{"0":1000}}',
        "startingTimestamp": "5000",
    }
    assert options(**every).start.time_ms == 5000
    del every["startingTimestamp"]
    assert options(**every).start.times_ms == {("orders", 0): 1000}
    del every["startingOffsetsByTimestamp"]
    assert options(**every).start.offsets == {("orders", 0): 7}


def test_what_was_said_is_what_is_done():
    said = options(
        failOnDataLoss="false",
        maxOffsetsPerTrigger="100",
        minOffsetsPerTrigger="10",
        maxBytesPerTrigger="4096",
        maxTriggerDelay="90s",
        minPartitions="3",
        maxRecordsPerPartition="50",
        startingOffsetsByTimestampStrategy="latest",
        kafka__isolation__level="read_uncommitted",
        fetchOffset__numRetries="0",
        fetchOffset__retryIntervalMs="5",
        partition__metadata__cache__ttl__ms="-1",
        kafkaConsumer__pollTimeoutMs="7",
    )
    assert not said.fail_on_data_loss
    assert said.admission == Admission(100, 4096, 10, 90_000)
    assert said.packing == Packing(3, 50)
    assert said.start.latest_if_none
    assert not said.committed
    assert said.lookups == Lookups(0, 5, -1)
    assert said.poll_timeout_ms == 7


@pytest.mark.parametrize(
    ("given", "group"),
    [
        ({"sourceId": "s"}, "spark-tidelog-source-s"),
        ({"sourceId": "s", "groupIdPrefix": "mine"}, "mine-s"),
        ({"sourceId": "s", "kafka__group__id": "g"}, "g"),
    ],
)
def test_a_stable_id_is_a_group(given, group):
    said = options(**given)
    assert said.stable_id == group
    assert said.start_group == group + ".start"


BAD = [
    ({"kafka__bootstrap__servers": ""}, "the option kafka.bootstrap.servers is missing"),
    ({"startingOfsets": "latest"}, "did you mean startingOffsets?"),
    ({"assign": '{"a":[0]}'}, "subscribe and assign are given; give exactly one of"),
    ({"subscribe": ""}, "the option subscribe is empty"),
    ({"subscribe": ","}, "name a topic"),
    ({"startingOffsets": "newest"}, "startingOffsets is 'newest'; give something like earliest"),
    ({"startingOffsets": '{"orders":{"0":'}, "give something like earliest, latest or"),
    ({"startingOffsets": '{"orders":{"0":-3}}'}, "startingOffsets is"),
    ({"startingOffsets": '{"orders":{"x":3}}'}, "startingOffsets is"),
    ({"startingOffsets": '{"orders":{"0":1.5}}'}, "startingOffsets is"),
    ({"startingOffsets": "{}"}, "startingOffsets is"),
    ({"startingOffsets": "[1]"}, "startingOffsets is"),
    ({"startingOffsetsByTimestamp": '{"orders":{"0":-1}}'}, "startingOffsetsByTimestamp is"),
    ({"startingTimestamp": "yesterday"}, "startingTimestamp is 'yesterday'"),
    ({"startingOffsetsByTimestampStrategy": "guess"}, "one of error, latest"),
    ({"endingOffsets": "latest"}, "endingOffsets is for batches; a stream has no end"),
    ({"endingTimestamp": "1"}, "endingTimestamp is for batches"),
    ({"failOnDataLoss": "maybe"}, "failOnDataLoss is 'maybe'; give true or false"),
    ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is '0'"),
    ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "below minOffsetsPerTrigger"),
    ({"maxTriggerDelay": "soon"}, "give something like 500ms, 30s, 15m"),
    ({"minPartitions": "-1"}, "minPartitions is '-1'"),
    ({"commitOffsets": "true"}, "give sourceId or kafka.group.id"),
    ({"group__id": "g"}, "there is no option group.id; did you mean kafka.group.id?"),
    ({"view": "batches"}, "brokers give records, and view=batches"),
    ({"sourceId": " "}, "the option sourceId is empty"),
    ({"kafka__isolation__level": "serializable"}, "one of read_committed, read_uncommitted"),
    ({"kafka__auto__offset__reset": "latest"}, "kafka.auto.offset.reset is not supported"),
]


@pytest.mark.parametrize(("given", "words"), BAD)
def test_nonsense_in_a_stream_is_named(given, words):
    with pytest.raises(InvalidOption, match=re.escape(words)):
        options(**given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingOffsets": "latest"}, "a batch would have nothing to read"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "-1 (latest), which a batch cannot"),
        ({"endingOffsets": "earliest"}, "endingOffsets is earliest; give latest"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, "endingOffsets holds -2 (earliest)"),
    ],
)
def test_nonsense_in_a_batch_is_named(given, words):
    with pytest.raises(InvalidOption, match=re.escape(words)):
        options(streaming=False, **given)


def test_no_topic_at_all_is_named():
    with pytest.raises(InvalidOption, match="no topic is given"):
        source_options({"kafka.bootstrap.servers": "x:1"}, streaming=True)


@pytest.mark.parametrize(
    "text", ['{"a":["0"]}', '{"a":0}', "a", "{}", '{"a":[-1]}', '{"a":[true]}']
)
def test_an_assignment_that_is_none_is_named(text):
    given = {"kafka.bootstrap.servers": "x:1", "assign": text}
    with pytest.raises(InvalidOption, match=re.escape('give something like {"orders":[0,1]}')):
        source_options(given, streaming=False)


def test_options_of_streams_have_no_effect_on_a_batch(caplog):
    options(streaming=False, maxOffsetsPerTrigger="5")
    assert "maxOffsetsPerTrigger has no effect on a batch" in caplog.text


@pytest.mark.parametrize(
    ("text", "delay_ms"), [("100", 100), ("2s", 2000), ("15m", 900_000), ("1h", 3_600_000)]
)
def test_delays_are_written_as_spark_writes_them(text, delay_ms):
    assert options(maxTriggerDelay=text).admission.max_delay_ms == delay_ms


def test_a_schema_may_name_some_columns_in_any_order():
    whole = record_columns(headers=True)
    some = type(whole)([whole["offset"], whole["headers"], whole["key"]])
    assert check_columns(some) == ("offset", "headers", "key")
    assert "headers" not in default_schema({}).names
    assert "headers" in default_schema({"includeHeaders": "true"}).names


def test_a_schema_that_is_not_ours_is_named():
    whole = record_columns(headers=False)
    wrong = type(whole)().add("offset", IntegerType())
    with pytest.raises(InvalidOption, match="offset is int; it is bigint"):
        check_columns(wrong)
    with pytest.raises(InvalidOption, match="a column price, and records have none"):
        check_columns(type(whole)().add("price", DoubleType()))
