"""`/api/stream`: what happens, as it happens, at most twenty messages a second for each viewer."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, suppress
from http import HTTPStatus
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidelog.console import live, sse
from tidelog.console.console import Console, console_of, refuse_many_viewers, session_of
from tidelog.console.hub import FREQUENT, Hub, Viewer
from tidelog.console.overview_api import overview_document, partition_document
from tidelog.console.queries import parse_partition
from tidelog.console.refusal import Refused, bad_input
from tidelog.console.ring import EVENT, GAP, Cursor, Entry
from tidelog.console.sessions import Session

FRAME_SECONDS = 0.05
KEEP_ALIVE_SECONDS = 10.0
OVERVIEW_SECONDS = 1.0
POLL_SECONDS = 1.0
ENTRIES_PER_FRAME = 500
OVERVIEW, PARTITION, TIMELINE, EVENTS = "overview", "partition", "timeline", "events"
KINDS = (OVERVIEW, TIMELINE, EVENTS, "brokers", "topics", "chaos", "controller", "groups")


class Watch(NamedTuple):
    """What a stream is about."""

    kind: str
    key: tuple[str, int] | None = None

    def wants(self, event: Mapping[str, Any]) -> bool:
        if self.key is not None:
            return (event.get("topic"), event.get("index")) == self.key
        return self.kind == EVENTS or event["kind"] not in FREQUENT


def parse_watch(text: str) -> Watch:
    kind, _, name = text.partition(":")
    if kind == PARTITION:
        return Watch(PARTITION, parse_partition(name))
    if kind not in KINDS:
        advice = f"{', '.join(KINDS)}, partition:orders-0"
        raise bad_input(f"watch={text[:60]} is nothing to watch", advice)
    return Watch(kind)


async def stream(request: Request) -> Response:
    console, session = console_of(request), session_of(request)
    watch = parse_watch(request.query_params.get("watch") or OVERVIEW)
    refuse_many_viewers(console)
    asked = request.headers.get("last-event-id") or request.query_params.get("after")
    try:
        cursor = Cursor.parse(asked) if asked else None
    except ValueError as reason:
        raise bad_input(str(reason), "connect without Last-Event-ID") from None
    if watch.key is not None:
        await session.access.refresh(session.client)
        if not session.access.sees(watch.key[0]):
            raise Refused(HTTPStatus.NOT_FOUND, f"there is no topic {watch.key[0]}", "/topics")
    rights = await session.access.rights(session.client)
    live_hub = console.hub if rights.may_describe or watch.key is not None else None
    if live_hub is None:
        return sse.stream_response(polled_messages(console, session, watch))
    return sse.stream_response(Telling(console, session, watch, live_hub).messages(cursor))


class Telling:
    """One viewer of a live cluster: a place in the ring, and what was told last."""

    __slots__ = (
        "_console",
        "_cursor",
        "_hub",
        "_last",
        "_may_describe",
        "_place",
        "_session",
        "_told_at",
        "_watch",
    )

    def __init__(self, console: Console, session: Session, watch: Watch, hub: Hub) -> None:
        self._console = console
        self._session = session
        self._watch = watch
        self._hub = hub
        self._place = 0
        self._may_describe = False
        self._cursor = Cursor()
        self._last: dict[str, Any] = {}
        self._told_at = 0.0

    async def messages(self, cursor: Cursor | None) -> AsyncGenerator[bytes, None]:
        with ExitStack() as stack:
            stack.enter_context(self._console.viewing())
            viewer = stack.enter_context(self._hub.watched())
            if self._watch.key is not None:
                stack.enter_context(self._hub.looking_at(self._watch.key))
            yield sse.RETRY
            await self._hub.ready()
            async for message in self._beginning(cursor):
                yield message
            while not self._console.closing.is_set() and await self._may_go_on():
                async for message in self._next(viewer):
                    yield message

    async def _may_go_on(self) -> bool:
        """Rights may be taken back, and sessions end, while somebody watches."""
        session = self._session
        if not self._console.sessions.is_open(session):
            return False
        await session.access.refresh(session.client)
        rights = await session.access.rights(session.client)
        self._may_describe = rights.may_describe
        if self._watch.key is not None:
            return session.access.sees(self._watch.key[0])
        return rights.may_describe

    async def _beginning(self, cursor: Cursor | None) -> AsyncGenerator[bytes, None]:
        """What was missed since the cursor, or how things are."""
        self._place = self._hub.ring.end
        self._cursor = Cursor(self._hub.ring.cursor.positions)
        if cursor is None:
            yield await self._snapshot()
            return
        gaps, entries = self._hub.ring.after(cursor)
        for gap in gaps:
            yield self._message("gap", gap.data)
        if gaps:
            yield await self._snapshot()
        events = [each.data for each in entries if self._shows(each)]
        for begin in range(0, len(events), ENTRIES_PER_FRAME):
            yield self._message("frame", {"events": events[begin : begin + ENTRIES_PER_FRAME]})

    async def _next(self, viewer: Viewer) -> AsyncGenerator[bytes, None]:
        try:
            async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                await viewer.woken.wait()
        except TimeoutError:
            yield sse.KEEP_ALIVE
            return
        await asyncio.sleep(max(0.0, self._told_at + FRAME_SECONDS - time.monotonic()))
        viewer.woken.clear()
        missed = self._hub.ring.missed_before(self._place)
        if missed:
            async for message in self._fell_behind(missed):
                yield message
            return
        entries = self._hub.ring.since(self._place, ENTRIES_PER_FRAME)
        self._place += len(entries)
        if self._place < self._hub.ring.end:
            viewer.woken.set()
        for entry in entries:
            self._cursor.see(entry)
        async for message in self._tell(entries):
            self._told_at = time.monotonic()
            yield message

    async def _fell_behind(self, missed: int) -> AsyncGenerator[bytes, None]:
        self._place = self._hub.ring.end
        self._cursor = Cursor(self._hub.ring.cursor.positions)
        yield self._message("gap", {"node": None, "missed": missed})
        yield await self._snapshot()

    async def _tell(self, entries: list[Entry]) -> AsyncGenerator[bytes, None]:
        """In the order in which it happened."""
        frame: dict[str, Any] = {"events": []}
        for entry in entries:
            if entry.kind == EVENT:
                if self._shows(entry):
                    frame["events"].append(entry.data)
                continue
            if frame["events"]:
                yield self._message("frame", frame)
                frame = {"events": []}
            yield self._message("gap" if entry.kind == GAP else "node", entry.data)
            if entry.kind == GAP:
                yield await self._snapshot()
        frame.update(self._changes())
        if frame["events"] or len(frame) > 1:
            yield self._message("frame", frame)

    def _shows(self, entry: Entry) -> bool:
        if entry.kind != EVENT or not self._watch.wants(entry.data):
            return False
        return live.may_see(entry.data, self._session.access.sees)

    def _changes(self) -> dict[str, Any]:
        """What is different from the last frame. Every page shows how the cluster is, if its user
        may know."""
        now: dict[str, Any] = {"health": live.health(self._hub)} if self._may_describe else {}
        if self._watch.key is not None:
            partition = self._hub.model.partitions.get(self._watch.key)
            if partition is not None:
                now |= {
                    "partition": live.row(partition),
                    "replicas": live.replicas(self._hub, partition),
                    "parked_produces": partition.parked_produces,
                    "messages": list(partition.messages),
                }
        elif self._watch.kind == OVERVIEW:
            now |= self._overview_now()
        changed = {key: value for key, value in now.items() if self._last.get(key) != value}
        self._last.update(changed)
        return changed

    def _overview_now(self) -> dict[str, Any]:
        now: dict[str, Any] = {}
        moment = int(time.monotonic() / OVERVIEW_SECONDS)
        if self._last.get("moment") != moment:  # counts and rates need not be told more often
            self._last["moment"] = moment
            overview = live.overview(self._hub, self._session.access.sees)
            del overview["events"], overview["health"]
            now["overview"] = overview
        return now

    async def _snapshot(self) -> bytes:
        document: dict[str, Any] = {}
        if self._watch.key is not None:
            topic, index = self._watch.key
            whole = await partition_document(self._console, self._session, topic, index)
            document["partition"] = whole
        elif self._watch.kind == OVERVIEW:
            document["overview"] = live.overview(self._hub, self._session.access.sees)
        else:
            document["nodes"] = live.brokers(self._hub)
        return self._message("snapshot", document)

    def _message(self, event: str, data: object) -> bytes:
        return sse.message(event, data, str(self._cursor))


async def polled_messages(
    console: Console, session: Session, watch: Watch
) -> AsyncGenerator[bytes, None]:
    """Of a cluster that does not tell: asked every second, told when something has changed."""
    last: Any = None
    with console.viewing():
        yield sse.RETRY
        while not console.closing.is_set() and console.sessions.is_open(session):
            document = await polled_document(console, session, watch)
            yield sse.message("snapshot", document) if document != last else sse.KEEP_ALIVE
            last = document
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await console.closing.wait()


async def polled_document(console: Console, session: Session, watch: Watch) -> dict[str, Any]:
    if watch.key is None:
        return {"overview": await overview_document(console, session)}
    topic, index = watch.key
    return {"partition": await partition_document(console, session, topic, index)}


ROUTES = [Route("/api/stream", stream, methods=["GET"])]
