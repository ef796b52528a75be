"""Commands that ask a cluster: what they say, and with which exit code, when there is none."""

import asyncio
import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidelog.cli.explain import Facts, next_command, sentences
from tidelog.cli.main import cli
from tidelog.cli.topic.watch import line_of, rows_of
from tidelog.client import (
    BrokerView,
    Client,
    ClusterView,
    KafkaError,
    PartitionView,
    parse_bootstrap,
)
from tidelog.client.admin import QuorumReplica, QuorumView
from tidelog.client.disks import FullDisk
from tidelog.cluster import layout
from tidelog.cluster.layout import Shape
from tidelog.survey.cluster import SeenBroker, Survey
from tidelog.survey.health import complaints
from tidelog.survey.partition_state import judge, leader_words


@pytest.fixture
def tidelog(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDELOG_BOOTSTRAP_SERVERS", raising=False)

    def invoke(*arguments, **extra):
        return CliRunner().invoke(cli, list(arguments), **extra)

    return invoke


@pytest.fixture
def nobody():
    """An address at which nobody listens, and nobody can begin to."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def partition(leader=1, isr=(1, 2, 3), epoch=4):
    return PartitionView("orders", 0, leader, epoch, (1, 2, 3), tuple(isr))


ASKING = [
    ["topic", "list"],
    ["topic", "describe", "orders"],
    ["topic", "create", "orders"],
    ["produce", "orders", "--value", "x"],
    ["consume", "orders"],
    ["cluster", "describe"],
    ["cluster", "health"],
    ["cluster", "apis"],
    ["leaders", "balance"],
    ["explain", "orders-0"],
    ["explain", "group", "billing"],
    ["group", "list"],
    ["group", "describe", "billing"],
    ["group", "seek", "billing", "--to", "end"],
    ["group", "delete", "billing"],
    ["txn", "list"],
    ["txn", "describe", "billing-1"],
    ["txn", "abort", "billing-1"],
    ["consume", "orders", "-g", "billing"],
    ["produce", "orders", "--value", "x", "--transactional-id", "billing-1"],
]


@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_without_a_cluster_they_say_how_to_get_one(tidelog, command):
    result = tidelog(*command)
    assert result.exit_code == 3
    assert "no cluster to ask" in result.stderr
    assert "try: tidelog up" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_a_cluster_that_does_not_answer_is_given_up_in_time(tidelog, command, nobody):
    result = tidelog(*command, "-b", nobody, "--timeout", "50ms")
    assert result.exit_code == 3
    assert f"{nobody} cannot be reached" in result.stderr


def test_errors_are_json_where_the_result_would_be(tidelog, nobody):
    result = tidelog("topic", "list", "-b", nobody, "--timeout", "20ms", "-o", "json")
    told = json.loads(result.stderr)
    assert sorted(told) == ["command", "error", "try", "why"]
    assert told["command"] == "topic list"


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (["topic", "list", "-b", "host:notaport"], "not host:port"),
        (["topic", "list", "--timeout", "soon"], "not a duration"),
        (["topic", "create", "x", "-c", "novalue"], "no key=value"),
        (["topic", "create", "x", "--replicas", "a:b"], "brokers are numbers"),
        (["topic", "describe", "x", "--only", "bad"], 'no state "bad"'),
        (["topic", "delete", "x"], "not done without --yes"),
        (["topic", "trim", "x", "--before", "never"], "a position is"),
        (["topic", "alter", "x"], "neither --set nor --delete"),
        (["topic", "add-partitions", "x"], "one of --to and --more"),
        (["produce", "x", "--rate", "fast"], "records per second"),
        (["produce", "x", "-f", "%q"], "not with %q"),
        (["produce", "x", "-f", "%v", "--json"], "exclude each other"),
        (["consume", "x", "-f", "%q"], "no verb %q"),
        (["consume", "x", "--from", "soon"], "a position is"),
        (["leaders", "elect"], "name them, or use --all"),
        (["leaders", "elect", "orders-0", "--unclean"], "not done without --yes"),
        (["explain", "orders"], "a dash and a number"),
        (["explain", "group", "a", "b"], "the word group and one name"),
        (["consume", "x", "-g", "g", "-p", "0"], "exclude each other"),
        (["group", "seek", "g", "--to", "soon"], "no time"),
        (["group", "seek", "g", "--to", "1", "--topic", "x:y"], "a colon and partitions"),
        (["txn", "abort"], "together with --start-offset"),
        (["txn", "abort", "id", "--start-offset", "1"], "together with --start-offset"),
        (["txn", "abort", "--partition", "orders-0"], "together with --start-offset"),
        (["txn", "abort", "--partition", "x", "--start-offset", "1"], "a dash and a number"),
        (["produce", "x", "--acks", "1", "--transactional-id", "i"], "needs --acks all"),
        (["up", "-X", "nonsense"], "no key=value"),
        (["up", "-X", "broker.sesion.timeout.ms=1"], "did you mean broker.session.timeout.ms"),
        (["up", "--brokers", "1", "--controllers", "3"], "there are 1"),
        (["node", "start", "--config", "missing.properties"], "no such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_told_before_anything_is_done(tidelog, command, complaint):
    result = tidelog(*command)
    assert result.exit_code == 2, result.stderr
    assert complaint in result.stderr
    assert not Path(".tidelog").exists()


@pytest.mark.parametrize("command", [["down"], ["ps"], ["logs"], ["chaos", "status"]])
def test_commands_about_a_local_cluster_need_one(tidelog, command):
    result = tidelog(*command)
    assert result.exit_code == 3
    assert "there is no cluster here" in result.stderr


def test_the_nodes_of_a_stopped_cluster_are_gone(tidelog):
    layout.create(Path(".tidelog/dev"), "dev", Shape(brokers=2))
    rows = json.loads(tidelog("ps", "-o", "json").stdout)
    assert [(row["node"], row["state"], row["pid"]) for row in rows] == [
        (1, "gone", None),
        (2, "gone", None),
    ]
    assert tidelog("down").stdout == "dev was not running\n"
    killed = tidelog("chaos", "kill", "1")
    assert (killed.exit_code, "node 1 does not run" in killed.stderr) == (1, True)
    unknown = tidelog("chaos", "pause", "7")
    assert (unknown.exit_code, 'no node "7"' in unknown.stderr) == (2, True)


def test_a_configuration_that_is_wrong_does_not_become_a_node(tidelog):
    Path("bad.properties").write_text("process.roles=broker\nnode.id=x\n")
    result = tidelog("node", "start", "--config", "bad.properties")
    assert result.exit_code == 2
    assert "bad.properties does not describe a node" in result.stderr


def test_every_group_lists_its_commands_with_an_example(tidelog):
    for group in ("topic", "cluster", "leaders", "chaos", "node"):
        help_text = tidelog(group, "--help").stdout
        assert f"tidelog {group}" in help_text
        for command in cli.get_command(None, group).list_commands(None):
            assert "Example" in tidelog(group, command, "--help").stdout, command


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (partition(), "healthy"),
        (partition(isr=(1, 2)), "under-replicated: 3 down"),
        (partition(isr=(1,)), "under-min-isr: 1 of 2 needed; 3 down, 2 lags"),
        (partition(leader=None, isr=(3,)), "offline: 1,2 lag"),
    ],
)
def test_the_state_of_a_partition_is_the_worst_that_is_so(given, words):
    alive = (1, 2)
    assert str(judge(given, alive, 2)) == words


def test_a_leader_that_is_not_the_preferred_one_is_marked():
    assert leader_words(partition()) == "1"
    assert leader_words(partition(leader=3)) == "3 (pref. 1)"
    assert leader_words(partition(leader=None)) == "none"


def facts(given, told=None, alive=(1, 2)):
    judgement = judge(given, alive, 2)
    return Facts(given, judgement, alive, 2, 0, 1041, told or {})


def test_the_explanation_says_who_is_missing_and_what_is_waited_for():
    told = {"log_end_offset": 1044}
    text = " ".join(sentences(facts(partition(leader=2, isr=(2, 1)), told)))
    assert "Broker 2 leads orders-0 in leader epoch 4, in place of the preferred broker 1" in text
    assert "The ISR is 2,1: broker 3 is down." in text
    assert "Everything below 1041 is committed." in text
    assert "3 more at the leader wait until 2,1 have them." in text
    assert next_command(facts(partition(isr=(1, 2)))).startswith("tidelog chaos restart 3")


def test_a_broker_that_was_just_killed_is_not_called_alive_and_behind():
    followers = {"followers": [{"broker": 3, "lag": 84}]}
    killed = facts(partition(isr=(1, 2)), followers)._replace(refused=(3,))
    text = " ".join(sentences(killed))
    assert "The ISR is 1,2: broker 3 is down." in text
    assert "Broker 3 refuses connections, so its process is gone" in text
    assert "84" not in text
    assert next_command(killed).startswith("tidelog chaos restart 3")


def test_only_a_refused_connection_proves_that_a_process_is_gone(nobody):
    async def story(listening):
        brokers = [
            BrokerView(1, *listening.getsockname()),
            BrokerView(2, *parse_bootstrap(nobody)[0]),
            BrokerView(3, "no-such-host.invalid", 9092),
        ]
        async with Client(nobody) as client:
            return await client.refused_by(brokers)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert asyncio.run(story(listening)) == (2,)


def test_a_healthy_partition_is_explained_shortly():
    healthy = facts(partition(), alive=(1, 2, 3))
    assert "All 3 replicas are in sync." in sentences(healthy)
    assert next_command(healthy) == "tidelog consume orders --from -5 -n 5"


def test_a_partition_is_drawn_with_a_crown_and_a_bar():
    told = {
        "log_end_offset": 1043,
        "followers": [{"broker": 2, "log_end_offset": 1042, "lag": 1}],
    }
    lines = [line_of(row) for row in rows_of(facts(partition(isr=(1, 2)), told))]
    assert lines == [
        "  1 ♛ ISR   …1038·1039·1040│1041·1042▲",
        "  2   ISR   …1038·1039·1040│1041▲",
        "  3   down",
    ]


def test_complaints_begin_with_the_worst():
    view = ClusterView("id", 1, {1: None, 2: None}, {})
    brokers = [SeenBroker(n, "h", 1, None, n != 3, None) for n in (1, 2, 3)]
    parts = [partition(isr=(1, 2)), partition(leader=None, isr=(3,))]
    found = Survey(view, brokers, None, [(each, judge(each, (1, 2), 2)) for each in parts])
    assert complaints(found) == [
        "orders-0 offline: 1,2 lag",
        "broker 3 is down",
        "orders-0 under-replicated: 3 down",
    ]


def test_a_full_disk_is_named_with_its_free_bytes():
    full = FullDisk(3, "/data", 9_999, 1_000_000)
    told = "the disk of /data on broker 3 is full: 9,999 of 1,000,000 bytes are free"
    given = facts(partition(isr=(1, 2)), alive=(1, 2, 3))._replace(full_disks=(full,))
    text = " ".join(sentences(given))
    assert "The ISR is 1,2: broker 3 is alive and has no room." in text
    assert f"{told[0].upper()}{told[1:]}." in text
    assert next_command(given) == "free or add space for /data on broker 3"
    view = ClusterView("id", 1, {3: None}, {})
    found = Survey(view, [SeenBroker(3, "h", 1, None, True, None, (full,))], None, [])
    assert complaints(found) == [told]


def test_a_controller_that_never_came_is_a_complaint():
    voters = (QuorumReplica(1, 17, 5, 5), QuorumReplica(2, 17, 5, 5), QuorumReplica(3, -1, -1, -1))
    brokers = [SeenBroker(n, "h", 1, None, True, None) for n in (1, 2)]
    found = Survey(
        ClusterView("id", 1, {1: None, 2: None}, {}), brokers, QuorumView(2, 1, 17, voters, ()), []
    )
    assert complaints(found) == ["controller 3 was not heard yet by 2, the active one"]


def test_a_kafka_error_has_a_name_and_a_number():
    error = KafkaError(38, "too many")
    assert (error.label, str(error)) == (
        "INVALID_REPLICATION_FACTOR (38)",
        "INVALID_REPLICATION_FACTOR (38): too many",
    )
    assert KafkaError(999).label == "ERROR (999)"


def test_bootstrap_addresses_may_leave_the_port_out():
    assert parse_bootstrap("a:1, b ,[::1]:9") == [("a", 1), ("b", 9092), ("::1", 9)]
