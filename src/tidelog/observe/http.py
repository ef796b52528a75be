"""What a node says over HTTP: /metrics, /events, /healthz, /state, its partitions in pages and one
by one and, if allowed, /chaos and /lab."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from http import HTTPStatus
from typing import NamedTuple, Protocol

from tidelog.host import tasks
from tidelog.host.tls_streams import TlsStreams
from tidelog.observe import chaos_body, metadata_records
from tidelog.observe.http_server import (
    BadRequest,
    HttpServer,
    Request,
    Response,
    json_response,
)
from tidelog.observe.lab_route import LAB, Lab, LabRoute
from tidelog.observe.render import Renderer
from tidelog.observe.stream import EventStream, NumberedEvent
from tidelog.observe.views import NodeView, PartitionView, ReplicaView

HEALTH, CHAOS = "/healthz", "/chaos"
MOST_STREAMS = 16
KEEP_ALIVE_MS = 10_000
EVENTS_PER_WRITE = 200
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PARTITIONS_PER_PAGE = 200
METADATA_RECORDS = 500


class Chaos(Protocol):
    """What may be broken from outside; `host.gate.GatedNetwork` through the node."""

    def describe(self) -> dict[str, object]: ...
    def set(
        self, blocked: frozenset[int], latency_ms: dict[int, int], *, full_disks: bool = False
    ) -> None: ...
    def answer_next(self, api: str, error: str, times: int, topic: str | None) -> None:
        """ValueError if there is no such API or error."""
        ...

    def answer_as_usual(self) -> None:
        """What was asked of `answer_next` is forgotten."""
        ...


class HttpAccess(Protocol):
    """Who may ask a secured node; `node.http_access.NodeHttpAccess`."""

    def is_stranger(self, request: Request) -> bool:
        """Comes from another machine and shows no login."""
        ...

    async def admit(self, request: Request) -> None:
        """BadRequest if it may not be served."""
        ...


class Sources(NamedTuple):
    view: NodeView
    stream: EventStream
    renderer: Renderer
    metrics: Callable[[], bytes]
    """Called for every scrape; may import what it needs only then."""
    chaos: Chaos | None
    """None: not allowed on this node."""
    access: HttpAccess | None = None
    """None: whoever reaches the port may ask."""
    tls: TlsStreams | None = None
    lab: Lab | None = None
    """None: not in a lab."""


class Endpoints:
    """Owner of the HTTP port of a node."""

    __slots__ = ("_routes", "_sources", "server", "streams")

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.server = HttpServer(self.serve, sources.tls)
        self.streams = 0
        lab = LabRoute(sources.lab, sources.view.node_id)
        self._routes: dict[str, dict[str, Callable[[Request], Response]]] = {
            "/metrics": {"GET": self._metrics},
            "/events": {"GET": self._events},
            HEALTH: {"GET": self._healthz},
            "/state": {"GET": self._state},
            "/partitions": {"GET": self._partitions},
            "/partition": {"GET": self._partition},
            "/metadata-log": {"GET": self._metadata_log},
            CHAOS: {
                "GET": self._get_chaos,
                "POST": self._post_chaos,
                "DELETE": self._delete_chaos,
            },
            LAB: {"GET": lab.get, "POST": lab.post, "DELETE": lab.delete},
        }

    async def serve(self, request: Request) -> Response:
        """What comes over the network."""
        access = self._sources.access
        if access is None:
            return await self.handle(request)
        if request.path == HEALTH and request.method == "GET" and access.is_stranger(request):
            return self._healthz_of_strangers()
        await access.admit(request)
        return await self.handle(request)

    async def handle(self, request: Request) -> Response:
        methods = self._routes.get(request.path)
        if methods is None:
            error = {"error": f"no {request.path[:80]!r} here", "try": sorted(self._routes)}
            return json_response(error, HTTPStatus.NOT_FOUND)
        serve = methods.get(request.method)
        if serve is None:
            allowed = ", ".join(methods)
            error = {"error": f"{request.path} takes {allowed}"}
            return json_response(error, HTTPStatus.METHOD_NOT_ALLOWED, (("Allow", allowed),))
        return serve(request)

    def _metrics(self, _: Request) -> Response:
        return Response(200, self._sources.metrics(), METRICS_TYPE)

    def _healthz(self, _: Request) -> Response:
        view = self._sources.view
        reasons = view.health().reasons
        document = {
            "node": view.node_id,
            "serves": not reasons,
            "reasons": reasons,
            "findings": [finding._asdict() for finding in view.findings()],
        }
        return json_response(document, 503 if reasons else 200)

    def _healthz_of_strangers(self) -> Response:
        """For probes, which have no password: whether it serves, and nothing about the cluster."""
        serves = not self._sources.view.health().reasons
        return json_response({"serves": serves}, 200 if serves else 503)

    def _state(self, request: Request) -> Response:
        whole = request.query.get("partitions") != "none"
        view, stream = self._sources.view, self._sources.stream
        return json_response(state_of(view, stream) if whole else summary_of(view, stream))

    def _partitions(self, request: Request) -> Response:
        start = _number_in(request, "from", 0)
        limit = min(_number_in(request, "limit", PARTITIONS_PER_PAGE), PARTITIONS_PER_PAGE)
        page = self._sources.view.partition_page(start, limit)
        document = {
            "node": self._sources.view.node_id,
            "total": page.total,
            "from": start,
            "partitions": [replica_state(each) for each in page.replicas],
        }
        return json_response(document)

    def _partition(self, request: Request) -> Response:
        topic, index = request.query.get("topic", ""), _number_in(request, "partition", 0)
        found = self._sources.view.replica(topic, index)
        if found is None:
            error = {"error": f"no replica of {topic[:80]}-{index} lies here"}
            return json_response(error, HTTPStatus.NOT_FOUND)
        return json_response({"node": self._sources.view.node_id, **replica_state(found)})

    def _metadata_log(self, request: Request) -> Response:
        view = self._sources.view
        count = min(_number_in(request, "last", METADATA_RECORDS), METADATA_RECORDS)
        told = [
            row
            for entry in view.metadata_entries(count)
            for row in metadata_records.rows(entry, view.topic_name, count)
        ]
        return json_response({"node": view.node_id, "log": told[-count:] if count else []})

    # -- events

    def _events(self, request: Request) -> Response:
        if self.streams >= MOST_STREAMS:
            reason = f"{MOST_STREAMS} readers of events are enough for a node"
            raise BadRequest(HTTPStatus.SERVICE_UNAVAILABLE, reason)
        asked = request.headers.get("last-event-id") or request.query.get("since")
        position = self._sources.stream.last_number if asked is None else self._position(asked)
        return Response(200, b"retry: 1000\n\n", "text/event-stream", (), self._tell(position))

    def _position(self, asked: str) -> int:
        """`<start of the process>-<number>`, or a number alone. -1: of another process."""
        started, dash, number = asked.rpartition("-")
        if not (number.isascii() and number.isdigit() and len(number) < 18):
            reason = f"{asked[:40]!r} is not the id of an event"
            raise BadRequest(HTTPStatus.BAD_REQUEST, reason)
        if dash and started != str(self._sources.stream.started_ms):
            return -1
        return int(number)

    async def _tell(self, position: int) -> AsyncGenerator[bytes, None]:
        """The ring is the queue of every reader: who falls behind it is let go, and told of the
        gap when it comes back."""
        stream, woken = self._sources.stream, asyncio.Event()
        unsubscribe = stream.subscribe(lambda _: woken.set())
        self.streams += 1
        try:
            yield self._hello()
            missed, kept = stream.since(position, 1)
            if missed:
                yield frame("gap", {"missed": None if missed < 0 else missed})
                position = kept[0].number - 1 if kept else stream.last_number
            while True:
                woken.clear()
                backlog = stream.since(position, EVENTS_PER_WRITE)
                if backlog.missed:
                    return
                if backlog.events:
                    position = backlog.events[-1].number
                    yield b"".join(map(self._frame, backlog.events))
                    continue
                try:
                    async with tasks.within(KEEP_ALIVE_MS):
                        await woken.wait()
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self.streams -= 1
            unsubscribe()

    def _hello(self) -> bytes:
        stream = self._sources.stream
        hello = {"node": stream.node_id, "stream": stream.started_ms, "number": stream.last_number}
        return frame("hello", hello)

    def _frame(self, numbered: NumberedEvent) -> bytes:
        stream = self._sources.stream
        rendered = self._sources.renderer.numbered(stream.node_id, numbered)
        number = f"{stream.started_ms}-{numbered.number}"
        return frame(type(numbered.event).__name__, rendered, number)

    # -- chaos

    def _get_chaos(self, _: Request) -> Response:
        return json_response(self._chaos().describe())

    def _delete_chaos(self, _: Request) -> Response:
        self._chaos().set(frozenset(), {})
        self._chaos().answer_as_usual()
        return json_response(self._chaos().describe())

    def _post_chaos(self, request: Request) -> Response:
        chaos = self._chaos()
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            reason = "Content-Type has to be application/json"
            raise BadRequest(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, reason)
        document = chaos_body.parse_body(request.body)
        if "answer_next" in document:
            try:
                script = chaos_body.parse_answers(document)
                chaos.answer_as_usual() if script is None else chaos.answer_next(*script)
            except ValueError as unknown:
                raise BadRequest(HTTPStatus.BAD_REQUEST, str(unknown)) from None
            return json_response(chaos.describe())
        wanted = chaos_body.parse_faults(document)
        if self._sources.view.node_id in wanted.blocked | wanted.latency_ms.keys():
            reason = f"this is node {self._sources.view.node_id}: it cannot be cut from itself"
            raise BadRequest(HTTPStatus.BAD_REQUEST, reason)
        chaos.set(wanted.blocked, wanted.latency_ms, full_disks=wanted.full_disks)
        return json_response(chaos.describe())

    def _chaos(self) -> Chaos:
        if self._sources.chaos is None:
            reason = "start the node with tidelog.chaos.enable=true to break it on purpose"
            raise BadRequest(HTTPStatus.FORBIDDEN, reason)
        return self._sources.chaos


def frame(event: str, data: object, number: str | None = None) -> bytes:
    """One server-sent event. JSON has no line ends, so one data line holds it."""
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {event}\ndata: {json.dumps(data)}\n\n".encode()


def _number_in(request: Request, name: str, default: int) -> int:
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadRequest(HTTPStatus.BAD_REQUEST, f"{name}={text[:40]!r} is not a number")
    return int(text)


def state_of(view: NodeView, stream: EventStream) -> dict[str, object]:
    """All of a node in one document."""
    partitions = [partition_state(each) for each in view.partitions()]
    return {**summary_of(view, stream), "partitions": partitions}


def summary_of(view: NodeView, stream: EventStream) -> dict[str, object]:
    """All but its partitions, of which there may be thousands."""
    controller, health, traffic = view.controller(), view.health(), view.traffic()
    return {
        "node": view.node_id,
        "roles": list(view.roles),
        "cluster_id": view.cluster_id,
        "serves": health.serves,
        "reasons": health.reasons,
        "findings": [finding._asdict() for finding in view.findings()],
        "stream": stream.started_ms,
        "number": stream.last_number,
        "quorum": view.quorum()._asdict(),
        "controller": None if controller is None else controller._asdict(),
        "brokers": [broker._asdict() for broker in view.brokers()],
        "log_dirs": [each._asdict() for each in view.log_dirs()],
        "requests": dict(view.requests()),
        "traffic": {
            "records_in": traffic.messages_in,
            "bytes_in": traffic.bytes_in,
            "bytes_out": traffic.bytes_out,
        },
    }


def replica_state(replica: ReplicaView) -> dict[str, object]:
    return {
        **partition_state(replica.partition),
        "epochs": [list(each) for each in replica.epochs],
        "overheard": [each._asdict() for each in replica.overheard],
    }


def partition_state(partition: PartitionView) -> dict[str, object]:
    return {
        **partition._asdict(),
        "name": partition.name,
        "healthy": partition.healthy,
        "under_replicated": partition.under_replicated,
        "under_min_isr": partition.under_min_isr,
        "followers": [follower._asdict() for follower in partition.followers],
    }
