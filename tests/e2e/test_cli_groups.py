"""The commands about groups, on real processes with members of another client library."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial

import confluent_kafka
import pytest

from support.commands import tidelog
from tidelog.client import Admin, NewRecord, Producer
from tidelog.client.groups import GroupAdmin
from tidelog.testing import Cluster

GUARD_S = 30
"""No story may hang for ever. Nothing is measured against it."""


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=3) as started:
        yield started


def start(cluster, *arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-m", "tidelog", *arguments, "-b", cluster.bootstrap_servers],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


async def write(client, topic, index, values):
    await Producer(client).write(topic, [each._replace(partition=index) for each in values])


def filled(cluster, name, *, partitions=2, records=60):
    """A topic with as many records in each of its partitions."""
    topic = cluster.topic(name, partitions=partitions, replication_factor=len(cluster.brokers))
    for index in range(partitions):
        values = [NewRecord(str(number + 1).encode()) for number in range(records // partitions)]
        cluster.ask(partial(write, topic=topic, index=index, values=values))
    return topic


@contextmanager
def member(cluster, group, topic, *, name="billing-1", protocol="classic"):
    """Of librdkafka. It commits when it is told to, and leaves when the block ends."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "group.protocol": protocol,
        }
    )
    try:
        consumer.subscribe([topic])
        yield consumer
    finally:
        consumer.close()


def read(consumer, count):
    """So many records, committed."""
    deadline, found = time.monotonic() + GUARD_S, 0
    while found < count:
        assert time.monotonic() < deadline, f"{found} of {count}"
        message = consumer.poll(0.2)
        found += message is not None and message.error() is None
    consumer.commit(asynchronous=False)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_listed_and_described_with_its_member_and_lag(cluster, protocol):
    topic = filled(cluster, f"{protocol}-described")
    group = f"{protocol}-billing"
    with member(cluster, group, topic, protocol=protocol) as consumer:
        read(consumer, 60)
        tidelog(cluster, "produce", topic, "-p", "0", "--count", "7", "--value", "late")
        listed = tidelog(cluster, "group", "list", "-o", "json").document
        (row,) = [each for each in listed if each["group"] == group]
        assert (row["type"], row["state"]) == (protocol, "Stable")
        assert (row["members"], row["lag"]) == (1, 7)
        shown = tidelog(cluster, "group", "describe", group)
    head, titles, first, second = shown.stdout.splitlines()
    assert head == f"{group} · Stable · 1 member · coordinator {row['coordinator']} · lag 7"
    assert titles.split() == [
        *("PARTITION", "COMMITTED", "END", "LAG", "STATE", "MEMBER", "CLIENT", "HOST"),
    ]
    assert first.split()[:5] == [f"{topic}-0", "30", "37", "7", "behind"]
    assert second.split()[:4] == [f"{topic}-1", "30", "30", "0"]
    assert first.split()[-2:] == ["billing-1", "127.0.0.1"]


def test_a_group_that_is_not_there_is_an_error_with_a_guess(cluster):
    topic = filled(cluster, "guessed", records=2)
    with member(cluster, "invoicing", topic) as consumer:
        read(consumer, 2)
    missed = tidelog(cluster, "group", "describe", "invoicin")
    assert missed.code == 1
    assert "GROUP_ID_NOT_FOUND (69)" in missed.stderr
    assert "did you mean invoicing?" in missed.stderr
    assert missed.stdout == ""


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_move_only_by_yes_and_only_while_nobody_is_a_member(cluster, protocol):
    topic, mover = filled(cluster, f"{protocol}-moved"), f"{protocol}-mover"
    with member(cluster, mover, topic, protocol=protocol) as consumer:
        read(consumer, 60)
        busy = tidelog(cluster, "group", "seek", mover, "--to", "earliest", "--yes")
        assert busy.code == 1
        assert f"group {mover} has 1 member" in busy.stderr
        assert "billing-1 at 127.0.0.1 would commit over it: stop them first" in busy.stderr
    planned = tidelog(cluster, "group", "seek", mover, "--to", "-10")
    assert planned.rows == [[f"{topic}-0", "30", "20", "-10"], [f"{topic}-1", "30", "20", "-10"]]
    assert "nothing is moved yet" in planned.stderr
    committed = cluster.ask(lambda client: GroupAdmin(client).committed(mover))
    assert {each.offset for each in committed.values()} == {30}
    tidelog(cluster, "group", "seek", mover, "--to", "5", "--topic", f"{topic}:1", "--yes")
    committed = cluster.ask(lambda client: GroupAdmin(client).committed(mover))
    assert {where: each.offset for where, each in committed.items()} == {
        (topic, 0): 30,
        (topic, 1): 5,
    }
    with member(cluster, mover, topic) as consumer:
        read(consumer, 25)


def test_a_group_is_deleted_when_its_members_are_gone(cluster):
    topic = filled(cluster, "dropped", records=2)
    with member(cluster, "leaver", topic) as consumer:
        read(consumer, 2)
        busy = tidelog(cluster, "group", "delete", "leaver", "--yes")
        assert busy.code == 1
        assert "stop them first" in busy.stderr
    planned = tidelog(cluster, "group", "delete", "leaver", "-o", "json")
    assert planned.document == [
        {"group": "leaver", "state": "Empty", "offsets": 2, "result": "would go"}
    ]
    assert tidelog(cluster, "group", "delete", "leaver", "--yes").code == 0
    assert tidelog(cluster, "group", "describe", "leaver").code == 1


def test_our_own_member_goes_on_where_the_last_one_stopped(cluster):
    topic = filled(cluster, "shared", partitions=1, records=20)
    arguments = ("consume", topic, "-g", "printer", "--from", "start", "--idle", "20s")
    first = tidelog(cluster, *arguments, "-n", "8")
    assert first.stdout.split() == [str(number) for number in range(1, 9)], first.stderr
    assert "printer · generation 1 · shared-0" in first.stderr
    second = tidelog(cluster, *arguments, "--to", "end")
    assert second.stdout.split() == [str(number) for number in range(9, 21)], second.stderr
    left = cluster.ask(lambda client: GroupAdmin(client).describe("printer"))
    assert (left.state, left.members) == ("Empty", ())


def test_our_own_member_shares_with_others_and_leaves_when_interrupted(cluster):
    topic = filled(cluster, "split", partitions=4, records=4)
    with member(cluster, "mixed", topic) as consumer:
        read(consumer, 4)
        ours = start(cluster, "consume", topic, "-g", "mixed", "--json")
        try:

            def shared():
                consumer.poll(0.05)
                found = cluster.ask(lambda client: GroupAdmin(client).describe("mixed"))
                return sorted(len(each.partitions) for each in found.members) == [2, 2]

            cluster.wait(shared)
            ours.send_signal(signal.SIGINT)
            _, told = ours.communicate(timeout=GUARD_S)
        finally:
            ours.kill()
        assert ours.returncode == 130, told
        assert "Traceback" not in told
        found = cluster.ask(lambda client: GroupAdmin(client).describe("mixed"))
        assert [each.client_id for each in found.members] == ["billing-1"]


def test_a_group_moves_to_another_coordinator_and_is_still_found(cluster):
    topic = filled(cluster, "survivor", records=4)
    with member(cluster, "survivors", topic) as consumer:
        read(consumer, 4)
    before = cluster.ask(lambda client: GroupAdmin(client).describe("survivors"))
    cluster.kill(before.coordinator)
    try:
        listed = tidelog(cluster, "group", "list", "-o", "json").document
        assert "survivors" in [each["group"] for each in listed]
        shown = tidelog(cluster, "group", "describe", "survivors", "-o", "json").document[0]
        assert shown["coordinator"] != before.coordinator
        assert [each["committed"] for each in shown["partitions"]] == [2, 2]
    finally:
        cluster.start(before.coordinator)
        cluster.wait_ready()


def test_our_own_member_reads_partitions_that_are_added_while_it_leads(cluster):
    topic = filled(cluster, "growing", partitions=1, records=2)
    ours = start(cluster, "consume", topic, "-g", "growers", "--from", "start", "-n", "3")
    try:
        cluster.wait(lambda: committed_by(cluster, "growers") == 2)
        cluster.ask(lambda client: Admin(client).add_partitions(topic, 2))
        cluster.ask(partial(write, topic=topic, index=1, values=[NewRecord(b"new")]))
        printed, told = ours.communicate(timeout=2 * GUARD_S)
    finally:
        ours.kill()
    assert printed.split() == ["1", "2", "new"], told


def test_our_own_member_loses_nothing_when_its_coordinator_dies(cluster):
    topic = filled(cluster, "unbroken", partitions=3, records=30)
    ours = start(cluster, "consume", topic, "-g", "unbroken", "--from", "start", "-n", "60")
    try:
        cluster.wait(lambda: committed_by(cluster, "unbroken") == 30)
        coordinator = cluster.ask(lambda client: GroupAdmin(client).describe("unbroken"))
        cluster.kill(coordinator.coordinator)
        late = [NewRecord(b"late %d" % number) for number in range(30)]
        cluster.ask(lambda client: Producer(client).write(topic, late))
        printed, told = ours.communicate(timeout=2 * GUARD_S)
    finally:
        ours.kill()
        cluster.start(coordinator.coordinator)
        cluster.wait_ready()
    assert ours.returncode == 0, told
    lines = printed.splitlines()
    assert sorted(each for each in lines if each.startswith("late")) == sorted(
        each.value.decode() for each in late
    )
    assert committed_by(cluster, "unbroken") == 60


def committed_by(cluster, group):
    """All offsets of a group, added up."""
    found = cluster.ask(lambda client: GroupAdmin(client).committed(group))
    return sum(each.offset for each in found.values())


def test_a_lag_that_nobody_works_on_is_explained(cluster):
    topic = filled(cluster, "behind", partitions=1, records=10)
    assert tidelog(cluster, "consume", topic, "-g", "idle", "--from", "start", "-n", "4").code == 0
    told = tidelog(cluster, "explain", "group", "idle")
    assert told.code == 0, told.stderr
    assert "nobody is a member of it" in told.stdout
    assert "It is 6 records behind: behind-0 by 6." in told.stdout
    assert told.stdout.splitlines()[-1].startswith("next: tidelog consume behind -g idle")


def test_a_rebalance_is_explained_by_the_member_that_died(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # events are read over HTTP, and only of clusters that lie here
    with Cluster(brokers=1, directory=tmp_path / ".tidelog" / "dev") as cluster:
        topic = filled(cluster, "orders", partitions=1, records=2)
        ours = start(cluster, "consume", topic, "-g", "billing", "--from", "start")
        try:
            cluster.wait(lambda: committed_by(cluster, "billing") == 2)
        finally:
            ours.kill()
            ours.communicate(timeout=GUARD_S)

        def members():
            return cluster.ask(lambda client: GroupAdmin(client).describe("billing")).members

        cluster.wait(lambda: not members())
        told = tidelog(cluster, "explain", "group", "billing")
    assert "nobody is a member of it" in told.stdout
    assert "It lost tidelog-" in told.stdout, told.stderr
    assert "connection lost" in told.stdout
