"""Spark's reads and writes: `format("tidelog")` beside the stock Kafka connector and Parquet.

Everything runs in one session, against a cluster of Tidelog and one of Apache Kafka, each of three
brokers on this machine, of which one stands still (SIGSTOP) while the other is measured. The
sides of a comparison on one cluster take turns, so that whatever else the machine does meets all;
then comes the other cluster. Figures are medians over the rounds, with the slowest and the fastest.
Reads go to Spark's `noop` sink. Streams are told twice: with the start of the query, and as they
run (batches after the first).
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json

from tidelog.bench.compare import kafka_jars
from tidelog.bench.compare.kafka import KafkaSystem
from tidelog.bench.compare.running import LocalCluster
from tidelog.bench.compare.system import SystemFailed, SystemMissing
from tidelog.bench.compare.tidelog_side import TidelogCluster, TidelogSystem
from tidelog.client import Client
from tidelog.client.links import PRODUCE
from tidelog.spark.failure import words_of
from tidelog.spark.session import open_session
from tidelog.wire.arrow import BatchSettings, Partitioner, encode_batches
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import ProduceResponse
from tidelog.wire.records import CODEC_NAMES, LZ4, NONE

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from spark_table import line_of, table_of

from support import stock_connector

PARTITIONS = 6
CHUNK_ROWS = 30_000
BATCH_BYTES = 16 * 1024
"""As large as Java's producer makes them by default."""
MEGABYTE = 1_000_000
CACHE = Path(__file__).parents[1] / ".cache"
TIDELOG, KAFKA = "Tidelog", f"Kafka {kafka_jars.VERSION}"
CALM_S = 5.0
"""How long everything has to be in sync before anything is measured on a cluster that stood."""
OURS, STOCK = "tidelog", "kafka"
JAVA, PYTHON, BROKERS = "Spark's Java", "Python", "brokers"
PLACES = (TIDELOG, KAFKA)
AT_ONCE = {"kafka.fetch.max.wait.ms": "10"}
"""The stock connector asks where a partition ends behind a fetch for records that are not there
yet, and waits half a second for each task that comes to an end (docs/spark.md)."""
CONSUMERS = "org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer$"
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
    place: str
    """The cluster that is asked; the other one stands still."""
    run: Callable[[], Steady | None]
    """Measured from its begin to its end, for a stream with the start of the query."""
    prepare: Callable[[], None] = lambda: None
    """Before each run, not measured."""
    is_ours: bool = False

    @property
    def label(self) -> str:
        return f"{self.name} on {self.place}"


class Comparison(NamedTuple):
    """Sides that do the same. Each of ours has a ratio against each of the others."""

    name: str
    load: Load
    sides: tuple[Side, ...]


class Taken(NamedTuple):
    """What the rounds of a side took."""

    rates: list[float]
    uses: list[dict[str, float]]
    """Of the processor, in seconds."""
    steady: list[Steady]

    def processor_seconds(self) -> float:
        return statistics.median(sum(each.values()) for each in self.uses)


class Clusters:
    """One of each system, if it can be had. One of them runs at a time."""

    def __init__(self, clusters: dict[str, LocalCluster]) -> None:
        self._clusters = clusters
        self._running: str | None = None
        for cluster in clusters.values():
            cluster.pause()

    def __contains__(self, place: str) -> bool:
        return place in self._clusters

    def at(self, place: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self._clusters[place].bootstrap_servers}

    def run(self, place: str) -> LocalCluster:
        """From now on this one runs, and is well."""
        cluster = self._clusters[place]
        if self._running != place:
            if self._running is not None:
                self._clusters[self._running].pause()
            cluster.resume()
            self._running = place
            cluster.wait_in_sync(CALM_S)
        return cluster

    def paths(self) -> list[str]:
        """The data directories of Tidelog's brokers."""
        cluster = self._clusters[TIDELOG]
        assert isinstance(cluster, TidelogCluster), cluster
        return list(cluster.log_dirs())


class Bench(NamedTuple):
    spark: SparkSession
    clusters: Clusters
    scratch: Path

    @property
    def stock_places(self) -> list[str]:
        return [each for each in PLACES if each in self.clusters]


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


def fill(cluster: LocalCluster, load: Load) -> None:
    """Write the topic, one batch per partition and request, many requests under way."""
    cluster.create_topic(load.topic, PARTITIONS, replication_factor=1)
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

    async def write() -> None:
        async with Client(cluster.bootstrap_servers) as client:
            await client.topic(load.topic)
            await asyncio.gather(*(write_partition(client, index) for index in range(PARTITIONS)))

    asyncio.run(write())


# ---- what is compared ----


def noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def both_connectors(
    bench: Bench, made: Callable[[str, str, dict[str, str]], Side], *, at_once: bool = False
) -> tuple[Side, ...]:
    """Ours on Tidelog, and the stock one wherever it can be; `at_once` also told not to wait."""
    sides = [made(OURS, TIDELOG, {})]
    sides += [made(STOCK, each, {}) for each in bench.stock_places]
    if at_once:
        sides.append(made(STOCK, TIDELOG, AT_ONCE))
    return tuple(sides)


def side_of(
    connector: str,
    place: str,
    options: dict[str, str],
    run: Callable[[], Steady | None],
    prepare: Callable[[], None] = lambda: None,
) -> Side:
    words = (f"{name.removeprefix('kafka.')}={value}" for name, value in options.items())
    return Side(" ".join([connector, *words]), place, run, prepare, is_ours=connector == OURS)


def read_batches(bench: Bench, load: Load) -> tuple[Side, ...]:
    def made(connector: str, place: str, options: dict[str, str]) -> Side:
        at = {**bench.clusters.at(place), "subscribe": load.topic, **options}
        reader = bench.spark.read.format(connector).options(**at)
        return side_of(connector, place, options, lambda: noop(reader.load()))

    return both_connectors(bench, made, at_once=True)


def read_json(bench: Bench, load: Load) -> tuple[Side, ...]:
    """Fields of values, parsed on the way or by Spark."""
    fields = "id bigint, user string, note string"

    def made(connector: str, place: str, options: dict[str, str]) -> Side:
        at = {**bench.clusters.at(place), "subscribe": load.topic, **options}
        reader = bench.spark.read.format(connector).options(**at)

        def run() -> None:
            if connector == OURS:
                noop(reader.schema(fields).option("valueFormat", "json").load())
            else:
                parsed = from_json(col("value").cast("string"), fields).alias("fields")
                noop(reader.load().select(parsed).select("fields.*"))

        return side_of(connector, place, options, run)

    return both_connectors(bench, made)


def read_streams(bench: Bench, load: Load, triggers: int) -> tuple[Side, ...]:
    """As many micro-batches as triggers, from the beginning to what is there. A query of ours
    starts a Python process, which users pay for too; how fast it runs then is told besides."""
    usual = {"subscribe": load.topic, "startingOffsets": "earliest"}
    if triggers > 1:
        usual["maxOffsetsPerTrigger"] = str(-(-load.rows // triggers))

    def made(connector: str, place: str, options: dict[str, str]) -> Side:
        at = {**bench.clusters.at(place), **usual, **options}
        run = partial(run_stream, bench, connector, at, load.rows)
        return side_of(connector, place, options, run)

    return both_connectors(bench, made, at_once=triggers == 1)


def run_stream(bench: Bench, connector: str, options: dict[str, str], rows: int) -> Steady:
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
        found = sum(each.numInputRows for each in progress)
        assert found == rows, (found, rows)
        return steady_of(progress)


def steady_of(progress: list[Any]) -> Steady:
    """From the second batch on, if there are several: the first one has more to find out."""
    counted = progress[1:] or progress
    rows = sum(each.numInputRows for each in counted)
    seconds = {
        phase: sum(each.durationMs[phase] for each in counted) / 1000
        for phase in ("triggerExecution", "addBatch")
    }
    return Steady(rows / seconds["triggerExecution"], rows / seconds["addBatch"])


def read_segments(bench: Bench, load: Load) -> tuple[Side, ...]:
    """The files of every broker, which must be on this machine."""
    at = {**bench.clusters.at(TIDELOG), "subscribe": load.topic}
    reader = bench.spark.read.format(OURS).options(path=",".join(bench.clusters.paths()), **at)
    stock = bench.spark.read.format(STOCK).options(**at)
    return (
        Side("tidelog segments", TIDELOG, lambda: noop(reader.load()), is_ours=True),
        side_of(STOCK, TIDELOG, {}, lambda: noop(stock.load())),
        Side("parquet", TIDELOG, lambda: noop(bench.spark.read.parquet(parquet_of(bench, load)))),
    )


def parquet_of(bench: Bench, load: Load) -> str:
    """The same rows as the topic has, written once."""
    path = bench.scratch / f"parquet-{load.topic}"
    if not path.exists():
        bench.clusters.run(TIDELOG)
        at = {**bench.clusters.at(TIDELOG), "subscribe": load.topic}
        rows = bench.spark.read.format(STOCK).options(**at).load()
        rows.write.option("compression", "none").parquet(str(path))
    return str(path)


def write_topic(bench: Bench, connector: str, place: str, load: Load, **options: str) -> Side:
    """Rows of Parquet into an empty topic."""
    label = "-".join([connector, *options.values()])
    made: list[str] = []

    def prepare() -> None:
        parquet_of(bench, load)
        cluster = bench.clusters.run(place)
        if made:
            cluster.delete_topic(made[-1])
        made.append(f"sink-{label}-{load.topic}-{len(made)}")
        cluster.create_topic(made[-1], PARTITIONS, replication_factor=1)

    def run() -> None:
        rows = bench.spark.read.parquet(parquet_of(bench, load)).select("key", "value")
        at = {**bench.clusters.at(place), "topic": made[-1], **options}
        rows.write.format(connector).options(**at).mode("append").save()

    return side_of(connector, place, options, run, prepare)


def write_topics(bench: Bench, load: Load) -> tuple[Side, ...]:
    return (
        write_topic(bench, OURS, TIDELOG, load),
        write_topic(bench, OURS, TIDELOG, load, exactlyOnce="false"),
        *(write_topic(bench, STOCK, each, load) for each in bench.stock_places),
    )


def comparisons(bench: Bench, loads: list[Load]) -> Iterator[Comparison]:
    plain = [load for load in loads if load.codec == NONE]
    for load in loads:
        yield Comparison(f"batch read, {load.label}", load, read_batches(bench, load))
    for load in plain:
        yield Comparison(f"fields of JSON, {load.label}", load, read_json(bench, load))
    for load in loads:
        for triggers, words in ((1, "one batch"), (5, "five batches")):
            sides = read_streams(bench, load, triggers)
            yield Comparison(f"stream in {words}, {load.label}", load, sides)
    for load in loads:
        yield Comparison(f"segments, {load.label}", load, read_segments(bench, load))
    for load in plain:
        yield Comparison(f"sink, {load.label}", load, write_topics(bench, load))


# ---- measuring ----


def processor_seconds() -> float:
    """What this process and all that come from it have used: brokers, Java, Python workers."""
    return sum(processor_uses().values())


def processor_uses() -> dict[str, float]:
    """The same, by who has used it."""
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
    uses = dict.fromkeys((JAVA, PYTHON, BROKERS), 0.0)
    for pid in ours & used.keys():
        uses[kind_of(pid)] += used[pid]
    return uses


def kind_of(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return PYTHON  # it has just ended, and Java and brokers stay
    if b"kafka.Kafka" in words or (b"tidelog" in words and b"node" in words):
        return BROKERS
    return JAVA if words[0].endswith(b"java") else PYTHON


def measure(bench: Bench, comparison: Comparison, rounds: int) -> list[dict[str, Any]]:
    """One round more than counts, for compilers and caches. A side that cannot run says why."""
    taken = {side.label: Taken([], [], []) for side in comparison.sides}
    refused: dict[str, str] = {}
    for place in bench.stock_places:
        sides = [side for side in comparison.sides if side.place == place]
        for number in range(rounds + 1):
            for side in sides:
                if side.label in refused:
                    continue
                try:
                    bench.clusters.run(place)
                    measure_once(side, comparison.load, taken[side.label] if number else None)
                except Exception as error:  # the border of a side: the others are still measured
                    refused[side.label] = words_of(error) or str(error).splitlines()[0]
        close_idle_consumers(bench.spark)
    others = {side.label: taken[side.label] for side in comparison.sides if not side.is_ours}
    results = []
    for side in comparison.sides:
        result: dict[str, Any] = {"comparison": comparison.name, "side": side.label}
        result.update(figures(taken[side.label], comparison.load))
        if side.is_ours:
            result["ratios"] = ratios(taken[side.label], others)
        if side.label in refused:
            result["refused"] = refused[side.label]
        results.append(result)
    return results


def measure_once(side: Side, load: Load, taken: Taken | None) -> None:
    side.prepare()
    os.sync()  # what the side before wrote is not for this one to wait for
    before = processor_uses()
    begin = time.perf_counter()
    steady = side.run()
    seconds = time.perf_counter() - begin
    if taken is None:
        return
    taken.rates.append(load.rows / seconds)
    taken.uses.append({kind: now - before[kind] for kind, now in processor_uses().items()})
    if steady is not None:
        taken.steady.append(steady)


def close_idle_consumers(spark: SparkSession) -> None:
    """The stock connector keeps its consumers for later. It has no call that closes them; and if it
    closes one whose cluster stands still, each waits half a minute for an answer."""
    java = spark._jvm
    assert java is not None, "the session has ended"
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    holder = java.java.lang.Class.forName(CONSUMERS, True, loader)
    pool = holder.getDeclaredField("consumerPool")
    pool.setAccessible(True)
    pool.get(holder.getField("MODULE$").get(None)).reset()


def figures(found: Taken, load: Load) -> dict[str, Any]:
    """What the rounds of a side come to."""
    if not found.rates:
        return {}
    median = statistics.median
    rate = median(found.rates)
    result: dict[str, Any] = {
        "rows_per_second": round(rate),
        "slowest": round(min(found.rates)),
        "fastest": round(max(found.rates)),
        "processor_seconds": round(found.processor_seconds(), 2),
        "processor_uses": {
            kind: round(median(each[kind] for each in found.uses), 2) for kind in found.uses[0]
        },
        "megabytes_per_second": round(rate * load.value_bytes / MEGABYTE),
    }
    for field in Steady._fields if found.steady else ():
        result[field] = round(median(getattr(each, field) for each in found.steady))
    return result


def ratios(ours: Taken, others: dict[str, Taken]) -> dict[str, dict[str, float]]:
    """How many times as fast as each of the others, and as it runs; and what part of its
    processor seconds that takes."""
    median = statistics.median
    found: dict[str, dict[str, float]] = {}
    for label, theirs in others.items():
        if not ours.rates or not theirs.rates:
            continue
        ratio = {
            "rate": median(ours.rates) / median(theirs.rates),
            "processor": ours.processor_seconds() / theirs.processor_seconds(),
        }
        if ours.steady and theirs.steady:
            ratio["running"] = median(
                each.trigger_rows_per_second for each in ours.steady
            ) / median(each.trigger_rows_per_second for each in theirs.steady)
        found[label] = {name: round(value, 2) for name, value in ratio.items()}
    return found


def session(scratch: Path, cores: int, conf: Mapping[str, str] | None = None) -> SparkSession:
    jars = ",".join(str(path) for path in stock_connector.jars())
    spark = open_session(
        "tidelog-bench",
        spark_url=f"local[{cores}]",
        conf={
            "spark.jars": jars,
            "spark.driver.memory": "2g",
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.local.dir": str(scratch / "spark"),
            **(conf or {}),
        },
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


@contextmanager
def clusters(wanted: bool) -> Iterator[Clusters]:
    """Both acknowledge what is in the page cache, as stock Kafka does."""
    with ExitStack() as stack:
        running: dict[str, LocalCluster] = {TIDELOG: stack.enter_context(TidelogSystem().start())}
        try:
            if wanted:
                system = KafkaSystem(kafka_jars.class_path(CACHE), kafka_jars.VERSION)
                running[KAFKA] = stack.enter_context(system.start())
        except (SystemMissing, SystemFailed) as reason:
            print(f"without {KAFKA}: {reason}", flush=True)
        yield Clusters(running)


def run(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    scale = 5 if arguments.quick else 1
    sizes = [(5_000_000 // scale, 100), (1_000_000 // scale, 1024)]
    whole = [(rows // CHUNK_ROWS * CHUNK_ROWS, size) for rows, size in sizes]
    loads = [Load(rows, size, codec) for rows, size in whole for codec in (NONE, LZ4)]
    wanted = re.compile(arguments.only)
    results = []
    scratch = Path(tempfile.mkdtemp(prefix="tidelog-spark-bench-"))
    with clusters(arguments.kafka) as places:
        spark = session(scratch, arguments.cores)
        bench = Bench(spark, places, scratch)
        try:
            filled: set[Load] = set()
            for comparison in comparisons(bench, loads):
                if not wanted.search(comparison.name):
                    continue
                if comparison.load not in filled:
                    for place in bench.stock_places:
                        fill(places.run(place), comparison.load)
                    filled.add(comparison.load)
                for result in measure(bench, comparison, arguments.rounds):
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
    parser.add_argument(
        "--no-kafka", dest="kafka", action="store_false", help="without a cluster of Kafka"
    )
    parser.add_argument(
        "--table", action="store_true", help="print the table of the results that are there"
    )
    arguments = parser.parse_args()
    if arguments.table:
        print(table_of(json.loads(arguments.json.read_text()), PLACES))
        return
    results = run(arguments)
    arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    print(table_of(results, PLACES))
    print(f"written to {arguments.json}")


if __name__ == "__main__":
    main()
