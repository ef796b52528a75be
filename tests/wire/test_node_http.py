"""The HTTP port of a node, over real sockets, by clients of all manners."""

import asyncio
import contextlib
import json
import socket

import pytest

from support.loopback import RawPeer, run, until
from support.manual_clock import ManualClock
from support.node_views import WELL, SeenNode, led
from tidelog.core import events
from tidelog.core.types import PartitionId
from tidelog.host.findings import Finding
from tidelog.observe import http_server
from tidelog.observe.http import MOST_STREAMS, Endpoints, Sources
from tidelog.observe.render import Renderer
from tidelog.observe.stream import KEPT_EVENTS, EventStream

ORDERS = PartitionId(b"o" * 16, 0)
STARTED_MS = 1_000_000


class Breakable:
    def __init__(self):
        self.blocked, self.latency_ms, self.full_disks = frozenset(), {}, False

    def describe(self):
        latency = {str(node): value for node, value in self.latency_ms.items()}
        full = self.full_disks
        return {"blocked": sorted(self.blocked), "latency_ms": latency, "full_disks": full}

    def set(self, blocked, latency_ms, *, full_disks=False):
        self.blocked, self.latency_ms, self.full_disks = blocked, latency_ms, full_disks


class Site:
    def __init__(self, chaos=None):
        self.view = SeenNode(led(), led(partition=1, isr=(1,), under_replicated_since_ms=5))
        self.stream = EventStream(1, ManualClock(STARTED_MS))
        self.chaos = chaos
        self.endpoints = Endpoints(
            Sources(
                self.view, self.stream, Renderer(self.view.topic_name), lambda: b"up 1\n", chaos
            )
        )

    @property
    def server(self):
        return self.endpoints.server

    async def raw(self, data):
        """Send bytes; everything that comes back until the node closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        try:
            writer.write(data)
            with contextlib.suppress(ConnectionError):
                return await reader.read()
            return b""
        finally:
            writer.close()

    async def ask(self, method, path, body=b"", **headers):
        head = {"Host": f"127.0.0.1:{self.server.port}", **headers}
        if body:
            head["Content-Length"] = str(len(body))
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in head.items())
        return parsed(await self.raw(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body))


def parsed(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head.split(b" ")[1])
    return status, json.loads(body) if b"application/json" in head else body


def served(story, chaos=None):
    async def whole():
        site = Site(chaos)
        await site.server.start("127.0.0.1", 0)
        try:
            await story(site)
        finally:
            await site.server.stop()
        assert site.server.open == 0
        assert site.endpoints.streams == 0

    run(whole)


class EventSource:
    """Reads a stream as a browser does."""

    def __init__(self, reader, writer):
        self._reader, self.writer = reader, writer

    async def next(self):
        while True:
            lines = (await self._reader.readuntil(b"\n\n")).decode().strip().split("\n")
            fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
            if "event" in fields:
                return fields.get("id"), fields["event"], json.loads(fields["data"])


@contextlib.asynccontextmanager
async def event_source(site, last_id=None, query=""):
    reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
    resume = f"Last-Event-ID: {last_id}\r\n" if last_id else ""
    writer.write(f"GET /events{query} HTTP/1.1\r\nHost: localhost\r\n{resume}\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    source = EventSource(reader, writer)
    assert (await source.next())[1] == "hello"
    try:
        yield source
    finally:
        writer.close()


def fenced(broker):
    return events.BrokerFenced(broker, 7)


def test_a_scrape_gets_prometheus_text():
    async def story(site):
        status, body = await site.ask("GET", "/metrics")
        assert (status, body) == (200, b"up 1\n")
        assert site.server.requests[200] == 1

    served(story)


def test_the_state_of_every_partition_can_be_read():
    async def story(site):
        status, state = await site.ask("GET", "/state")
        assert status == 200
        assert state["node"] == 1
        assert state["quorum"]["leader_id"] == 1
        well, troubled = state["partitions"]
        assert (well["name"], well["healthy"], well["isr"]) == ("orders-0", True, [1, 2, 3])
        assert well["followers"][0] == {
            "broker": 2,
            "in_isr": True,
            "log_end_offset": 8,
            "lag": 2,
            "caught_up_ms_ago": 40,
        }
        assert troubled["under_min_isr"] is True
        assert troubled["under_replicated_since_ms"] == 5

    served(story)


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({}, []),
        ({"listeners_open": False}, ["listeners_open"]),
        ({"disks_online": False}, ["disks_online"]),
        ({"metadata_caught_up": False}, ["metadata_caught_up"]),
        ({"quorum_leader_known": False}, ["quorum_leader_known"]),
        ({"registered": False, "unfenced": False}, ["registered"]),
        ({"unfenced": False}, ["unfenced"]),
        ({"session_alive": False}, ["session_alive"]),
        ({"registered": False, "unfenced": False, "session_alive": False}, ["registered"]),
        ({"stopping": True}, ["stopping"]),
        ({"registered": None, "unfenced": None, "session_alive": None}, []),
        ({"disks_online": False, "unfenced": False}, ["disks_online", "unfenced"]),
    ],
)
def test_health_is_the_truth_and_says_why(changes, reasons):
    async def story(site):
        site.view.now_health = WELL._replace(**changes)
        status, document = await site.ask("GET", "/healthz")
        assert status == (503 if reasons else 200)
        assert document["serves"] is not bool(reasons)
        assert sorted(document["reasons"]) == sorted(reasons)

    served(story)


def test_findings_are_listed_and_do_not_stop_a_node_from_serving():
    async def story(site):
        site.view.now_findings = (Finding("disk-full", "/data", "0 bytes free", "free some", 7),)
        listed = [site.view.now_findings[0]._asdict()]
        status, document = await site.ask("GET", "/healthz")
        assert (status, document["serves"], document["findings"]) == (200, True, listed)
        assert (await site.ask("GET", "/state"))[1]["findings"] == listed

    served(story)


def test_events_arrive_as_they_happen_with_ids():
    async def story(site):
        async with event_source(site) as source:
            site.stream.emit(fenced(2))
            number, kind, data = await source.next()
            assert (number, kind) == (f"{STARTED_MS}-1", "BrokerFenced")
            assert (data["node"], data["number"], data["broker"]) == (1, 1, 2)
            assert data["text"] == "broker 2 fenced, broker epoch 7"

    served(story)


def test_a_reader_that_drops_and_resumes_loses_nothing_and_sees_nothing_twice():
    async def story(site):
        seen, last_id = [], f"{STARTED_MS}-0"
        for round_number in range(5):
            for broker in range(300):
                site.stream.emit(fenced(broker))
            async with event_source(site, last_id) as source:
                for _ in range(250 if round_number < 4 else 500):
                    last_id, _, data = await source.next()
                    seen.append(data["number"])
        assert seen == list(range(1, 1501))

    served(story)


def test_a_reader_the_ring_has_left_behind_is_told_of_the_gap_and_goes_on_from_there():
    async def story(site):
        for broker in range(KEPT_EVENTS + 10):
            site.stream.emit(fenced(broker))
        async with event_source(site, f"{STARTED_MS}-4") as source:
            assert (await source.next())[1:] == ("gap", {"missed": 6})
            assert (await source.next())[2]["number"] == 11

    served(story)


def test_a_reader_of_the_process_before_is_told_of_a_gap():
    async def story(site):
        site.stream.emit(fenced(1))
        async with event_source(site, "999-1") as source:
            assert (await source.next())[1:] == ("gap", {"missed": None})
            assert (await source.next())[2]["number"] == 1

    served(story)


def test_everything_that_is_kept_can_be_asked_for():
    async def story(site):
        site.stream.emit(fenced(1))
        async with event_source(site, query="?since=0") as source:
            assert (await source.next())[2]["number"] == 1

    served(story)


def test_a_reader_that_takes_nothing_is_let_go_and_counted(monkeypatch):
    monkeypatch.setattr(http_server, "WRITE_TIMEOUT_MS", 50)

    async def story(site):
        async with event_source(site, query="?since=0"):
            while not site.server.closed:  # "slow-reader" or "fell-behind", which is first
                for broker in range(500):
                    site.stream.emit(fenced(broker))
                await asyncio.sleep(0)
            await until(lambda: site.endpoints.streams == 0)

    served(story)


def test_there_are_only_so_many_readers():
    async def story(site):
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(MOST_STREAMS):
                await stack.enter_async_context(event_source(site))
            status, document = await site.ask("GET", "/events")
            assert status == 503
            assert "enough" in document["error"]
        await until(lambda: site.endpoints.streams == 0)

    served(story)


def test_a_nonsense_id_is_refused():
    async def story(site):
        status, _ = await site.ask("GET", "/events", Last_Event_ID="yesterday")
        assert status == 400

    served(story)


def test_chaos_is_off_unless_the_node_was_started_with_it():
    async def story(site):
        for method, body in (("GET", b""), ("POST", b"{}"), ("DELETE", b"")):
            status, document = await site.ask(
                method, "/chaos", body, Content_Type="application/json"
            )
            assert status == 403
            assert "tidelog.chaos.enable=true" in document["error"]

    served(story)


def test_partitions_are_told_in_pages_and_one_by_one():
    async def story(site):
        status, page = await site.ask("GET", "/partitions?from=1&limit=1")
        names = [each["name"] for each in page["partitions"]]
        assert (status, page["total"], names) == (200, 2, ["orders-1"])
        status, one = await site.ask("GET", "/partition?topic=orders&partition=1")
        assert (status, one["isr"], one["epochs"]) == (200, [1], [[0, 0], [4, 6]])
        assert (await site.ask("GET", "/partition?topic=bills&partition=0"))[0] == 404
        assert (await site.ask("GET", "/partition?topic=orders&partition=x"))[0] == 400
        _, summary = await site.ask("GET", "/state?partitions=none")
        _, whole = await site.ask("GET", "/state")
        assert "partitions" not in summary
        assert {**summary, "partitions": whole["partitions"]} == whole

    served(story)


def test_the_end_of_the_metadata_log_is_told_in_words():
    async def story(site):
        status, told = await site.ask("GET", "/metadata-log?last=1")
        assert (status, len(told["log"])) == (200, 1)
        _, told = await site.ask("GET", "/metadata-log")
        assert told["log"][0] == {
            "offset": 40,
            "epoch": 3,
            "record": "Topic",
            "meaning": "topic orders is created",
        }

    served(story)


def test_chaos_is_set_shown_and_healed():
    chaos = Breakable()

    async def story(site):
        body = b'{"blocked": [3, 2], "latency_ms": {"2": 80}, "full_disks": true}'
        wanted = {"blocked": [2, 3], "latency_ms": {"2": 80}, "full_disks": True}
        answer = await site.ask("POST", "/chaos", body, Content_Type="application/json")
        assert answer == (200, wanted)
        assert await site.ask("GET", "/chaos") == (200, wanted)
        healed = {"blocked": [], "latency_ms": {}, "full_disks": False}
        assert await site.ask("DELETE", "/chaos") == (200, healed)

    served(story, chaos)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b'{"blocked": [2]}', "text/plain", 415),
        (b"[]", "application/json", 400),
        (b"{", "application/json", 400),
        (b"[" * 60_000, "application/json", 400),
        (b'{"block": [2]}', "application/json", 400),
        (b'{"blocked": ["2"]}', "application/json", 400),
        (b'{"blocked": [true]}', "application/json", 400),
        (b'{"blocked": [1]}', "application/json", 400),
        (b'{"latency_ms": {"2": -1}}', "application/json", 400),
        (b'{"latency_ms": {"two": 1}}', "application/json", 400),
        (b'{"latency_ms": [2]}', "application/json", 400),
        (b'{"full_disks": 1}', "application/json", 400),
    ],
)
def test_chaos_that_makes_no_sense_breaks_nothing(body, kind, status):
    chaos = Breakable()

    async def story(site):
        answer, document = await site.ask("POST", "/chaos", body, Content_Type=kind)
        assert answer == status
        assert document["error"]
        assert chaos.blocked == frozenset()

    served(story, chaos)


HOST = b"Host: localhost\r\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x00\x00\x00\x1a\x00\x12\x00\x04\r\n\r\n", 400),
        (b"GET /state\r\n\r\n", 400),
        (b"GET /state HTTP/2.0\r\n\r\n", 400),
        (b"GET http://elsewhere/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET //elsewhere/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"HEAD /state HTTP/1.1\r\n" + HOST + b"\r\n", 405),
        (b"OPTIONS /chaos HTTP/1.1\r\n" + HOST + b"\r\n", 405),
        (b"POST /state HTTP/1.1\r\n" + HOST + b"Content-Length: 0\r\n\r\n", 405),
        (b"GET /nowhere HTTP/1.1\r\n" + HOST + b"\r\n", 404),
        (b"GET /../etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n", 404),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: a\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 9_000 + b"\r\n\r\n", 431),
        (b"POST /chaos HTTP/1.1\r\n" + HOST + b"\r\n", 411),
        (b"POST /chaos HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST /chaos HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n", 400),
        (b"POST /chaos HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999\r\n\r\n", 413),
        (b"POST /chaos HTTP/1.1\r\n" + HOST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", 413),
        (b"GET /state HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET /state HTTP/1.1\r\n\r\n", 421),
        (b"GET /state HTTP/1.1\r\n" + HOST + b"Origin: http://evil.example\r\n\r\n", 403),
    ],
)
def test_rude_requests_get_a_short_answer(data, status):
    async def story(site):
        answer, document = parsed(await site.raw(data))
        assert answer == status
        assert document["error"]
        assert (await site.ask("GET", "/healthz"))[0] == 200

    served(story)


def test_half_a_request_is_given_up_in_time(monkeypatch):
    monkeypatch.setattr(http_server, "REQUEST_TIMEOUT_MS", 50)

    async def story(site):
        assert parsed(await site.raw(b"GET /state HT"))[0] == 408
        late_body = b"POST /chaos HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\n{"
        assert parsed(await site.raw(late_body))[0] == 408

    served(story)


def test_a_client_that_goes_in_the_middle_is_counted():
    async def story(site):
        _, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
        writer.write(b"GET /st")
        await writer.drain()
        writer.close()
        await until(lambda: site.server.closed["half-request"])

    served(story)


def test_too_many_connections_are_dropped_at_the_door(monkeypatch):
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 2)

    async def story(site):
        idle = [await asyncio.open_connection("127.0.0.1", site.server.port) for _ in range(2)]
        await until(lambda: site.server.open == 2)
        assert await site.raw(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n") == b""
        assert site.server.closed["too-many-connections"] == 1
        for _, writer in idle:
            writer.close()
        await until(lambda: site.server.open == 0)

    served(story)


def test_a_bug_of_ours_is_a_500_and_a_line_in_the_log(caplog):
    async def story(site):
        site.view.health = None
        status, document = await site.ask("GET", "/healthz")
        assert status == 500
        assert "Traceback" not in str(document)
        assert caplog.records[0].getMessage() == "a request over HTTP failed in our code"

    served(story)


def test_stopping_ends_streams():
    async def story(site):
        async with event_source(site) as source:
            await site.server.stop()
            with pytest.raises(asyncio.IncompleteReadError):
                await source.next()

    served(story)


@pytest.mark.parametrize("turns", range(6))
def test_stopping_leaves_nobody_connected_who_came_meanwhile(turns):
    async def story(site):
        with socket.create_connection(("127.0.0.1", site.server.port)) as sock:
            sock.setblocking(False)
            for _ in range(turns):
                await asyncio.sleep(0)
            await site.server.stop()
            await RawPeer(sock).ended()

    served(story)
