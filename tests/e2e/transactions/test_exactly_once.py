"""Workers copy a topic to another in transactions while brokers, coordinators and workers die.

Whatever happens, who reads committed records finds every input once, in order, and nothing of
what was aborted; and no transaction hangs in the end.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from e2e.transactions.crew import Crew, Library, Program, crew_of
from e2e.transactions.reading import (
    GROUPS,
    GUARD_S,
    TRANSACTIONS,
    Reader,
    assert_replicas_are_identical,
    committed,
    group_coordinator,
    reading,
    transaction_coordinator,
    wait_in_sync,
    wait_stable,
)
from tidelog.testing import Cluster

PARTITIONS = 2
RATE = 150
"""Records per second, over all partitions."""

LIBRARIES = {
    "confluent-kafka": Library("confluent_worker"),
    "aiokafka": Library("aiokafka_worker"),
    "java-4.1.0": Library("Worker", java="4.1.0", more=("consumer",)),
    "java-3.9.1": Library("Worker", java="3.9.1"),
}
NAMES = [
    # An older Java client speaks as the newer one does: `make proof` tries it as well.
    pytest.param(name, marks=pytest.mark.long) if name == "java-3.9.1" else name
    for name in LIBRARIES
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    sessions = {
        "group.consumer.session.timeout.ms": 5_000,
        "group.consumer.min.session.timeout.ms": 5_000,
    }
    with Cluster(brokers=3, config=sessions) as started:
        yield started


class Input:
    """An idempotent producer of numbered records, in a thread, until it is told to stop."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.written: dict[int, list[bytes]] = {each: [] for each in range(PARTITIONS)}
        self.failures: list[str] = []
        self._topic = topic
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._stopping.wait(1 / RATE):
            partition = number % PARTITIONS
            value = b"%d" % number
            self._producer.produce(self._topic, value, partition=partition, on_delivery=self._heard)
            self._producer.poll(0)
            self.written[partition].append(value)
            number += 1

    def _heard(self, error: object, _message: object) -> None:
        if error is not None:
            self.failures.append(str(error))

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        left = self._producer.flush(GUARD_S)
        self.failures += [f"{left} records without an answer"] if left else []

    @property
    def count(self) -> int:
        return sum(map(len, self.written.values()))


class Copying:
    """One story: two workers that come back as often as they end."""

    def __init__(self, cluster: Cluster, crew: Crew, name: str) -> None:
        self.cluster = cluster
        self.source = cluster.topic(f"{name}-in", PARTITIONS, replication_factor=3)
        self.target = cluster.topic(f"{name}-out", PARTITIONS, replication_factor=3)
        self.group = f"{name}-group"
        self.names = [f"{name}-{number}" for number in range(2)]
        self._crew = crew
        self._library = LIBRARIES[name]
        self._to_hold: int | None = None
        self.workers = [self._start(each) for each in range(2)]

    @property
    def topics(self) -> tuple[str, ...]:
        return self.source, self.target, GROUPS, TRANSACTIONS

    def _start(self, number: int) -> Program:
        started = self._crew.start(
            self.names[number],
            self._library,
            self.cluster.bootstrap_servers,
            self.source,
            self.target,
            self.group,
            self.names[number],
            number,
        )
        if number == self._to_hold:
            started.tell("hold")
        return started

    def kill_worker_in_a_transaction(self, number: int) -> None:
        """Another one with its transactional id takes its place."""
        self._to_hold = number
        self.workers[number].tell("hold")
        self.wait_for(lambda: self.workers[number].named("holding"))
        self._to_hold = None
        self.workers[number].kill()
        self.workers[number] = self._start(number)

    def supervise(self) -> None:
        """Who could not go on is started again, as whoever runs such workers does."""
        for number, worker in enumerate(self.workers):
            if worker.has_ended:
                worker.wait("fatal", "broken", "stuck")
                worker.kill()
                self.workers[number] = self._start(number)

    def wait_for(self, condition: Callable[[], object]) -> None:
        def is_so() -> object:
            self.supervise()
            return condition()

        self.cluster.wait(is_so, GUARD_S)

    def wait_for_commits(self, more: int = 3) -> None:
        """Of any worker."""
        before = self._commits()
        self.wait_for(lambda: self._commits() >= before + more)

    def _commits(self) -> int:
        return sum(len(each.named("committed")) for each in self._crew.programs)

    def broker_to_kill(self, turn: int) -> int:
        if turn == 0:
            return self._leader(self.source, 0)
        if turn == 1:
            return group_coordinator(self.cluster, self.group)
        if turn == 3:
            return self._leader(self.target, 1)
        return transaction_coordinator(self.cluster, self.names[turn // 4])

    def _leader(self, topic: str, partition: int) -> int:
        leader = self.cluster.partition(topic, partition).leader
        assert leader is not None, f"nobody leads {topic}-{partition}"
        return leader


def five_kills(story: Copying) -> None:
    cluster = story.cluster
    for turn in range(5):
        story.wait_for_commits()
        broker = story.broker_to_kill(turn)
        if turn == 2:
            story.kill_worker_in_a_transaction(0)
        cluster.kill(broker)
        story.wait_for_commits()
        cluster.restart(broker)
        wait_in_sync(cluster, *story.topics)


@pytest.mark.parametrize("client", NAMES)
def test_every_input_is_copied_once_though_brokers_and_workers_are_killed(
    client: str, cluster: Cluster, tmp_path: Path
) -> None:
    with crew_of(cluster, tmp_path) as crew:
        story = Copying(cluster, crew, client)
        feed = Input(cluster, story.source)
        try:
            with reading(cluster, story.target) as reader:
                five_kills(story)
                feed.stop()
                story.wait_for(lambda: reader.count >= feed.count)
                for worker in story.workers:
                    worker.leave()
                judge(story, feed, reader)
        finally:
            feed.stop()


def judge(story: Copying, feed: Input, reader: Reader) -> None:
    cluster = story.cluster
    assert not feed.failures, feed.failures[:3]
    wait_stable(cluster, *story.topics)
    found = committed(cluster, story.target)
    for partition, written in feed.written.items():
        expected = [b"done " + value for value in written]
        assert [each.value for each in found[partition]] == expected
    assert reader.seen == found, "who read all the time saw the same"
    assert_replicas_are_identical(cluster, story.source, story.target)
    for broker in cluster.brokers:
        assert "Traceback" not in cluster.log(broker)
