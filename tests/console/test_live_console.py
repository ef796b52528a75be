"""The console of a local cluster: real nodes, a real console, real sockets."""

import json
import socket
import urllib.request

import pytest
from click.testing import CliRunner

from support.console import ConsoleProcess, eventually
from tidelog.cli.main import cli
from tidelog.client.groups import GroupAdmin
from tidelog.client.producer import NewRecord, Producer
from tidelog.client.transactional_producer import TransactionalProducer
from tidelog.cluster import state as states
from tidelog.testing import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    directory = tmp_path_factory.mktemp("console") / "dev"
    with Cluster(brokers=3, directory=directory) as running:
        running.topic("known", replication_factor=3)
        yield running
        # The console has started nodes of its own accord: they end with the others.
        running._nodes.state = states.load(directory)


@pytest.fixture(scope="module")
def console(cluster):
    home = cluster.data_dir(1).parents[1]
    with ConsoleProcess("--data-dir", str(home.parent), "--name", home.name) as running:
        yield running


def write(cluster, topic, *values, partition=0):
    async def work(client):
        records = [NewRecord(value.encode(), b"k", partition=partition) for value in values]
        return (await Producer(client).write(topic, records))[0].base_offset

    return cluster.ask(work)


def events_of(cluster, node_id):
    """What a node itself says it told, by number."""
    port = cluster.http_port(node_id)
    url = f"http://127.0.0.1:{port}/events?since=0"
    found, last = {}, None
    with urllib.request.urlopen(url, timeout=60) as answer:
        while last is None or (last not in found and last > 0):
            line = answer.readline().decode()
            if line.startswith("data: "):
                told = json.loads(line[6:])
                if last is None:
                    last = told["number"]
                else:
                    found[told["number"]] = told["text"]
    return found


def test_the_overview_names_everybody_and_is_healthy(cluster, console):
    overview = eventually(lambda: healthy_overview(console))
    assert [each["id"] for each in overview["brokers"]] == [1, 2, 3]
    assert {each["state"] for each in overview["brokers"]} == {"alive"}
    assert overview["controller"]["id"] in (1, 2, 3)
    session = console.ok("/api/session")
    assert (session["mode"], session["secure"], session["user"]) == ("live", False, None)
    assert session["may"] == {"chaos": True, "produce": True, "admin": True}


def healthy_overview(console):
    overview = console.ok("/api/overview")
    return overview if overview["health"][0]["severity"] == "ok" else None


def test_a_partition_shows_its_replicas_with_epochs_and_positions(cluster, console):
    topic = cluster.topic("pictures", replication_factor=3)
    write(cluster, topic, "a", "b", "c")
    partition = eventually(lambda: caught_up(console, f"{topic}-0", 3))
    leader = partition["replica_logs"][partition["replicas"].index(partition["leader"])]
    assert (leader["role"], leader["log_end"], leader["epochs"]) == ("leader", 3, [[0, 0]])
    assert partition["mode"] == "live"
    assert [each["in_isr"] for each in partition["replica_logs"]] == [True] * 3


def caught_up(console, name, end):
    partition = console.ok(f"/api/partition/{name}")
    ends = [(each["log_end"], each["high_watermark"]) for each in partition["replica_logs"]]
    return partition if ends == [(end, end)] * 3 else None


def test_a_stream_that_breaks_goes_on_and_loses_nothing(cluster, console):
    topic = cluster.topic("streams", replication_factor=3)
    with console.stream("/api/stream?watch=events") as stream:
        assert stream.until(lambda event, _: event) == "snapshot"
        write(cluster, topic, "before")
        seen = dict(stream.until(appended_events(topic)))
        place = stream.last_id
    write(cluster, topic, "while nobody listened")
    with console.stream("/api/stream?watch=events", Last_Event_ID=place) as stream:
        write(cluster, topic, "after")
        wanted = dict.fromkeys(cluster.brokers, 3)
        numbers = {}

        def take(event, data):
            assert event in ("frame", "node"), (event, data)
            for each in data.get("events", ()):
                numbers.setdefault(each["node"], []).append(each["number"])
                if each["kind"] == "RecordsAppended" and each["topic"] == topic:
                    seen[each["node"]] = each["next_offset"]
            return seen == wanted

        stream.until(take)
    last_seen = {int(p.split(":")[0]): int(p.rpartition("-")[2]) for p in place.split(",")}
    for node_id, told in numbers.items():
        # In the node's own order, from where the first stream ended, without a hole.
        first = last_seen[node_id] + 1
        assert told == list(range(first, first + len(told)))
        assert set(told) <= set(events_of(cluster, node_id))


def appended_events(topic):
    found = {}

    def look(event, data):
        for each in data.get("events", ()) if event == "frame" else ():
            if each["kind"] == "RecordsAppended" and each["topic"] == topic:
                found[each["node"]] = each["next_offset"]
        return found if len(found) == 3 else None

    return look


def test_an_id_of_another_life_gives_a_gap_and_a_snapshot(console):
    with console.stream("/api/stream?watch=overview", Last_Event_ID="1:5-1000") as stream:
        kinds = []
        stream.until(lambda event, _: kinds.append(event) or event == "snapshot")
        assert kinds == ["gap", "snapshot"]


def test_a_viewer_who_reads_nothing_keeps_nobody_waiting(cluster, console):
    topic = cluster.topic("floods", replication_factor=3)
    with socket.create_connection(("127.0.0.1", console.connect().port)) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(b"GET /api/stream?watch=events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        for _ in range(20):
            write(cluster, topic, *["x"] * 10)
        # Others are served meanwhile.
        assert caught_up_soon(console, f"{topic}-0", 200)
        slow.settimeout(60)
        text = b""
        while b"event: snapshot" not in text:
            text += slow.recv(4096)


def caught_up_soon(console, name, end):
    return eventually(lambda: caught_up(console, name, end))


def test_a_kill_is_told_at_once_and_undone_from_the_list_of_faults(cluster, console):
    topic = cluster.topic("faults", replication_factor=3)
    leader = cluster.partition(topic, 0).leader
    with console.stream(f"/api/stream?watch=partition:{topic}-0") as stream:
        stream.until(lambda event, _: event == "snapshot")
        status, _ = console.post("/api/chaos", {"kind": "kill", "node": leader})
        assert status == 200
        told = stream.until(lambda event, data: event == "node" and data)
        assert (told["node"], told["state"]) == (leader, "down")
        elected = stream.until(lambda event, data: kind_in(data, "LeaderElected"))
        assert (elected["previous"], elected["leader_epoch"]) == (leader, 1)
    partition = console.ok(f"/api/partition/{topic}-0")
    gone = partition["replica_logs"][partition["replicas"].index(leader)]
    assert (gone["state"], gone["in_isr"]) == ("down", False)
    assert gone["last_seen_ms"] is not None
    texts = [each["text"] for each in console.ok("/api/overview")["health"]]
    assert f"broker {leader} is down" in texts
    active = console.ok("/api/chaos")["active"]
    assert [(each["id"], each["by"]) for each in active] == [(f"kill-{leader}", "the console")]
    status, document = console.delete(f"/api/chaos/kill-{leader}")
    assert (status, document["active"]) == (200, [])
    eventually(lambda: healthy_overview(console))


def test_leaderships_are_given_back_by_a_plan(cluster, console):
    topic = cluster.topic("balanced", assignment=[[1, 2, 3]])
    assert console.post("/api/chaos", {"kind": "kill", "node": 1})[0] == 200
    cluster.wait(lambda: cluster.partition(topic, 0).leader not in (None, 1))
    leader = cluster.partition(topic, 0).leader
    assert console.delete("/api/chaos/kill-1")[0] == 200
    cluster.wait(lambda: len(cluster.partition(topic, 0).isr) == 3)
    plan = console.ok("/api/balance")
    away = next(each for each in plan["partitions"] if each["name"] == f"{topic}-0")
    assert (away["leader"], away["preferred"], away["obstacle"]) == (leader, 1, None)
    share = next(each for each in plan["brokers"] if each["broker"] == 1)
    assert share["before"] < share["after"] == share["preferred"]
    status, done = console.post("/api/balance", {})
    assert (status, done["moved"], done["failed"]) == (200, plan["moving"], [])
    eventually(lambda: console.ok("/api/balance")["moving"] == 0)
    eventually(lambda: healthy_overview(console))


def test_who_watches_a_partition_sees_what_a_fetch_says_and_what_is_answered(cluster, console):
    topic = cluster.topic("overheard", replication_factor=3)
    with console.stream(f"/api/stream?watch=partition:{topic}-0") as stream:
        stream.until(lambda event, _: event == "snapshot")
        write(cluster, topic, "a", "b")
        wanted = {"Fetch offset 2, last epoch 0", "records 0–1, HW 0", "no records, HW 2"}
        said = set()

        def hear(_, data):
            said.update(each["text"] for each in data.get("messages", ()))
            return wanted <= said

        stream.until(hear)


def kind_in(data, kind):
    return next((each for each in data.get("events", ()) if each["kind"] == kind), None)


def test_faults_of_the_wire_and_of_disks_are_shown_and_undone(cluster, console):
    assert console.post("/api/chaos", {"kind": "slow", "node": 2, "latency_ms": 1})[0] == 200
    home = cluster.data_dir(1).parents[1]
    words = ["chaos", "disk", "3", "--full", "--data-dir", str(home.parent), "--name", home.name]
    assert CliRunner().invoke(cli, words).exit_code == 0
    found = console.ok("/api/chaos")["active"]
    active = {each["id"]: (each["detail"], each["by"]) for each in found}
    assert active == {
        "slow-2": ("1 ms to and from everybody", "the console"),
        "fill-disk-3": ("its disks look full", "the command line"),
    }
    full = eventually(lambda: finding_of(console, 3))
    assert full["kind"] == "disk-full"
    for fault in active:
        assert console.delete(f"/api/chaos/{fault}")[0] == 200
    assert console.ok("/api/chaos")["active"] == []
    eventually(lambda: not finding_of(console, 3))
    eventually(lambda: healthy_overview(console))


def finding_of(console, broker):
    return next(iter(console.ok(f"/api/brokers/{broker}")["findings"]), None)


def test_a_paused_node_is_seen_and_resumed(cluster, console):
    assert console.post("/api/chaos", {"kind": "pause", "node": 1})[0] == 200
    eventually(lambda: console.ok("/api/brokers")[0]["state"] == "paused")
    assert console.delete("/api/chaos/pause-1")[0] == 200
    eventually(lambda: healthy_overview(console))


def test_records_are_shown_with_transactions_and_markers_for_what_they_are(cluster, console):
    topic = cluster.topic("records", replication_factor=3)

    async def transactions(client):
        for name, ends in (("kept", "commit"), ("dropped", "abort"), ("pending", None)):
            producer = TransactionalProducer(client, f"console-{name}")
            await producer.init()
            await producer.begin()
            await producer.write(topic, [NewRecord(name.encode(), b"k")])
            if ends:
                await getattr(producer, ends)()

    write(cluster, topic, '{"a": 1}')
    cluster.ask(transactions)
    page = console.ok(f"/api/records?topic={topic}&partition=0&from=earliest")
    told = [
        (each["value"]["text"] if each["control"] is None else each["control"], state(each))
        for each in page["records"]
    ]
    assert told == [
        ('{"a": 1}', None),
        ("kept", "committed"),
        ("commit", "committed"),
        ("dropped", "aborted"),
        ("abort", "aborted"),
        ("pending", "open"),
    ]
    assert page["records"][0]["value"]["json"] == {"a": 1}
    assert (page["start"], page["end"], page["next"]) == (0, 6, 6)
    last = console.ok(f"/api/records?topic={topic}&partition=0&from=-1")["records"]
    assert [each["offset"] for each in last] == [5]
    keyed = console.ok(f"/api/records?topic={topic}&key=k&from=earliest")["records"]
    assert [each["offset"] for each in keyed] == [0, 1, 3, 5]


def state(record):
    return None if record["transaction"] is None else record["transaction"]["state"]


def test_what_is_produced_comes_out_of_the_tail(cluster, console):
    topic = cluster.topic("tails", replication_factor=3)
    with console.stream(f"/api/records/tail?topic={topic}") as stream:
        body = {
            "topic": topic,
            "partition": None,
            "key": "k",
            "value": "v",
            "headers": [["h", "1"]],
        }
        status, written = console.post("/api/records", body)
        assert (status, written) == (200, {"partition": 0, "offset": 0})
        record = stream.until(lambda event, data: event == "record" and data)
        assert (record["value"]["text"], record["headers"][0][1]["text"]) == ("v", "1")


def test_topics_are_created_listed_described_and_deleted(console):
    body = {"name": "invoices", "partitions": 2, "replication_factor": 3, "configs": {}}
    assert console.post("/api/topics", body)[0] == 201
    found = eventually(lambda: console.ok("/api/topics?search=INVOI")["topics"])
    assert [(each["name"], each["partitions"]) for each in found] == [("invoices", 2)]
    topic = console.ok("/api/topics/invoices")
    assert [each["partition"] for each in topic["partitions"]] == [0, 1]
    retention = next(each for each in topic["configs"] if each["name"] == "retention.ms")
    assert (retention["source"], retention["value"]) == ("default", "604800000")
    assert console.delete("/api/topics/invoices")[0] == 200
    assert console.get("/api/topics/invoices")[0] == 404


def test_groups_tell_their_lag_and_are_moved_by_a_plan(cluster, console):
    topic = cluster.topic("billed", replication_factor=3)
    write(cluster, topic, "a", "b", "c")
    cluster.ask(lambda client: GroupAdmin(client).move("billing", {(topic, 0): 1}))
    listed = {each["group"]: each for each in console.ok("/api/groups")}
    assert (listed["billing"]["lag"], listed["billing"]["members"]) == (2, 0)
    group = console.ok("/api/groups/billing")
    assert [(each["committed"], each["end"]) for each in group["partitions"]] == [(1, 3)]
    asked = {"to": "latest", "topics": [topic], "apply": False}
    status, plan = console.post("/api/groups/billing/seek", asked)
    assert (status, plan["applied"], plan["plan"][0]["to"]) == (200, False, 3)
    status, done = console.post("/api/groups/billing/seek", {**asked, "apply": True})
    assert (status, done["applied"]) == (200, True)
    assert console.ok("/api/groups/billing")["lag"] == 0
    pins = console.ok(f"/api/partition/{topic}-0")["consumers"]
    assert pins == [{"group": "billing", "offset": 3}]


def test_the_timeline_goes_back_in_pages(console):
    page = console.ok("/api/timeline?limit=5")
    before = console.ok(f"/api/timeline?limit=5&before={page['oldest']}")
    places = [each["place"] for each in (*before["events"], *page["events"])]
    assert len(places) == 10
    assert places == sorted(places)
    only = console.ok("/api/timeline?broker=2&limit=20")["events"]
    assert all(2 in (each["node"], each.get("broker")) for each in only)


def test_charts_have_a_point_for_every_second_that_somebody_watched(cluster, console):
    topic = cluster.topic("measured")
    wanted = {"loop_delay_ms", "replication_lag", "in_records", "produce_p99_ms"}

    def series():
        for number in range(8):  # one in eight is timed
            write(cluster, topic, str(number))
        found = console.ok("/api/metrics-view")["series"]
        return found if wanted <= set(found) else None

    found = eventually(series)
    times = [at for at, _ in found["in_records"]]
    assert times == sorted(times)
    newer = console.ok(f"/api/metrics-view?since={times[-1]}")["series"]["in_records"]
    assert all(at > times[-1] for at, _ in newer)


def test_the_controller_page_shows_the_quorum_and_what_its_log_means(console):
    controller = console.ok("/api/controller")
    assert controller["quorum"]["leader"] in (1, 2, 3)
    assert {each["id"] for each in controller["quorum"]["voters"]} == {1, 2, 3}
    assert any("topic" in each["meaning"] for each in controller["log"])


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/api/nothing", None, 404),
        ("GET", "/api/partition/orders", None, 400),
        ("GET", "/api/partition/no-such-topic-0", None, 404),
        ("GET", "/api/brokers/9", None, 404),
        ("GET", "/api/records", None, 400),
        ("GET", "/api/records?topic=known&partition=7", None, 400),
        ("GET", "/api/records?topic=known&from=yesterday", None, 400),
        ("GET", "/api/topics?page=first", None, 400),
        ("GET", "/api/groups/nobody", None, 404),
        ("GET", "/api/stream?watch=paint", None, 400),
        ("POST", "/api/chaos", {"kind": "melt", "node": 1}, 400),
        ("POST", "/api/chaos", {"kind": "kill", "node": 9}, 400),
        ("POST", "/api/chaos", {"kind": "cut", "groups": [[1], [1]]}, 400),
        ("POST", "/api/topics", {"name": "bad name"}, 400),
        ("POST", "/api/records", {"topic": "known", "value": 5}, 400),
        ("POST", "/api/groups/billing/seek", {"to": "soon"}, 400),
        ("DELETE", "/api/chaos/kill-2", None, 404),
    ],
)
def test_bad_input_is_refused_in_words(console, method, path, body, status):
    answered, document, _ = console.ask(method, path, body)
    assert (answered, set(document)) == (status, {"error", "try"}), document


def test_any_kafka_is_shown_in_the_polled_form(cluster):
    topic = cluster.topic("polled", replication_factor=3)
    write(cluster, topic, "a", "b")
    with ConsoleProcess("-b", cluster.bootstrap_servers) as console:
        session = console.ok("/api/session")
        assert (session["mode"], session["may"]["chaos"]) == ("polled", False)
        partition = console.ok(f"/api/partition/{topic}-0")
        assert (partition["mode"], partition["high_watermark"]) == ("polled", 2)
        assert len(console.ok("/api/overview")["brokers"]) == 3
        with console.stream(f"/api/stream?watch=partition:{topic}-0") as stream:
            write(cluster, topic, "c")
            stream.until(
                lambda event, data: event == "snapshot" and data["partition"]["log_end"] == 3
            )
        assert console.post("/api/chaos", {"kind": "kill", "node": 1})[0] == 409
