"""How long a node needs to be in sync again: after SIGKILL with much log or many partitions, and
when all nodes are restarted in order, one after the other.

A killed node is started when the others have put it out of every ISR. Kafka refuses a broker that
comes back before its session has ended; that wait belongs to the failover, not to the recovery.
"""

import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any, NamedTuple

from tidelog.bench.compare.footprint import age_of
from tidelog.bench.compare.gaps import SteadyLoad
from tidelog.bench.compare.system import Row, Running, Scale, System
from tidelog.bench.compare.topics import ANSWER_WITHIN_S, library, wait_until
from tidelog.bench.compare.writing import write_bytes

SECTION = "recovery"
MEGABYTE = 1_000_000
LOG_PARTITIONS = 3
LOG_RECORD_BYTES = 10_000
SMALL_RECORD_BYTES = 100
RECORDS_PER_PARTITION = 10


class RecoverySize(NamedTuple):
    log_bytes: int
    partitions: int


SIZES: Mapping[Scale, RecoverySize] = {
    Scale.TINY: RecoverySize(MEGABYTE, 10),
    Scale.QUICK: RecoverySize(200 * MEGABYTE, 100),
    Scale.FULL: RecoverySize(2_000 * MEGABYTE, 1_000),
}


class RecoverySection:
    __slots__ = ("_size", "rows")

    name = SECTION
    rounds_max: int | None = 2

    def __init__(self, scale: Scale) -> None:
        self._size = SIZES[scale]
        self.rows = rows_of(self._size)

    def measure(self, system: System, round_number: int) -> Mapping[str, float]:
        return {
            **measure_log(system, round_number, self._size.log_bytes),
            **measure_partitions(system, round_number, self._size.partitions),
        }


def rows_of(size: RecoverySize) -> tuple[Row, ...]:
    log = f"{size.log_bytes / MEGABYTE:,.0f} MB of log"
    titles = (
        ("recovery.log_s", f"SIGKILL with {log}: start to in sync", "s"),
        ("recovery.partitions_s", f"SIGKILL with {size.partitions:,} partitions: the same", "s"),
        ("recovery.rolling_s", f"clean rolling restart of 3 nodes, {log}", "s"),
        ("recovery.rolling_gap_ms", "no acknowledgement during the rolling restart", "ms"),
    )
    return tuple(
        Row(key, title, unit, more_is_better=False, section=SECTION) for key, title, unit in titles
    )


def measure_log(system: System, round_number: int, log_bytes: int) -> dict[str, float]:
    """All of it in segments that are still written to: what has to be looked through."""
    with closing(system.start(3)) as running:
        topic = f"log-{round_number}"
        running.create_topic(topic, LOG_PARTITIONS)
        write_bytes(
            running.bootstrap_servers,
            topic,
            LOG_PARTITIONS,
            total_bytes=log_bytes,
            record_bytes=LOG_RECORD_BYTES,
        )
        running.wait_in_sync()
        found = {"recovery.log_s": recovery_s(running, running.leader(topic))}
        found.update(rolling_restart(running, f"rolling-{round_number}"))
        return found


def measure_partitions(system: System, round_number: int, partitions: int) -> dict[str, float]:
    """Each with a few records, as a cluster that was used."""
    with closing(system.start(3)) as running:
        topic = f"many-{round_number}"
        running.create_topic(topic, partitions)
        write_bytes(
            running.bootstrap_servers,
            topic,
            partitions,
            total_bytes=partitions * RECORDS_PER_PARTITION * SMALL_RECORD_BYTES,
            record_bytes=SMALL_RECORD_BYTES,
        )
        running.wait_in_sync()
        return {"recovery.partitions_s": recovery_s(running, running.leader(topic))}


def recovery_s(running: Running, node_id: int) -> float:
    """From the start of the process to the ISR of all its partitions."""
    running.kill(node_id)
    wait_out_of_sync(running, node_id)
    running.restart(node_id)
    running.wait_in_sync()
    return age_of(running.pid(node_id))


def rolling_restart(running: Running, topic: str) -> dict[str, float]:
    """Each node in turn: stopped, started, in sync again."""
    running.create_topic(topic, 1)
    with SteadyLoad(running.bootstrap_servers, topic) as load:
        begin = time.monotonic()
        for node_id in running.node_ids:
            running.stop(node_id)
            running.restart(node_id)
            running.wait_in_sync()
        total_s = time.monotonic() - begin
        load.wait_steady(time.monotonic())
        return {"recovery.rolling_s": total_s, "recovery.rolling_gap_ms": load.gap_ms(begin)}


def wait_out_of_sync(running: Running, node_id: int) -> None:
    """Until no ISR counts on the node."""
    settings = {"bootstrap.servers": running.bootstrap_servers, "log_level": 0}
    admin = library("confluent_kafka.admin").AdminClient(settings)
    wait_until(
        lambda: node_id not in counted_on(admin), f"no ISR counts on node {node_id}, which is gone"
    )


def counted_on(admin: Any) -> set[int]:
    """Everybody who is in the ISR of some partition."""
    topics = admin.list_topics(timeout=ANSWER_WITHIN_S).topics.values()
    return {
        node_id
        for topic in topics
        for partition in topic.partitions.values()
        for node_id in partition.isrs
    }
