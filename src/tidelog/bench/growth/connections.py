"""Connections to one broker: what they cost when idle, and what a request costs among many.

Every connection asks for the metadata of one topic again and again, one request at a time. The
client is this process, on the other core: processor time per request is the broker's alone.
"""

import selectors
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from tidelog.bench.compare.footprint import cpu_share
from tidelog.bench.compare.system import Running, System, SystemFailed
from tidelog.bench.growth.curves import Measure, Point

TITLE = "connections to one node"
SIZE_TITLE = "connections"
MEASURES = (
    Measure("rss_mb", "RSS", "MB", "kB each", 1000),
    Measure("idle_cpu_percent", "idle processor", "% of a core", "µs/s each", 10_000),
    Measure("requests_per_s", "requests", "per s", is_cost=False),
    Measure("request_cpu_us", "processor of a request", "µs"),
)
MEGABYTE = 1_000_000
METADATA_KEY, METADATA_VERSION = 3, 1
CLIENT_ID = b"growth"
TOPIC = "asked-for"
RECEIVE_BYTES = 64 * 1024
ANSWER_WITHIN_S = 30.0


def measure(system: System, connections: int, *, idle_s: float, busy_s: float) -> Point:
    with closing(system.start(1)) as running:
        running.create_topic(TOPIC, 1, replication_factor=1)
        with opened(running, connections) as asking:
            asking.ask_for(0)  # once each: an unused connection is not what clients have
            rss_bytes = running.rss_bytes()
            idle = cpu_share(running, idle_s)
            before, begin = running.cpu_seconds(), time.perf_counter()
            requests = asking.ask_for(busy_s)
            passed_s = time.perf_counter() - begin
            used_s = running.cpu_seconds() - before
    values = {
        "rss_mb": rss_bytes / MEGABYTE,
        "idle_cpu_percent": 100 * idle,
        "requests_per_s": requests / passed_s,
        "request_cpu_us": used_s / requests * 1_000_000,
    }
    return Point(connections, values)


def metadata_request(topic: str) -> bytes:
    """A whole frame: size, header, an array of one name."""
    name = topic.encode("ascii")
    header = struct.pack(">hhih", METADATA_KEY, METADATA_VERSION, 1, len(CLIENT_ID)) + CLIENT_ID
    body = struct.pack(">ih", 1, len(name)) + name
    return struct.pack(">i", len(header) + len(body)) + header + body


class Answer:
    """Bytes of one connection until its answer is whole."""

    __slots__ = ("_got", "_missing")

    def __init__(self) -> None:
        self._got = b""
        self._missing = 0

    def take(self, data: bytes) -> bool:
        """Whether these were the last of it; then the next one begins."""
        if not self._missing:
            self._got += data
            if len(self._got) < 4:
                return False
            self._missing = 4 + int(struct.unpack_from(">i", self._got)[0])
            data, self._got = self._got, b""
        self._missing -= len(data)
        assert self._missing >= 0, f"{-self._missing} bytes that nobody asked for"
        return self._missing == 0


class Asking:
    """Connections that ask the same again and again, each one thing at a time."""

    __slots__ = ("_request", "_selector", "_sockets")

    def __init__(self, sockets: list[socket.socket]) -> None:
        self._request = metadata_request(TOPIC)
        self._sockets = sockets
        self._selector = selectors.DefaultSelector()
        for each in sockets:
            self._selector.register(each, selectors.EVENT_READ, Answer())

    def ask_for(self, seconds: float) -> int:
        """How many answers came: at least one to each connection."""
        end = time.perf_counter() + seconds
        for each in self._sockets:
            each.sendall(self._request)
        waiting, answered = len(self._sockets), 0
        while waiting:
            ready = self._selector.select(ANSWER_WITHIN_S)
            if not ready:
                raise SystemFailed(f"{waiting} connections got no answer in {ANSWER_WITHIN_S:g} s")
            goes_on = time.perf_counter() < end
            for key, _ in ready:
                connection = key.fileobj
                assert isinstance(connection, socket.socket), f"{connection} is none of ours"
                data = connection.recv(RECEIVE_BYTES)
                if not data:
                    raise SystemFailed("the broker closed a connection")
                if not key.data.take(data):
                    continue
                answered += 1
                if goes_on:
                    connection.sendall(self._request)
                else:
                    waiting -= 1
        return answered

    def close(self) -> None:
        self._selector.close()
        for each in self._sockets:
            each.close()


@contextmanager
def opened(running: Running, count: int) -> Iterator[Asking]:
    host, _, port = running.bootstrap_servers.partition(",")[0].rpartition(":")
    sockets: list[socket.socket] = []
    try:
        for _ in range(count):
            connection = socket.create_connection((host, int(port)), timeout=ANSWER_WITHIN_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sockets.append(connection)
        with closing(Asking(sockets)) as asking:
            yield asking
    finally:
        for each in sockets:
            each.close()
