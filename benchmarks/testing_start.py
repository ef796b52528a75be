"""How long tests wait for a broker: Tidelog on threads and as processes, librdkafka's mock cluster,
and Apache Kafka.

    python benchmarks/testing_start.py [--times 20] [--without-kafka]

`per test` is from nothing to a topic that has taken a record, with a new broker or cluster for each
test; `first` is what the first one of a session takes, with all that is imported and read from the
disk; `shared` is for tests that share one broker, each with a topic of its own, and for the first
start in a new process. Medians, in wall time: run it on an idle machine.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tidelog.bench.compare.system import SystemMissing

ROOT = Path(__file__).resolve().parents[1]
RECORD_WITHIN_S = 60
CODE = """
import sys, time
began = time.perf_counter()
from tidelog.testing.cluster import Cluster
with Cluster(brokers=1, host="thread"):
    print(time.perf_counter() - began)
"""


class Row(NamedTuple):
    what: str
    brokers: int
    start: Callable[[], tuple[str, Callable[[], None]]]
    """Its address, and what ends it."""


def produce_one(servers: str, topic: str) -> None:
    from confluent_kafka import Producer  # noqa: PLC0415 - not counted

    producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
    failed: list[object] = []
    producer.produce(topic, b"x", on_delivery=lambda error, _: error and failed.append(error))
    if producer.flush(RECORD_WITHIN_S) or failed:
        raise SystemExit(f"{servers} did not take a record: {failed}")


def tidelog(brokers: int, host: str) -> tuple[str, Callable[[], None]]:
    from tidelog.testing.cluster import Cluster  # noqa: PLC0415

    cluster = Cluster(brokers=brokers, host=host)
    cluster.__enter__()
    return cluster.bootstrap_servers, cluster.close


def mock(brokers: int) -> tuple[str, Callable[[], None]]:
    """It lives as long as the client that made it."""
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    settings = {"bootstrap.servers": "none", "test.mock.num.brokers": brokers, "log_level": 0}
    owner = AdminClient(settings)
    known = owner.list_topics(timeout=RECORD_WITHIN_S).brokers.values()
    return ",".join(f"{each.host}:{each.port}" for each in known), lambda: owner.poll(0)


def kafka(brokers: int) -> tuple[str, Callable[[], None]]:
    from tidelog.bench.compare.kafka import KafkaSystem  # noqa: PLC0415
    from tidelog.bench.compare.kafka_jars import VERSION, class_path  # noqa: PLC0415

    system = KafkaSystem(class_path(ROOT / ".cache"), VERSION)
    cluster = system.start(brokers, {"min.insync.replicas": "1"})
    return cluster.bootstrap_servers, cluster.close


def per_test(row: Row, times: int) -> list[float]:
    took = []
    for number in range(times):
        began = time.perf_counter()
        servers, end = row.start()
        produce_one(servers, f"orders-{number}")
        took.append(time.perf_counter() - began)
        end()
    return took


def shared(times: int) -> float:
    from tidelog.testing.cluster import Cluster  # noqa: PLC0415
    from tidelog.testing.shared import SharedBroker  # noqa: PLC0415

    took = []
    with Cluster(brokers=1, host="thread") as cluster:
        for _ in range(times):
            began = time.perf_counter()
            broker = SharedBroker(cluster)
            produce_one(broker.bootstrap_servers, broker.topic("orders"))
            broker.clean_up()
            took.append(time.perf_counter() - began)
    return statistics.median(took)


def first_start() -> float:
    """In a new process, imports included."""
    told = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True
    )
    return float(told.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description="Start-up of brokers for tests.")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--without-kafka", action="store_true")
    options = parser.parse_args()
    rows = [
        Row("tidelog, threads", 1, lambda: tidelog(1, "thread")),
        Row("tidelog, threads", 3, lambda: tidelog(3, "thread")),
        Row("tidelog, processes", 1, lambda: tidelog(1, "process")),
        Row("tidelog, processes", 3, lambda: tidelog(3, "process")),
        Row("librdkafka mock", 3, lambda: mock(3)),
    ]
    if not options.without_kafka:
        rows.append(Row("Apache Kafka", 1, lambda: kafka(1)))
    print(f"{'':20} {'brokers':>7}  {'first':>8}  {'per test':>8}")
    for row in rows:
        few = options.times if "thread" in row.what or "mock" in row.what else 3
        try:
            took = per_test(row, few)
        except SystemMissing as reason:
            print(f"{row.what:20} left out: {reason}")
            continue
        middle = statistics.median(took[1:] or took)
        print(f"{row.what:20} {row.brokers:>7}  {took[0]:>7.3f}s  {middle:>7.3f}s", flush=True)
    print(f"{'tidelog, shared':20} {1:>7}  {first_start():>7.3f}s  {shared(options.times):>7.3f}s")


if __name__ == "__main__":
    main()
