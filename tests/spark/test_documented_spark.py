"""What docs/spark.md and the README show, done; and the example beside them."""

import contextlib
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

from tidelog.client import Client, Consumer, NewRecord, Producer
from tidelog.client.offsets import LATEST, find_offset
from tidelog.spark.pipelines import revenue as pipeline
from tidelog.testing import Cluster

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "streaming-revenue"


def blocks(path, language):
    text = (ROOT / path).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def orders(count):
    """As the example's own program prints them."""
    ran = subprocess.run(
        [sys.executable, str(EXAMPLE / "orders.py"), str(count)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


def write(cluster, lines):
    async def produce(client: Client) -> None:
        records = [NewRecord(each["value"].encode(), key=each["key"].encode()) for each in lines]
        await Producer(client).write("orders", records)

    cluster.ask(produce)


def committed(cluster, topic):
    async def read(client: Client) -> list[bytes]:
        count = len((await client.topic(topic)).partitions)
        ends = {
            each: (await find_offset(client, topic, each, LATEST)).offset for each in range(count)
        }
        consumer = Consumer(client, {(topic, each): 0 for each in ends}, committed=True)
        found: list[bytes] = []
        while any(consumer.positions[topic, each] < end for each, end in ends.items()):
            for answer in (await consumer.read()).values():
                found += [bytes(each.record.value) for each in answer.reads]
        return found

    return cluster.ask(read)


@pytest.fixture(scope="module")
def shop():
    """A cluster of its own: the documents call their topics `orders` and `revenue`."""
    with Cluster(brokers=1) as cluster:
        for topic, partitions in (
            ("orders", 2),
            ("revenue", 1),
            ("loud-orders", 1),
            ("order-counts", 1),
        ):
            cluster.topic(topic, partitions)
        write(cluster, orders(400))
        yield cluster


@pytest.mark.long
def test_everything_that_the_spark_page_shows_runs(spark, shop, tmp_path):
    places = {
        "localhost:9092": shop.bootstrap_servers,
        "/var/lib/tidelog": str(shop.data_dir(1)),
        '"checkpoints/': f'"{tmp_path}/',
    }
    known = {}
    for block in blocks("docs/spark.md", "python"):
        program = block
        for shown, here in places.items():
            program = program.replace(shown, here)
        exec(program, known)
    with contextlib.suppress(Exception):
        spark.streams.removeListener(known["listener"])
    assert known["orders"].count() == known["history"].count() == 401
    loud = committed(shop, "loud-orders")
    assert len(loud) == 401
    assert all(value == value.upper() for value in loud)
    assert sum(map(int, committed(shop, "order-counts"))) == 401
    assert known["typed"].where("quantity is null or event_time is null").count() == 0
    assert known["batches"].where("not crcOk").count() == 0
    (table,) = blocks("docs/spark.md", "sql")
    spark.sql(table.replace("localhost:9092", shop.bootstrap_servers))
    assert spark.table("live_orders").count() == 401
    spark.sql("drop table live_orders")


def test_spark_refuses_what_the_page_says_it_refuses(spark, shop, tmp_path):
    page = (ROOT / "docs" / "spark.md").read_text("utf-8")
    servers = {"kafka.bootstrap.servers": shop.bootstrap_servers}
    to = {**servers, "topic": "revenue"}
    rows = spark.range(1).selectExpr("cast(id as string) as value")
    with pytest.raises(AnalysisException) as refused:
        rows.write.format("tidelog").options(**to).mode("ignore").save()
    assert refused.value.getCondition() == "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"
    assert refused.value.getCondition() in page
    source = spark.readStream.format("tidelog").options(**servers, subscribe="orders")
    stream = source.options(startingOffsets="earliest").schema("value binary").load()
    query = (
        stream.groupBy("value")
        .count()
        .writeStream.format("tidelog")
        .options(**to, checkpointLocation=str(tmp_path))
        .outputMode("update")
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(StreamingQueryException, match="does not support Update mode"):
        query.awaitTermination()
    assert "does not support Update mode" in page


def test_the_spark_lines_of_the_readme_run(spark, shop):
    (program,) = [each for each in blocks("README.md", "python") if "pyspark" in each]
    known = {}
    exec(program.replace("localhost:9092", shop.bootstrap_servers), known)
    assert known["orders"].count() == 401


@pytest.mark.long
def test_the_example_writes_every_minute_once(spark, shop, tmp_path):
    spec = importlib.util.spec_from_file_location("revenue_example", EXAMPLE / "revenue.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    for _ in range(2):  # again: nothing is new, and nothing is written
        example.main(shop.bootstrap_servers, once=True, checkpoint=str(tmp_path))
    sold, number = Counter(), Counter()
    for each in orders(400)[:-1]:
        value = json.loads(each["value"])
        window = value["event_time"][:16], value["currency"]
        sold[window] += round(value["quantity"] * value["unit_price"] * 100)
        number[window] += 1
    found = [json.loads(value) for value in committed(shop, "revenue")]
    windows = [(each["minute"][:16], each["currency"]) for each in found]
    assert len(windows) == len(set(windows)) == 20
    assert {
        window: (each["orders"], round(each["revenue"] * 100))
        for window, each in zip(windows, found, strict=True)
    } == {window: (number[window], sold[window]) for window in sold}


def test_the_example_is_what_the_demo_runs():
    text = (EXAMPLE / "revenue.py").read_text("utf-8")
    assert inspect.getsource(pipeline.revenue_per_minute) in text
    assert pipeline.ORDER in text
