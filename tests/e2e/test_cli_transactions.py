"""The commands about transactions, and our own transactional producer, on real processes."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import confluent_kafka
import pytest

from support.commands import tidelog
from tidelog.client import Consumer, KafkaError, NewRecord
from tidelog.client.groups import GroupAdmin
from tidelog.client.offsets import LATEST, READ_COMMITTED, find_offset
from tidelog.client.transactional_producer import TransactionalProducer
from tidelog.client.transactions import ONGOING, TransactionAdmin
from tidelog.core.errors import Error
from tidelog.testing import Cluster

GUARD_S = 30
"""No story may hang for ever. Nothing is measured against it."""


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=3) as started:
        yield started


@contextmanager
def open_transaction(cluster, name, topic, *, records=3):
    """Of librdkafka: begun, written to the only partition, and not ended."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": name,
            "transaction.timeout.ms": 60_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(GUARD_S)
    producer.begin_transaction()
    for number in range(records):
        producer.produce(topic, f"{name} {number}", partition=0)
    assert producer.flush(GUARD_S) == 0
    yield producer


def state_of(cluster, name):
    return cluster.ask(lambda client: TransactionAdmin(client).describe(name)).state


def settle(cluster, topic):
    """Wait for the markers: a transaction is decided before they are written."""

    async def ends(client):
        stable = await find_offset(client, topic, 0, LATEST, isolation=READ_COMMITTED)
        return stable.offset, (await find_offset(client, topic, 0, LATEST)).offset

    cluster.wait(lambda: len(set(cluster.ask(ends))) == 1)


def visible(cluster, topic):
    """What a reader of committed records sees in the only partition."""
    settle(cluster, topic)

    async def look(client):
        end = (await find_offset(client, topic, 0, LATEST)).offset
        consumer = Consumer(client, {(topic, 0): 0}, committed=True)
        found = []
        while consumer.positions[topic, 0] < end:
            for fetched in (await consumer.read()).values():
                found += [each.record.value.decode() for each in fetched.reads]
        return found

    return cluster.ask(look)


def test_an_open_transaction_is_listed_described_and_explained(cluster):
    topic = cluster.topic("watched", partitions=1, replication_factor=3)
    with open_transaction(cluster, "billing-1", topic) as producer:
        (row,) = tidelog(cluster, "txn", "list", "--open", "-o", "json").document
        assert (row["transactional_id"], row["state"], row["partitions"]) == (
            "billing-1",
            "Ongoing",
            ["watched-0"],
        )
        shown = tidelog(cluster, "txn", "describe", "billing-1")
        assert f"coordinator {row['coordinator']} · open for" in shown.stdout
        assert "unless it ends" in shown.stdout
        assert shown.stdout.splitlines()[-1].split() == ["watched-0", "0", "0", "wait", "here"]
        told = tidelog(cluster, "explain", "watched-0")
        assert "Readers of committed records stop at 0, 3 records before that" in told.stdout
        assert "under the transactional id billing-1" in told.stdout
        assert told.stdout.splitlines()[-1] == "next: tidelog txn describe billing-1"
        producer.commit_transaction(GUARD_S)
    settle(cluster, topic)
    calm = tidelog(cluster, "explain", "watched-0", "-o", "json").document
    assert calm["held_by"] is None
    assert calm["last_stable_offset"] == calm["high_watermark"] == 4
    assert tidelog(cluster, "txn", "list").rows[0][0] == "billing-1"


def test_a_transaction_is_aborted_by_yes_and_its_producer_fenced(cluster):
    topic = cluster.topic("aborted", partitions=1, replication_factor=3)
    with open_transaction(cluster, "stuck", topic) as producer:
        planned = tidelog(cluster, "txn", "abort", "stuck")
        assert planned.rows[0][:2] == ["aborted-0", "0"]
        assert "nothing is aborted yet" in planned.stderr
        assert state_of(cluster, "stuck") == ONGOING
        done = tidelog(cluster, "txn", "abort", "stuck", "--yes")
        assert (done.code, done.stderr) == (0, "aborted\n")
        with pytest.raises(confluent_kafka.KafkaException) as caught:
            producer.commit_transaction(GUARD_S)
        assert caught.value.args[0].fatal()
    assert visible(cluster, topic) == []
    again = tidelog(cluster, "txn", "abort", "stuck", "--yes")
    assert again.code == 1
    assert "has no transaction to abort" in again.stderr


def test_a_marker_is_not_written_behind_the_back_of_a_coordinator(cluster):
    topic = cluster.topic("known", partitions=1, replication_factor=3)
    arguments = ("txn", "abort", "--partition", "known-0", "--start-offset")
    with open_transaction(cluster, "known-1", topic) as producer:
        refused = tidelog(cluster, *arguments, "0", "--yes")
        assert refused.code == 1
        assert "this transaction is not hanging" in refused.stderr
        assert "try: tidelog txn abort known-1 --yes" in refused.stderr
        missed = tidelog(cluster, *arguments, "7", "--yes")
        assert "those that are open began at 0" in missed.stderr
        producer.commit_transaction(GUARD_S)
    assert visible(cluster, topic) == ["known-1 0", "known-1 1", "known-1 2"]


def test_a_marker_of_an_administrator_ends_a_transaction_in_one_partition(cluster):
    topic = cluster.topic("marked", partitions=1, replication_factor=3)

    async def mark(client):
        admin = TransactionAdmin(client)
        (producer,) = await admin.producers(topic, 0)
        assert producer.start_offset == 0
        await admin.abort_in_partition(topic, 0, producer)
        return (await admin.producers(topic, 0))[0]

    with open_transaction(cluster, "marked-1", topic):
        assert cluster.ask(mark).start_offset is None
    calm = tidelog(cluster, "explain", "marked-0", "-o", "json").document
    assert calm["last_stable_offset"] == calm["high_watermark"]
    assert visible(cluster, topic) == []


def test_a_transactional_id_that_is_not_there_is_an_error_with_a_guess(cluster):
    topic = cluster.topic("guessed", partitions=1, replication_factor=3)
    with open_transaction(cluster, "invoices-1", topic) as producer:
        producer.commit_transaction(GUARD_S)
    missed = tidelog(cluster, "txn", "describe", "invoice-1")
    assert missed.code == 1
    assert "TRANSACTIONAL_ID_NOT_FOUND (105)" in missed.stderr
    assert "did you mean invoices-1?" in missed.stderr


def test_our_own_producer_commits_records_and_offsets_together(cluster):
    topic = cluster.topic("copied", partitions=1, replication_factor=3)

    async def story(client):
        producer = TransactionalProducer(client, "copier")
        await producer.begin()
        await producer.write(topic, [NewRecord(b"kept")])
        await producer.add_offsets("copiers", {(topic, 0): 5})
        await producer.commit()
        await producer.begin()
        await producer.write(topic, [NewRecord(b"dropped")])
        await producer.add_offsets("copiers", {(topic, 0): 9})
        await producer.abort()
        await producer.begin()
        await producer.write(topic, [NewRecord(b"kept too")])
        await producer.commit()
        return await GroupAdmin(client).committed("copiers", stable=True)

    committed = cluster.ask(story)
    assert [each.offset for each in committed.values()] == [5]
    assert visible(cluster, topic) == ["kept", "kept too"]


def test_our_own_producer_is_fenced_by_a_later_one(cluster):
    topic = cluster.topic("fenced", partitions=1, replication_factor=3)

    async def story(client):
        older, newer = (TransactionalProducer(client, "twin") for _ in range(2))
        await older.begin()
        await older.write(topic, [NewRecord(b"of the older")])
        await newer.begin()
        with pytest.raises(KafkaError) as caught:
            await older.commit()
        await newer.write(topic, [NewRecord(b"of the newer")])
        await newer.commit()
        return caught.value.error

    assert cluster.ask(story) in (Error.PRODUCER_FENCED, Error.INVALID_PRODUCER_EPOCH)
    assert visible(cluster, topic) == ["of the newer"]


def test_our_own_producer_commits_though_its_coordinator_dies(cluster):
    topic = cluster.topic("outlived", partitions=1, replication_factor=3)
    dead = []

    async def story(client):
        producer = TransactionalProducer(client, "survivor")
        for number in range(4):
            await producer.begin()
            await producer.write(topic, [NewRecord(b"%d" % number)])
            if number == 1:
                found = await TransactionAdmin(client).describe("survivor")
                dead.append(found.coordinator)
                cluster.kill(found.coordinator)
            await producer.commit()

    try:
        cluster.ask(story)
    finally:
        cluster.start(*dead)
        cluster.wait_ready()
    assert visible(cluster, topic) == ["0", "1", "2", "3"]


def test_a_transaction_that_cannot_be_is_refused_in_its_order(cluster):
    async def story(client):
        producer = TransactionalProducer(client, "orderly")
        refusals = []
        for step in (producer.commit, producer.abort):
            with pytest.raises(KafkaError) as caught:
                await step()
            refusals.append(caught.value.error)
        await producer.begin()
        with pytest.raises(KafkaError) as caught:
            await producer.write("missing-", [NewRecord(b"x", partition=99)])
        with pytest.raises(KafkaError) as caught:
            await producer.commit()
        await producer.abort()
        return [*refusals, caught.value.error]

    assert set(cluster.ask(story)) == {Error.INVALID_TXN_STATE}


def test_records_of_the_command_line_count_together_or_not_at_all(cluster):
    topic = cluster.topic("imported", partitions=1, replication_factor=3)
    arguments = ("produce", topic, "--transactional-id", "import-7")
    done = tidelog(cluster, *arguments, "--count", "3", "--value", "{}")
    assert done.code == 0, done.stderr
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "tidelog", *arguments, "-b", cluster.bootstrap_servers]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            process.stdin.write("half\n")
            process.stdin.flush()
            cluster.wait(lambda: state_of(cluster, "import-7") == ONGOING)
            process.send_signal(signal.SIGINT)
            assert process.wait(GUARD_S) == 130
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()
    assert visible(cluster, topic) == ["1", "2", "3"]
    assert state_of(cluster, "import-7") in ("PrepareAbort", "CompleteAbort")


def test_a_transaction_that_no_coordinator_knows_is_found_and_ended():
    with Cluster(brokers=1) as cluster:
        topic = cluster.topic("hung", partitions=1, replication_factor=1)
        arguments = ("txn", "abort", "--partition", "hung-0", "--start-offset", "0")
        with open_transaction(cluster, "lost", topic):
            # Nothing less makes one hang: leaders ask the coordinator before they begin one.
            assert tidelog(cluster, "topic", "delete", "__transaction_state", "--yes").code == 0
            cluster.wait(lambda: not tidelog(cluster, "txn", "list", "-o", "json").document)
            told = tidelog(cluster, "explain", "hung-0")
            assert "No coordinator knows that producer" in told.stdout
            assert told.stdout.splitlines()[-1] == f"next: tidelog {' '.join(arguments)}"
            planned = tidelog(cluster, *arguments)
            assert planned.rows[0][:2] == ["hung-0", "0"]
            assert tidelog(cluster, *arguments, "--yes").stderr == "aborted\n"
        assert visible(cluster, topic) == []
        again = tidelog(cluster, *arguments, "--yes")
        assert again.code == 1
        assert "none is open there" in again.stderr
