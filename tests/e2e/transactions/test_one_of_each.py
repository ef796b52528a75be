"""Producers that are replaced, that die in a transaction, and administrators who look at them."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from e2e.transactions.crew import GUARD_S, Crew, Event, Library, Program, crew_of
from e2e.transactions.reading import Ends, committed, ends_of, wait_stable
from support.commands import tidelog
from tidelog.client.transactions import ONGOING, TransactionAdmin
from tidelog.testing import Cluster

LEFT_OPEN = Library("left_open")
JAVA = {version: Library("Transactions", java=version) for version in ("3.9.1", "4.1.0")}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as started:
        yield started


@pytest.fixture
def crew(cluster: Cluster, tmp_path: Path) -> Iterator[Crew]:
    with crew_of(cluster, tmp_path) as made:
        yield made


def ask(program: Program, *words: str) -> Any:
    """What the Java program answers."""
    since = len(program.events)
    program.tell(" ".join(words))
    answer: Event = program.wait(words[0], "refused", since=since)
    return answer["rows"]


def values(cluster: Cluster, topic: str) -> list[bytes]:
    return [each.value for each in committed(cluster, topic)[0]]


def leave_open(crew: Crew, cluster: Cluster, topic: str, timeout_ms: int = 60_000) -> Program:
    """A process that has written three records into a transaction and holds it open."""
    name = f"of-{topic}"
    program = crew.start(name, LEFT_OPEN, cluster.bootstrap_servers, topic, name, timeout_ms)
    program.wait("holding")
    return program


def state_of(cluster: Cluster, name: str) -> str:
    return cluster.ask(lambda client: TransactionAdmin(client).describe(name)).state


# ---- fencing


def test_the_older_of_two_producers_of_librdkafka_is_fenced_for_good(cluster: Cluster) -> None:
    topic = cluster.topic("twins-c", 1, replication_factor=3)
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "transactional.id": "twin-c",
        "log_level": 0,
    }
    older, newer = (confluent_kafka.Producer(settings) for _ in range(2))
    older.init_transactions(GUARD_S)
    older.begin_transaction()
    older.produce(topic, b"of the older", partition=0)
    assert older.flush(GUARD_S) == 0
    newer.init_transactions(GUARD_S)
    newer.begin_transaction()
    newer.produce(topic, b"of the newer", partition=0)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        older.commit_transaction(GUARD_S)
    assert caught.value.args[0].fatal()
    assert caught.value.args[0].name() == "_FENCED"
    with pytest.raises(confluent_kafka.KafkaException):
        older.abort_transaction(GUARD_S)
    newer.commit_transaction(GUARD_S)
    assert values(cluster, topic) == [b"of the newer"]


@pytest.mark.parametrize("version", JAVA)
def test_java_sees_it_all_and_fences_and_aborts(version: str, cluster: Cluster, crew: Crew) -> None:
    """One virtual machine for all of it: they are slow to start."""
    java = crew.start("java", JAVA[version], cluster.bootstrap_servers)
    topic = cluster.topic(f"seen-{version}", 1, replication_factor=3)
    name = f"of-{topic}"
    leave_open(crew, cluster, topic).kill()
    assert f"{name} Ongoing" in ask(java, "list")
    (described,) = ask(java, "describe", name)
    state, producer_id, epoch, timeout_ms, places = described.split(" ")
    assert (state, timeout_ms, places) == ("Ongoing", "60000", f"[{topic}-0]")
    assert ask(java, "producers", topic, "0") == [f"{producer_id} {epoch} 0"]
    assert ends_of(cluster, topic, 0) == Ends(0, 3)
    assert ask(java, "abort", topic, "0") == [producer_id]
    assert ask(java, "producers", topic, "0") == [f"{producer_id} {epoch} -1"]
    assert ends_of(cluster, topic, 0) == Ends(4, 4)
    assert values(cluster, topic) == []

    assert ask(java, "describe", "nobody") == ["TransactionalIdNotFoundException"]
    features = ask(java, "features")
    assert {"transaction.version 2", "group.version 1"} <= set(features)
    twins = cluster.topic(f"twins-{version}", 1, replication_factor=3)
    assert ask(java, "twins", twins, f"twin-{version}") == ["ProducerFencedException"]
    assert values(cluster, twins) == [b"of the newer"]
    java.leave()


# ---- timeouts


def test_what_a_dead_producer_left_open_is_aborted_in_time(cluster: Cluster, crew: Crew) -> None:
    topic = cluster.topic("timed", 1, replication_factor=3)
    leave_open(crew, cluster, topic, timeout_ms=3_000).kill()
    rows = tidelog(cluster, "txn", "list", "--open", "-o", "json").document
    assert [(each["transactional_id"], each["state"]) for each in rows if
            each["partitions"] == ["timed-0"]] == [("of-timed", ONGOING)]  # fmt: skip
    (producer,) = cluster.ask(lambda client: TransactionAdmin(client).producers(topic, 0))
    assert producer.start_offset == 0
    assert ends_of(cluster, topic, 0) == Ends(0, 3)
    wait_stable(cluster, topic)
    assert values(cluster, topic) == []
    assert state_of(cluster, "of-timed") == "CompleteAbort"
    (after,) = cluster.ask(lambda client: TransactionAdmin(client).producers(topic, 0))
    assert after.start_offset is None
    assert after.producer_epoch == producer.producer_epoch + 1, "it is fenced"


# ---- another administrator


def test_kafka_python_lists_describes_and_aborts(cluster: Cluster, crew: Crew) -> None:
    with warnings.catch_warnings():  # it loads its schemas with a call that Python will drop
        warnings.simplefilter("ignore", DeprecationWarning)
        import kafka
        from kafka.admin import AbortTransactionSpec
    topic = cluster.topic("seen-kp", 1, replication_factor=3)
    leave_open(crew, cluster, topic).kill()
    place = kafka.TopicPartition(topic, 0)
    admin = kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        listed = [each for some in admin.list_transactions().values() for each in some]
        (mine,) = [each for each in listed if each.transactional_id == f"of-{topic}"]
        described = admin.describe_transactions([mine.transactional_id])[mine.transactional_id]
        assert described.state.value == mine.state.value == ONGOING
        assert described.topic_partitions == {place}
        assert described.producer_id == mine.producer_id
        (producer,) = admin.describe_producers([place])[place].active_producers
        assert producer.producer_id == mine.producer_id
        assert producer.current_transaction_start_offset == 0
        spec = AbortTransactionSpec(place, producer.producer_id, producer.producer_epoch)
        admin.abort_transaction(spec)
        (after,) = admin.describe_producers([place])[place].active_producers
        assert after.current_transaction_start_offset in (None, -1)
    finally:
        admin.close()
    assert ends_of(cluster, topic, 0) == Ends(4, 4)
    assert values(cluster, topic) == []
