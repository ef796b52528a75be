"""Topics copied to another cluster: everything a record has, each once, in order."""

import pytest

from support.pipelines import Home, quick
from support.spark_story import write, write_records
from tidelog.client import Admin, Client, Consumer, NewRecord
from tidelog.client.admin import TOPIC_RESOURCE
from tidelog.client.offsets import LATEST, READ_COMMITTED, find_offset
from tidelog.testing import Cluster

TIME_MS = 1_714_979_289_000


@pytest.fixture(scope="module")
def other():
    with Cluster(brokers=1) as running:
        yield running


@pytest.fixture
def home(tmp_path, spark):
    with quick(spark):
        yield Home(tmp_path / "pipelines")


def records(cluster, topic, partition):
    """(key, value, headers, time) of what was committed, as its own reader of ours sees it."""

    async def story(client: Client):
        end = await find_offset(client, topic, partition, LATEST, isolation=READ_COMMITTED)
        consumer = Consumer(client, {(topic, partition): 0}, committed=True)
        read = []
        while consumer.positions[topic, partition] < end.offset:
            for fetched in (await consumer.read()).values():
                read += [each.record for each in fetched.reads]
        return read

    return [
        (each.key, each.value, list(each.headers), each.timestamp) for each in cluster.ask(story)
    ]


def test_a_mirror_keeps_partitions_order_and_all_that_records_have(home, cluster, other):
    topic = cluster.topic("mirrored", partitions=2, configs={"retention.ms": -1})
    for index in (0, 1):
        made = [
            NewRecord(
                None if each == 3 else f"v{each}".encode(),
                None if each == 2 else f"k{each % 2}".encode(),
                (("h", b"x"), ("n", None)) if each % 2 else (),
                TIME_MS + each,
                index,
            )
            for each in range(5 + index)
        ]
        write_records(cluster, topic, made)
    given = ["mirror", topic, "--from", cluster.bootstrap_servers, "--once"]
    given += ["--to", other.bootstrap_servers]
    ran = home.done(*given, "--max-records", "7")
    assert "made the topic mirrored" in ran.stderr
    assert len(ran.stdout.splitlines()) == 2
    write(cluster, topic, [6], partition=1)
    (batch,) = home.batches(*given)
    assert (batch["rows_in"], batch["lag"]) == (1, 0)
    assert [len(records(other, topic, index)) for index in (0, 1)] == [5, 7]
    for index in (0, 1):
        assert records(other, topic, index) == records(cluster, topic, index)
    assert home.batches(*given) == []

    async def retention(client: Client):
        known = await Admin(client).configs(TOPIC_RESOURCE, topic)
        return {each.name: each.value for each in known}["retention.ms"]

    assert other.ask(retention) == "-1", "old records are not gone as soon as they arrive"


def test_a_mirror_into_itself_or_into_too_few_partitions_is_refused(home, cluster, other):
    topic = cluster.topic("mirrored-badly", partitions=2)
    itself = ["mirror", topic, "--from", cluster.bootstrap_servers, "--once", "--to"]
    ran = home.run(*itself, cluster.bootstrap_servers)
    assert ran.code == 1
    assert "both sides are the same cluster" in ran.stderr
    other.topic("mirrored-badly", partitions=1)
    ran = home.run(*itself, other.bootstrap_servers)
    assert ran.code == 1
    assert "has 2 partitions, mirrored-badly over there has 1" in ran.stderr
    assert "tidelog topic add-partitions" in ran.stderr
