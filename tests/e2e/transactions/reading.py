"""What lies in the partitions of a cluster, as those read it who want committed records only."""

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import confluent_kafka

from tidelog.audit import replica_logs
from tidelog.client import Client, Consumer
from tidelog.client.coordinator import OF_GROUP, OF_TRANSACTION, find_coordinator
from tidelog.client.offsets import LATEST, READ_COMMITTED, find_offset
from tidelog.testing import Cluster

GUARD_S = 40.0
GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


class Seen(NamedTuple):
    offset: int
    value: bytes


class Ends(NamedTuple):
    stable: int
    high_watermark: int


def group_coordinator(cluster: Cluster, group: str) -> int:
    return cluster.ask(lambda client: find_coordinator(client, OF_GROUP, group))


def transaction_coordinator(cluster: Cluster, name: str) -> int:
    return cluster.ask(lambda client: find_coordinator(client, OF_TRANSACTION, name))


def ends_of(cluster: Cluster, topic: str, partition: int) -> Ends:
    async def ask(client: Client) -> Ends:
        stable = await find_offset(client, topic, partition, LATEST, isolation=READ_COMMITTED)
        return Ends(stable.offset, (await find_offset(client, topic, partition, LATEST)).offset)

    return cluster.ask(ask)


def places_of(cluster: Cluster, topics: Iterable[str]) -> list[tuple[str, int]]:
    async def ask(client: Client) -> list[tuple[str, int]]:
        return [
            (topic, each.partition)
            for topic in topics
            for each in (await client.topic(topic)).partitions
        ]

    return cluster.ask(ask)


def wait_stable(cluster: Cluster, *topics: str) -> None:
    """Until no transaction is open in any of them: an end is decided before it is written."""
    for topic, partition in places_of(cluster, topics):
        try:
            cluster.wait(lambda at=(topic, partition): _is_stable(cluster, *at), GUARD_S)
        except TimeoutError as hanging:
            hanging.add_note(f"{topic}-{partition}: {ends_of(cluster, topic, partition)}")
            raise


def _is_stable(cluster: Cluster, topic: str, partition: int) -> bool:
    ends = ends_of(cluster, topic, partition)
    return ends.stable == ends.high_watermark


def wait_in_sync(cluster: Cluster, *topics: str) -> None:
    async def ask(client: Client) -> bool:
        found = [each for topic in topics for each in (await client.topic(topic)).partitions]
        return all(sorted(each.isr) == sorted(each.replicas) for each in found)

    cluster.wait(lambda: cluster.ask(ask), GUARD_S)


def assert_replicas_are_identical(cluster: Cluster, *topics: str) -> None:
    directories = {node: cluster.data_dir(node) for node in cluster.brokers}
    for topic, partition in places_of(cluster, topics):
        end = ends_of(cluster, topic, partition).high_watermark

        def compared(name: str = f"{topic}-{partition}", end: int = end) -> replica_logs.Comparison:
            return replica_logs.compare(directories, name, end)

        cluster.wait(lambda look=compared: look().verdict != replica_logs.LAGGING, GUARD_S)
        assert compared().identical, compared().told()


class Reader:
    """Reads committed records of a topic from the beginning on, in a thread, until it is told
    that the topic is complete."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.topic = topic
        self.seen: dict[int, list[Seen]] = {
            partition: [] for _, partition in places_of(cluster, [topic])
        }
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._consumer.assign(
            [confluent_kafka.TopicPartition(topic, partition, 0) for partition in self.seen]
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    @property
    def count(self) -> int:
        return sum(map(len, self.seen.values()))

    def values(self, partition: int) -> list[bytes]:
        return [each.value for each in self.seen[partition]]

    def _read(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(500, 0.05):
                if message.error() is None:
                    seen = Seen(message.offset(), message.value())
                    self.seen[message.partition()].append(seen)

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()


@contextlib.contextmanager
def reading(cluster: Cluster, topic: str) -> Iterator[Reader]:
    reader = Reader(cluster, topic)
    try:
        yield reader
    finally:
        reader.close()


def committed(cluster: Cluster, topic: str) -> dict[int, list[Seen]]:
    """All of it, read anew by our own client after everything has ended."""
    wait_stable(cluster, topic)
    ends = {at: ends_of(cluster, *at).high_watermark for at in places_of(cluster, [topic])}

    async def read(client: Client) -> dict[int, list[Seen]]:
        found: dict[int, list[Seen]] = {}
        for (_, partition), end in ends.items():
            consumer = Consumer(client, {(topic, partition): 0}, committed=True)
            seen = found[partition] = []
            while consumer.positions[topic, partition] < end:
                for fetched in (await consumer.read()).values():
                    seen += [
                        Seen(each.record.offset, bytes(each.record.value or b""))
                        for each in fetched.reads
                    ]
        return found

    return cluster.ask(read)
