"""Spark's reads and writes: `format("tidelog")` beside the stock Kafka connector and Parquet.

Everything runs in one session against one cluster of three brokers on this machine. The sides of
a comparison take turns, so that whatever else the machine does meets both; figures are medians
over the rounds, with the slowest and the fastest. Reads go to Spark's `noop` sink. Streams are
told twice: with the start of the query, and as they run (batches after the first).
"""

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json

from tidelog.client import Admin, Client
from tidelog.client.links import PRODUCE
from tidelog.spark.failure import words_of
from tidelog.spark.session import open_session
from tidelog.testing import Cluster
from tidelog.wire.arrow import BatchSettings, Partitioner, encode_batches
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import ProduceResponse
from tidelog.wire.records import CODEC_NAMES, LZ4, NONE

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support import stock_connector

PARTITIONS = 6
CHUNK_ROWS = 30_000
BATCH_BYTES = 16 * 1024
"""As large as Java's producer makes them by default."""
MEGABYTE = 1_000_000
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Load(NamedTuple):
    """So many records of this size in a topic."""

    rows: int
    value_bytes: int
    codec: int

    @property
    def topic(self) -> str:
        return f"bench-{self.value_bytes}-{CODEC_NAMES[self.codec]}"

    @property
    def label(self) -> str:
        return f"{self.value_bytes} B {CODEC_NAMES[self.codec]}"


class Steady(NamedTuple):
    """How fast a stream is once it runs: rows a second of its triggers, and of `addBatch` alone,
    which leaves out planning and the checkpoint."""

    trigger_rows_per_second: float
    add_batch_rows_per_second: float


class Side(NamedTuple):
    """One way to do it."""

    name: str
    run: Callable[[], Steady | None]
    """Measured from its begin to its end, for a stream with the start of the query."""
    prepare: Callable[[], None] = lambda: None
    """Before each run, not measured."""


class Comparison(NamedTuple):
    """Sides that do the same. Ratios are against the last one."""

    name: str
    load: Load
    sides: tuple[Side, ...]


class Taken(NamedTuple):
    """What the rounds of a side took."""

    rates: list[float]
    processor_seconds: list[float]
    steady: list[Steady]


class Bench(NamedTuple):
    spark: SparkSession
    cluster: Cluster
    scratch: Path

    @property
    def at(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.cluster.bootstrap_servers}


# ---- topics ----


def rows_of(load: Load) -> pa.RecordBatch:
    """Rows that compress to about half: random letters in fields with names."""
    chance = random.Random(load.value_bytes)  # noqa: S311 - the same in every run
    values = []
    for n in range(CHUNK_ROWS):
        fixed = f'{{"id":{10**7 + n},"user":"{chance.randrange(10**6):06d}","note":"'
        note = chance.randbytes(load.value_bytes // 2).hex()
        values.append((fixed + note)[: load.value_bytes - 2].ljust(load.value_bytes - 2) + '"}')
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"%08d" % n for n in range(CHUNK_ROWS)], pa.binary()),
            "value": pa.array(values, pa.string()).cast(pa.binary()),
            "partition": pa.array([n % PARTITIONS for n in range(CHUNK_ROWS)], pa.int32()),
        }
    )


def fill(cluster: Cluster, load: Load) -> None:
    """Write the topic, one batch per partition and request, many requests under way."""
    cluster.topic(load.topic, partitions=PARTITIONS, replication_factor=1)
    settings = BatchSettings(codec=load.codec, max_batch_bytes=BATCH_BYTES)
    now_ms = int(time.time() * 1000)
    batches = encode_batches(
        rows_of(load), Partitioner(PARTITIONS), timestamp_ms=now_ms, settings=settings
    )
    times = load.rows // CHUNK_ROWS

    async def write_partition(client: Client, index: int) -> None:
        leader = (await client.partition(load.topic, index)).leader
        assert leader is not None, index
        under_way = asyncio.Semaphore(8)

        async def send(batch: Any) -> None:
            data = PartitionProduceData(index=index, records=batch)
            topic = TopicProduceData(name=load.topic, partition_data=[data])
            request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
            async with under_way:
                answer = await client.ask_broker(
                    leader, request, ProduceResponse, purpose=PRODUCE, timeout_ms=30_000
                )
            code = answer.responses[0].partition_responses[0].error_code
            assert not code, (load.topic, index, code)

        for _ in range(times):
            await asyncio.gather(*(send(batch) for batch in batches[index]))

    async def write(client: Client) -> None:
        await client.topic(load.topic)
        await asyncio.gather(*(write_partition(client, index) for index in range(PARTITIONS)))

    cluster.ask(write)


# ---- what is compared ----


def noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def read_batch(bench: Bench, connector: str, load: Load) -> Side:
    reader = bench.spark.read.format(connector).options(**bench.at, subscribe=load.topic)
    return Side(connector, lambda: noop(reader.load()))


def read_json(bench: Bench, connector: str, load: Load) -> Side:
    """Fields of values, parsed on the way or by Spark."""
    fields = "id bigint, user string, note string"
    reader = bench.spark.read.format(connector).options(**bench.at, subscribe=load.topic)

    def run() -> None:
        if connector == "tidelog":
            noop(reader.schema(fields).option("valueFormat", "json").load())
        else:
            parsed = from_json(col("value").cast("string"), fields).alias("fields")
            noop(reader.load().select(parsed).select("fields.*"))

    return Side(connector, run)


def read_stream(bench: Bench, connector: str, load: Load, triggers: int) -> Side:
    """As many micro-batches as triggers, from the beginning to what is there. A query of ours
    starts a Python process, which users pay for too; how fast it runs then is told besides."""
    options = {**bench.at, "subscribe": load.topic, "startingOffsets": "earliest"}
    if triggers > 1:
        options["maxOffsetsPerTrigger"] = str(-(-load.rows // triggers))

    def run() -> Steady:
        with tempfile.TemporaryDirectory(dir=bench.scratch) as checkpoint:
            query = (
                bench.spark.readStream.format(connector)
                .options(**options)
                .load()
                .writeStream.format("noop")
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            progress = [each for each in query.recentProgress if each.numInputRows]
            rows = sum(each.numInputRows for each in progress)
            assert rows == load.rows, (rows, load.rows)
            return steady_of(progress)

    return Side(connector, run)


def steady_of(progress: list[Any]) -> Steady:
    """From the second batch on, if there are several: the first one has more to find out."""
    counted = progress[1:] or progress
    rows = sum(each.numInputRows for each in counted)
    seconds = {
        phase: sum(each.durationMs[phase] for each in counted) / 1000
        for phase in ("triggerExecution", "addBatch")
    }
    return Steady(rows / seconds["triggerExecution"], rows / seconds["addBatch"])


def read_segments(bench: Bench, load: Load) -> Side:
    """The files of every broker, which must be on this machine."""
    paths = [str(bench.cluster.data_dir(each)) for each in bench.cluster.brokers]
    options = {**bench.at, "path": ",".join(paths), "subscribe": load.topic}
    reader = bench.spark.read.format("tidelog").options(**options)
    return Side("tidelog segments", lambda: noop(reader.load()))


def read_parquet(bench: Bench, load: Load) -> Side:
    return Side("parquet", lambda: noop(bench.spark.read.parquet(parquet_of(bench, load))))


def parquet_of(bench: Bench, load: Load) -> str:
    """The same rows as the topic has, written once."""
    path = bench.scratch / f"parquet-{load.topic}"
    if not path.exists():
        reader = bench.spark.read.format("kafka").options(**bench.at, subscribe=load.topic)
        reader.load().write.option("compression", "none").parquet(str(path))
    return str(path)


def write_topic(bench: Bench, connector: str, load: Load, **options: str) -> Side:
    """Rows of Parquet into an empty topic."""
    label = " ".join([connector, *(f"{name}={value}" for name, value in options.items())])
    stem = f"sink-{re.sub('[^a-z]', '-', label)}-{load.topic}"
    made: list[str] = []

    def prepare() -> None:
        parquet_of(bench, load)
        if made:
            bench.cluster.ask(lambda client: Admin(client).delete_topic(made[-1]))
        target = f"{stem}-{len(made)}"
        made.append(bench.cluster.topic(target, PARTITIONS, replication_factor=1))

    def run() -> None:
        rows = bench.spark.read.parquet(parquet_of(bench, load)).select("key", "value")
        writer = rows.write.format(connector).options(**bench.at, topic=made[-1], **options)
        writer.mode("append").save()

    return Side(label, run, prepare)


def comparisons(bench: Bench, loads: list[Load]) -> Iterator[Comparison]:
    for load in loads:
        sides = tuple(read_batch(bench, each, load) for each in ("tidelog", "kafka"))
        yield Comparison(f"batch read, {load.label}", load, sides)
    for load in loads:
        if load.codec == NONE:
            sides = tuple(read_json(bench, each, load) for each in ("tidelog", "kafka"))
            yield Comparison(f"fields of JSON, {load.label}", load, sides)
    for load in loads:
        for triggers, words in ((1, "one batch"), (5, "five batches")):
            sides = tuple(read_stream(bench, each, load, triggers) for each in ("tidelog", "kafka"))
            yield Comparison(f"stream in {words}, {load.label}", load, sides)
    for load in loads:
        sides = (read_segments(bench, load), read_parquet(bench, load))
        yield Comparison(f"segments, {load.label}", load, sides)
    for load in loads:
        if load.codec == NONE:
            sides = (
                write_topic(bench, "tidelog", load),
                write_topic(bench, "tidelog", load, exactlyOnce="false"),
                write_topic(bench, "kafka", load),
            )
            yield Comparison(f"sink, {load.label}", load, sides)


# ---- measuring ----


def processor_seconds() -> float:
    """What this process and all that come from it have used: brokers, Java, Python workers."""
    used: dict[int, float] = {}
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text("ascii", "replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        pid = int(path.parent.name)
        parents[pid] = int(fields[1])
        used[pid] = sum(map(int, fields[11:15])) / TICKS_PER_SECOND
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(used.get(pid, 0.0) for pid in ours)


def measure(comparison: Comparison, rounds: int) -> list[dict[str, Any]]:
    """One round more than counts, for compilers and caches. A side that cannot run says why."""
    taken = {side.name: Taken([], [], []) for side in comparison.sides}
    refused: dict[str, str] = {}
    for number in range(rounds + 1):
        for side in comparison.sides:
            if side.name in refused:
                continue
            try:
                side.prepare()
                before = processor_seconds()
                begin = time.perf_counter()
                steady = side.run()
                seconds = time.perf_counter() - begin
            except Exception as error:  # the border of a side: the others are measured all the same
                refused[side.name] = words_of(error) or str(error).splitlines()[0]
                continue
            if number:
                taken[side.name].rates.append(comparison.load.rows / seconds)
                taken[side.name].processor_seconds.append(processor_seconds() - before)
                if steady is not None:
                    taken[side.name].steady.append(steady)
    base = taken[comparison.sides[-1].name]
    results = []
    for name, found in taken.items():
        result = {"comparison": comparison.name, "side": name}
        result.update(figures(found, base, comparison.load))
        if name in refused:
            result["refused"] = refused[name]
        results.append(result)
    return results


def figures(found: Taken, base: Taken, load: Load) -> dict[str, Any]:
    """What the rounds of a side come to, also against those of the last one."""
    if not found.rates:
        return {}
    median = statistics.median
    rate = median(found.rates)
    result: dict[str, Any] = {
        "rows_per_second": round(rate),
        "slowest": round(min(found.rates)),
        "fastest": round(max(found.rates)),
        "processor_seconds": round(median(found.processor_seconds), 2),
        "megabytes_per_second": round(rate * load.value_bytes / MEGABYTE),
    }
    if base.rates:
        result["ratio"] = round(rate / median(base.rates), 2)
    if found.steady:
        for field in Steady._fields:
            rate = median(getattr(each, field) for each in found.steady)
            result[field] = round(rate)
            if base.steady:
                theirs = median(getattr(each, field) for each in base.steady)
                result[f"{field}_ratio"] = round(rate / theirs, 2)
    return result


def line_of(result: dict[str, Any]) -> str:
    begin = f"{result['comparison']:38} {result['side']:28}"
    if "rows_per_second" not in result:
        return f"{begin} not measured: {result.get('refused')}"
    rate, low, high = (
        result[name] / MEGABYTE for name in ("rows_per_second", "slowest", "fastest")
    )
    ratio = f"{result['ratio']:5.2f} ×" if "ratio" in result else ""
    megabytes, processor = result["megabytes_per_second"], result["processor_seconds"]
    spread = f"({low:.2f} to {high:.2f})"
    line = f"{begin} {rate:6.2f} M/s {spread:16} {megabytes:5d} MB/s {processor:6.1f} cpu s {ratio}"
    if "trigger_rows_per_second" not in result:
        return line
    running = result["trigger_rows_per_second"] / MEGABYTE
    against = result.get("trigger_rows_per_second_ratio")
    return f"{line}; running {running:6.2f} M/s" + ("" if against is None else f" {against:5.2f} ×")


def session(scratch: Path, cores: int) -> SparkSession:
    jars = ",".join(str(path) for path in stock_connector.jars())
    spark = open_session(
        "tidelog-bench",
        spark_url=f"local[{cores}]",
        conf={
            "spark.jars": jars,
            "spark.driver.memory": "2g",
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.local.dir": str(scratch / "spark"),
        },
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def run(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    scale = 5 if arguments.quick else 1
    sizes = [(5_000_000 // scale, 100), (1_000_000 // scale, 1024)]
    whole = [(rows // CHUNK_ROWS * CHUNK_ROWS, size) for rows, size in sizes]
    loads = [Load(rows, size, codec) for rows, size in whole for codec in (NONE, LZ4)]
    wanted = re.compile(arguments.only)
    results = []
    scratch = Path(tempfile.mkdtemp(prefix="tidelog-spark-bench-"))
    with Cluster(brokers=3) as cluster:
        spark = session(scratch, arguments.cores)
        try:
            filled: set[Load] = set()
            for comparison in comparisons(Bench(spark, cluster, scratch), loads):
                if not wanted.search(comparison.name):
                    continue
                if comparison.load not in filled:
                    fill(cluster, comparison.load)
                    filled.add(comparison.load)
                for result in measure(comparison, arguments.rounds):
                    results.append(result)
                    print(line_of(result), flush=True)
        finally:
            spark.stop()
            shutil.rmtree(scratch, ignore_errors=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of the records")
    parser.add_argument("--rounds", type=int, default=3, help="that count, after one that does not")
    parser.add_argument("--only", default="", help="comparisons whose name has this pattern")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="tasks at once")
    parser.add_argument("--json", type=Path, default=Path("spark-bench.json"), help="results")
    arguments = parser.parse_args()
    results = run(arguments)
    arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    print(f"written to {arguments.json}")


if __name__ == "__main__":
    main()
