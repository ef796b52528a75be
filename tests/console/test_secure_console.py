"""The console of a secured cluster: users log in as it knows them, and do what ACLs allow."""

import os

import pytest

from support.console import ConsoleProcess, eventually
from tidelog.client.access_admin import AccessAdmin, NewPassword
from tidelog.client.producer import NewRecord, Producer
from tidelog.client.security import read_properties
from tidelog.cluster import state as states
from tidelog.core.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from tidelog.core.security.scram import ScramMechanism
from tidelog.testing import Cluster

PASSWORD = "ebb and flow"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    directory = tmp_path_factory.mktemp("secure") / "dev"
    with Cluster(brokers=1, directory=directory, secure=True) as running:
        running.topic("seen", replication_factor=1)
        running.topic("hidden", replication_factor=1)
        running.ask(add_eve)
        yield running
        running._nodes.state = states.load(directory)


async def add_eve(client):
    admin = AccessAdmin(client)
    salt = os.urandom(16)
    await admin.set_password(
        NewPassword("eve", ScramMechanism.of_sasl_name("SCRAM-SHA-512"), PASSWORD, salt, 4096)
    )
    literal, allow = PatternType.LITERAL, Permission.ALLOW
    rule = Acl(ResourceType.TOPIC, "seen", literal, "User:eve", "*", Operation.READ, allow)
    await admin.add_acls([rule])
    await Producer(client, numbered=False).write("seen", [NewRecord(b"for everybody")])
    await Producer(client, numbered=False).write("hidden", [NewRecord(b"for nobody")])


@pytest.fixture
def console(cluster):
    home = cluster.data_dir(1).parents[1]
    with ConsoleProcess("--data-dir", str(home.parent), "--name", home.name) as running:
        yield running
    assert PASSWORD not in running.output


def admin_login(cluster):
    login = read_properties(cluster.client_properties).login
    return login.user, login.password


def test_users_see_and_do_what_the_cluster_lets_them(cluster, console):
    session = console.ok("/api/session")
    assert (session["secure"], session["user"]) == (True, None)
    assert session["may"] == {"chaos": False, "produce": False, "admin": False}
    for path in ("/api/overview", "/api/topics", "/api/stream", "/api/records?topic=seen"):
        assert console.get(path)[0] == 401
    assert console.log_in("eve", "guessed")[0] == 401
    assert console.log_in("nobody", PASSWORD)[0] == 401
    status, session, headers = console.log_in("eve", PASSWORD)
    assert (status, session["user"]) == (200, "eve")
    assert session["may"] == {"chaos": False, "produce": True, "admin": False}
    cookie = headers["set-cookie"]
    assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Max-Age="))
    eve_sees_her_topic_alone(console)
    eve_changes_nothing(console)
    assert console.post("/api/logout", {})[0] == 200
    assert console.get("/api/topics")[0] == 401


def eve_sees_her_topic_alone(console):
    listed = console.ok("/api/topics")["topics"]
    assert [each["name"] for each in listed] == ["seen"]
    records = console.ok("/api/records?topic=seen&partition=0&from=earliest")["records"]
    assert [each["value"]["text"] for each in records] == ["for everybody"]
    partition = eventually(lambda: live_partition(console))
    assert partition["high_watermark"] == 1
    for path in (
        "/api/records?topic=hidden&partition=0",
        "/api/topics/hidden",
        "/api/partition/hidden-0",
        "/api/stream?watch=partition:hidden-0",
    ):
        assert console.get(path)[0] in (403, 404), path
    events = console.ok("/api/overview")["events"]
    assert not any(each.get("topic") == "hidden" for each in events)
    assert console.ok("/api/timeline")["events"] == []


def live_partition(console):
    partition = console.ok("/api/partition/seen-0")
    return partition if partition["mode"] == "live" and partition["replica_logs"] else None


def eve_changes_nothing(console):
    body = {"topic": "seen", "partition": 0, "value": "mine"}
    assert console.post("/api/records", body)[0] == 403
    assert console.post("/api/topics", {"name": "mine"})[0] == 403
    assert console.delete("/api/topics/seen")[0] == 403
    assert console.post("/api/chaos", {"kind": "kill", "node": 1})[0] == 403
    assert console.get("/api/chaos")[0] == 403


def test_an_administrator_sees_everything_and_may_break_it(cluster, console):
    status, session, _ = console.log_in(*admin_login(cluster))
    assert (status, session["may"]["chaos"]) == (200, True)
    names = [each["name"] for each in console.ok("/api/topics")["topics"]]
    assert {"hidden", "seen"} <= set(names)
    overview = console.ok("/api/overview")
    assert overview["brokers"][0]["state"] == "alive"
    assert console.ok("/api/timeline")["events"]
    with console.stream("/api/stream?watch=overview") as stream:
        assert stream.until(lambda event, _: event) == "snapshot"
    status, document = console.post("/api/chaos", {"kind": "fill-disk", "node": 1})
    assert (status, document["active"][0]["by"]) == (200, session["user"])
    assert console.delete("/api/chaos/fill-disk-1")[0] == 200


def test_who_guesses_passwords_has_to_wait(cluster, console):
    answers = [console.log_in("eve", f"guess {number}")[0] for number in range(11)]
    assert answers == [401] * 10 + [429]
