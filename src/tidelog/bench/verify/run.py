"""Several producers at full speed, then every record of every partition, one by one."""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.audit import replica_logs
from tidelog.audit.ledger import Found, Ledger, Verdict, name_of
from tidelog.bench.compare.system import SystemFailed
from tidelog.bench.compare.tidelog_side import TidelogCluster, TidelogSystem
from tidelog.bench.compare.topics import library
from tidelog.bench.verify.producing import TOPIC, Work, write_all
from tidelog.bench.verify.values import value_of

ANSWER_WITHIN_S = 20.0
STANDSTILL_S = 30.0
CATCH_UP_S = 30.0
POLL_S = 0.05
BATCH_MAX = 5_000
TURN_S = 0.2
"""A read waits so long for a whole batch."""

OnStep = Callable[[str], None]


class Outcome(NamedTuple):
    verdict: Verdict
    changed: int
    """Records whose bytes are not those that were sent."""
    diverging: list[str]
    """Partitions whose replicas are not the same, and how."""
    refused: list[str]
    write_seconds: float

    @property
    def is_clean(self) -> bool:
        return self.verdict.holds and not self.changed and not self.diverging


def run(work: Work, on_step: OnStep) -> Outcome:
    """On a cluster of its own. SystemFailed when it, or a client, did not do its work."""
    on_step("starting three brokers")
    settings = {"ack.durability": work.durability}
    with TidelogSystem().start(3, settings) as cluster:
        cluster.create_topic(TOPIC, work.partitions)
        on_step(f"{work.producers} producers write {work.records} records each")
        ledger, begin = Ledger(), time.monotonic()
        refused = write_all(cluster.bootstrap_servers, work, ledger)
        write_seconds = time.monotonic() - begin
        on_step("reading everything back")
        ends = ends_of(cluster.bootstrap_servers, work.partitions)
        judged = Judged(work.record_bytes)
        verdict = ledger.judge(judged.each(read_all(cluster.bootstrap_servers, ends)))
        on_step("comparing the replicas")
        diverging = compared(cluster, ends)
    return Outcome(verdict, judged.changed, diverging, refused, write_seconds)


class Judged:
    """Passes records on, and counts those that are not what their name says."""

    __slots__ = ("_size_bytes", "changed")

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self.changed = 0

    def each(self, found: Iterator[Found]) -> Iterator[Found]:
        for record in found:
            name = name_of(record.value)
            self.changed += name is None or record.value != value_of(*name, self._size_bytes)
            yield record


def ends_of(bootstrap_servers: str, partitions: int) -> dict[int, int]:
    """The high watermark of each partition."""
    consumer = _consumer(bootstrap_servers)
    where = library().TopicPartition
    try:
        return {
            each: consumer.get_watermark_offsets(where(TOPIC, each), timeout=ANSWER_WITHIN_S)[1]
            for each in range(partitions)
        }
    finally:
        consumer.close()


def read_all(bootstrap_servers: str, ends: Mapping[int, int]) -> Iterator[Found]:
    """Every record below the ends, in the order of each partition."""
    consumer = _consumer(bootstrap_servers)
    where = library().TopicPartition
    consumer.assign([where(TOPIC, partition, 0) for partition in ends])
    left = {partition for partition, end in ends.items() if end > 0}
    try:
        while left:
            for message in _batch(consumer, left):
                partition, offset = message.partition(), message.offset()
                yield Found(partition, offset, message.value() or b"")
                if offset >= ends[partition] - 1:
                    left.discard(partition)
    finally:
        consumer.close()


def _batch(consumer: Any, left: set[int]) -> list[Any]:
    deadline = time.monotonic() + STANDSTILL_S
    while not (batch := consumer.consume(BATCH_MAX, TURN_S)):
        if time.monotonic() >= deadline:
            raise SystemFailed(f"nothing more can be read of the partitions {sorted(left)}")
    broken = next((each.error() for each in batch if each.error() is not None), None)
    if broken is not None:
        raise SystemFailed(f"the records cannot be read back: {broken}")
    return list(batch)


def compared(cluster: TidelogCluster, ends: Mapping[int, int]) -> list[str]:
    """Partitions whose replicas differ. A follower may not have written yet what its next fetch
    will bring, so one that lags gets a while."""
    directories = {
        node_id: Path(place)
        for node_id, place in zip(cluster.node_ids, cluster.log_dirs(), strict=True)
    }
    deadline = time.monotonic() + CATCH_UP_S
    diverging = []
    for partition, end in ends.items():
        name = f"{TOPIC}-{partition}"
        found = replica_logs.compare(directories, name, end)
        while found.verdict == replica_logs.LAGGING and time.monotonic() < deadline:
            time.sleep(POLL_S)
            found = replica_logs.compare(directories, name, end)
        if found.verdict != replica_logs.IDENTICAL:
            diverging.append(f"{name}: {found.verdict}")
    return diverging


def _consumer(bootstrap_servers: str) -> Any:
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": "verify", "log_level": 0}
    return library().Consumer({**settings, "enable.auto.commit": False})
