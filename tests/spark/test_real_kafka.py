"""The connector against Apache Kafka itself: what is written there is read there, once.

`format("tidelog")` takes the place of `format("kafka")` whatever cluster the job speaks with.
"""

from pathlib import Path

import confluent_kafka
import pytest

from support.exactly_once.targets import consumed
from tidelog.bench.compare import kafka_jars
from tidelog.bench.compare.kafka import KafkaSystem
from tidelog.bench.compare.system import SystemMissing

pytestmark = pytest.mark.long

CACHE = Path(__file__).parents[2] / ".cache"
ROWS = 6_000
PARTITIONS = 3


@pytest.fixture(scope="module")
def kafka():
    try:
        system = KafkaSystem(kafka_jars.class_path(CACHE), kafka_jars.VERSION)
    except SystemMissing as missing:
        pytest.skip(str(missing))
    running = system.start(nodes=1)
    yield running
    running.close()


@pytest.fixture
def topic(kafka, request):
    def create(end):
        name = f"{request.function.__name__.replace('_', '-')[:60]}-{end}"
        kafka.create_topic(name, PARTITIONS, replication_factor=1)
        return name

    return create


def at(kafka, table):
    return table.format("tidelog").option("kafka.bootstrap.servers", kafka.bootstrap_servers)


def numbers(spark):
    text = "cast(id as string)"
    return spark.range(ROWS).selectExpr(f"{text} as key", f"{text} as value")


def read_by_spark(kafka, spark, topic):
    rows = at(kafka, spark.read).option("subscribe", topic).load().select("value").collect()
    return sorted(int(row.value) for row in rows)


@pytest.mark.parametrize("exactly_once", ["true", "false"])
def test_a_batch_is_written_and_read(kafka, spark, topic, exactly_once):
    target = topic(exactly_once)
    sink = at(kafka, numbers(spark).write).option("exactlyOnce", exactly_once)
    sink.option("topic", target).mode("append").save()
    assert read_by_spark(kafka, spark, target) == list(range(ROWS))
    assert sorted(consumed(kafka.bootstrap_servers, target)) == list(range(ROWS))


def test_a_stream_goes_through_exactly_once_and_on_where_it_was(kafka, spark, topic, tmp_path):
    source, target = topic("in"), topic("out")
    for times in (1, 2):
        at(kafka, numbers(spark).write).option("topic", source).mode("append").save()
        reading = at(kafka, spark.readStream).option("subscribe", source)
        reading = reading.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 2000)
        writing = at(kafka, reading.load().select("key", "value").writeStream)
        writing = writing.option("topic", target).option("checkpointLocation", str(tmp_path))
        writing.trigger(availableNow=True).start().awaitTermination()
        assert sorted(consumed(kafka.bootstrap_servers, target)) == sorted([*range(ROWS)] * times)


def test_a_transaction_that_somebody_else_aborted_is_not_read(kafka, spark, topic):
    target = topic("aborted")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": target}
    )
    producer.init_transactions(30)
    for commits in (True, False, True):
        producer.begin_transaction()
        for number in range(100):
            producer.produce(target, b"%d" % (number if commits else -1))
        producer.commit_transaction(30) if commits else producer.abort_transaction(30)
    assert read_by_spark(kafka, spark, target) == sorted([*range(100)] * 2)
