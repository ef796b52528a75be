"""Everything that is known of a live cluster, gathered while somebody watches.

One connection per node brings its events. A summary of each node is asked for every second, its
partitions in pages every few seconds, and the replicas of a partition that somebody looks at ten
times a second. All of it stops a minute after the last viewer has gone.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from urllib.parse import quote

from tidelog.cluster import state as states
from tidelog.cluster.node_http import http_of
from tidelog.cluster.nodes import LocalNodes
from tidelog.cluster.state import BadStateFile
from tidelog.console.causality import Merger
from tidelog.console.feed import ALIVE, DOWN, FENCED, PAUSED, Feed
from tidelog.console.history import History
from tidelog.console.model import Key, Model
from tidelog.console.node_client import NodeClient, NodeSilent
from tidelog.console.ring import EVENT, GAP, NODE, Entry, Ring
from tidelog.survey.partition_state import OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED

_LOGGER = logging.getLogger("tidelog.console")

Duty = Callable[[], Awaitable[None]]

MERGE_SECONDS = 0.025
"""Events wait so long for those of other nodes that caused them."""
MERGE_AT_ONCE = 500
LOOK_SECONDS = 0.1
SUMMARY_SECONDS = 1.0
PAGES_SECONDS = 5.0
PAGES_LEAST_SECONDS = 0.3
"""Sooner than that they are not read again, whatever happens."""
PROCESS_SECONDS = 0.25
LINGER_SECONDS = 60.0
CATCH_UP_SECONDS = 5.0
KEPT_TIMELINE = 8_000
FREQUENT = frozenset(("RecordsAppended", "HighWatermarkAdvanced"))
"""They come with every produce and fetch, and would push everything else out of the timeline."""
NO_BROKER = "no broker of the cluster runs"


class Node:
    """One node as it was last seen."""

    __slots__ = ("client", "id", "is_fenced", "is_paused", "is_reached", "since_ms", "summary")

    def __init__(self, node_id: int) -> None:
        self.id = node_id
        self.client: NodeClient | None = None
        self.is_reached = False
        self.is_paused = False
        self.is_fenced = False
        self.since_ms: int | None = None
        self.summary: dict[str, Any] = {}

    @property
    def state(self) -> str:
        if not self.is_reached:
            return DOWN
        if self.is_paused:
            return PAUSED
        return FENCED if self.is_fenced else ALIVE


class Viewer:
    """Somebody who watches: woken when there may be something new."""

    __slots__ = ("woken",)

    def __init__(self) -> None:
        self.woken = asyncio.Event()


class Hub:
    """Owner of the model, the ring and all connections to nodes. Lives on one loop."""

    def __init__(self, nodes: LocalNodes) -> None:
        self.local = nodes
        self.model = Model()
        self.ring = Ring()
        self.timeline: deque[dict[str, Any]] = deque(maxlen=KEPT_TIMELINE)
        self.history = History()
        self.nodes = {node_id: Node(node_id) for node_id in nodes.node_ids}
        self.feeds: dict[int, Feed] = {}
        self.has_pages = asyncio.Event()
        """Every node that answers was asked for all its partitions once."""
        self._pages_wanted = asyncio.Event()
        self._fresh = Merger()
        self._merge_planned = False
        self._awake_since = 0.0
        self._viewers: dict[Viewer, None] = {}
        self._looks: dict[Key, tuple[int, asyncio.Task[None]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._sleep: asyncio.TimerHandle | None = None
        self._charts_until = 0.0

    # -- being watched

    @contextmanager
    def watched(self) -> Iterator[Viewer]:
        """Everything is gathered as long as somebody is inside."""
        viewer = Viewer()
        self._viewers[viewer] = None
        self._wake_up()
        try:
            yield viewer
        finally:
            del self._viewers[viewer]
            if not self._viewers:
                self._plan_sleep()

    async def ready(self) -> None:
        """Until what nodes can tell at once is known. For one question: it is gathered for a
        while, so that the next one finds it."""
        self._wake_up()
        if not self._viewers:
            self._plan_sleep()
        with suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_SECONDS):
                for feed in list(self.feeds.values()):
                    await feed.caught_up.wait()
                await self.has_pages.wait()
        while self._fresh:
            self._merge()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    @contextmanager
    def looking_at(self, key: Key) -> Iterator[None]:
        """The replicas of a partition are asked ten times a second."""
        count, task = self._looks.get(key) or (0, asyncio.ensure_future(self._look(key)))
        self._looks[key] = (count + 1, task)
        try:
            yield
        finally:
            count, task = self._looks.pop(key)
            if count > 1:
                self._looks[key] = (count - 1, task)
            else:
                task.cancel()
                known = self.model.partitions.get(key)
                if known is not None:
                    known.is_overheard = False

    @property
    def is_gone(self) -> bool:
        """No broker runs, as far as is known; nobody knows while nothing is gathered."""
        if not self._tasks or not all(feed.caught_up.is_set() for feed in self.feeds.values()):
            return False
        known = self.local.state.nodes
        brokers = [n for n in self.nodes.values() if n.id not in known or known[n.id].is_broker]
        return all(node.state == DOWN for node in brokers)

    def wake_viewers(self) -> None:
        for viewer in self._viewers:
            viewer.woken.set()

    async def close(self) -> None:
        self._fall_asleep()
        for _, task in self._looks.values():
            task.cancel()

    def _wake_up(self) -> None:
        if self._sleep is not None:
            self._sleep.cancel()
            self._sleep = None
        if self._tasks:
            return
        self._awake_since = time.monotonic()
        self._reload()
        for known in self.feeds.values():
            known.caught_up.clear()
        for node_id, node in self.nodes.items():
            feed = self.feeds.get(node_id)
            if feed is None:
                feed = self.feeds[node_id] = Feed(node_id, partial(self.client, node_id), self)
            self._begin(feed.run)
            self._begin(partial(self._summaries, node))
        self._begin(self._pages)
        self._begin(self._processes)
        self._begin(self._samples)

    def _begin(self, duty: Duty) -> None:
        self._tasks.append(asyncio.ensure_future(_kept_up(duty)))

    def _plan_sleep(self) -> None:
        if self._sleep is not None:
            self._sleep.cancel()
        loop = asyncio.get_running_loop()
        self._sleep = loop.call_later(LINGER_SECONDS, self._fall_asleep)

    def _fall_asleep(self) -> None:
        self._sleep = None
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        self.has_pages.clear()

    # -- what feeds tell

    def on_event(self, node: int, event: dict[str, Any], *, is_history: bool) -> None:
        event["_history"] = is_history
        self._fresh.add(event)
        if not self._merge_planned:
            self._plan_merge(MERGE_SECONDS)

    def on_gap(self, node: int, missed: int | None) -> None:
        self._merge_arrived()
        self.ring.append(Entry(GAP, node, {"node": node, "missed": missed}))
        self.wake_viewers()

    def on_reached(self, node: int, *, is_reached: bool) -> None:
        known = self.nodes[node]
        if known.is_reached == is_reached and known.since_ms is not None:
            return
        self._merge_arrived()  # what it told comes before the news that it is gone
        self._change(known, is_reached=is_reached)

    def _change(self, node: Node, **changes: bool) -> None:
        before = node.state if node.since_ms is not None else None
        for name, value in changes.items():
            setattr(node, name, value)
        if node.state == before:
            return
        node.since_ms = now_ms()
        data = {"node": node.id, "state": node.state, "since_ms": node.since_ms}
        self.ring.append(Entry(NODE, node.id, data))
        self.wake_viewers()

    def _plan_merge(self, seconds: float) -> None:
        self._merge_planned = True
        asyncio.get_running_loop().call_later(seconds, self._planned_merge)

    def _planned_merge(self) -> None:
        self._merge_planned = False
        if self._awaits_history():
            self._plan_merge(MERGE_SECONDS)
            return
        self._merge()
        if self._fresh:
            self._plan_merge(0)

    def _merge_arrived(self) -> None:
        if not self._awaits_history():
            self._merge()

    def _awaits_history(self) -> bool:
        """What nodes tell of the past is put in order when all of them have told it: the first
        node to answer would otherwise come first in everything."""
        if time.monotonic() - self._awake_since >= CATCH_UP_SECONDS:
            return False
        return not all(feed.caught_up.is_set() for feed in self.feeds.values())

    def _merge(self) -> None:
        """Some of what came, in order, into the model and the ring."""
        batch = self._fresh.take(MERGE_AT_ONCE)
        for event in batch:
            if not event.pop("_history"):
                partition = self.model.apply(event)
                if partition is not None and not partition.replicas:
                    self._pages_wanted.set()  # a new one: events do not tell where it lies
                self._note(event)
            event["place"] = self.ring.end
            if event["kind"] not in FREQUENT:
                self.timeline.append(event)
            self.ring.append(Entry(EVENT, event["node"], event))
        if batch:
            self.wake_viewers()

    def _note(self, event: dict[str, Any]) -> None:
        self.history.count(event)
        if event["kind"] in ("BrokerFenced", "BrokerUnfenced", "BrokerRegistered"):
            broker = self.nodes.get(event["broker"])
            if broker is not None:
                self._change(broker, is_fenced=event["kind"] != "BrokerUnfenced")

    # -- what nodes are asked

    def client(self, node_id: int) -> NodeClient:
        """NodeSilent if it does not run."""
        node = self.local.state.nodes.get(node_id)
        if node is None or node.state == "gone":
            raise NodeSilent(f"node {node_id} does not run")
        client = self.nodes[node_id].client
        if client is None or client.port != node.http_port:
            client = NodeClient(node_id, http_of(self.local, node_id))
            self.nodes[node_id].client = client
        return client

    async def _summaries(self, node: Node) -> None:
        while True:
            begin = time.monotonic()
            with suppress(NodeSilent):
                node.summary = await self.client(node.id).get("/state?partitions=none")
                self.history.sample(node.id, node.summary, now_ms())
                self.history.answered(node.id, time.monotonic() - begin)
                self._see_brokers(node)
            took = time.monotonic() - begin
            await asyncio.sleep(max(SUMMARY_SECONDS - took, took))

    async def _samples(self) -> None:
        """One point of every chart, every second."""
        while True:
            await asyncio.sleep(SUMMARY_SECONDS)
            figures: dict[str, float] = {
                "under_replicated": self.model.count_of(UNDER_REPLICATED, UNDER_MIN_ISR),
                "offline": self.model.count_of(OFFLINE),
            }
            self.history.add(now_ms(), figures)
            if self._charts_until > time.monotonic():
                for node in self.nodes.values():
                    with suppress(NodeSilent):
                        text = await self.client(node.id).get_text("/metrics")
                        self.history.read(node.id, text)

    def want_charts(self) -> None:
        """Somebody looks at them: what only `/metrics` has is asked for as well, for a minute."""
        self._charts_until = time.monotonic() + LINGER_SECONDS

    def _see_brokers(self, told: Node) -> None:
        """The active controller knows who is fenced."""
        controller = told.summary.get("controller") or {}
        if not controller.get("active"):
            return
        for each in told.summary.get("brokers", ()):
            broker = self.nodes.get(each["broker"])
            if broker is not None:
                self._change(broker, is_fenced=bool(each["fenced"]))

    async def _pages(self) -> None:
        while True:
            await asyncio.gather(*(self._read_pages(node) for node in self.nodes.values()))
            self.has_pages.set()
            self.wake_viewers()
            await asyncio.sleep(PAGES_LEAST_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(PAGES_SECONDS):
                    await self._pages_wanted.wait()
            self._pages_wanted.clear()

    async def _read_pages(self, node: Node) -> None:
        if node.is_paused:
            return
        start, total = 0, 1
        seen: set[Key] = set()
        try:
            while start < total:
                page = await self.client(node.id).get(f"/partitions?from={start}")
                total = page["total"]
                if not page["partitions"]:
                    break
                for told in page["partitions"]:
                    seen.add(self.model.look(node.id, told, now_ms()).key)
                start += len(page["partitions"])
        except NodeSilent:
            return
        await self._forget_strays(node.id, seen)

    async def _forget_strays(self, node_id: int, seen: set[Key]) -> None:
        """Replicas that the node had and has no more; partitions without any go."""
        gone = []
        for count, (key, partition) in enumerate(list(self.model.partitions.items())):
            if count % 500 == 499:
                await asyncio.sleep(0)
            if node_id in partition.logs and key not in seen:
                del partition.logs[node_id]
            if not partition.logs:
                gone.append(key)
        self.model.forget(gone)

    async def look_once(self, key: Key) -> None:
        """Ask all replicas of a partition now."""
        known = self.model.partitions.get(key)
        brokers = known.replicas if known is not None and known.replicas else tuple(self.nodes)
        where = f"/partition?topic={quote(key[0], safe='')}&partition={key[1]}"
        await asyncio.gather(*(self._look_at(broker, where) for broker in brokers))

    async def _look_at(self, broker: int, where: str) -> None:
        node = self.nodes.get(broker)
        if node is None or node.state in (DOWN, PAUSED):
            return
        with suppress(NodeSilent):
            self.model.look(broker, await self.client(broker).get(where), now_ms())

    async def _look(self, key: Key) -> None:
        while True:
            begin = time.monotonic()
            await self.look_once(key)
            known = self.model.partitions.get(key)
            if known is not None:
                known.is_overheard = True  # asked for, its leader tells what it hears and answers
            self.wake_viewers()
            took = time.monotonic() - begin
            await asyncio.sleep(max(LOOK_SECONDS - took, took))

    async def _processes(self) -> None:
        """Nodes that stand still say nothing, not even that; the table of processes does."""
        while True:
            self._reload()
            for node in self.nodes.values():
                local = self.local.state.nodes.get(node.id)
                if local is not None and node.is_reached:
                    self._change(node, is_paused=local.state == "paused")
            await asyncio.sleep(PROCESS_SECONDS)

    def _reload(self) -> None:
        """Commands start and stop nodes as well; the file of the cluster has their processes."""
        with suppress(BadStateFile, OSError):
            known = states.load(self.local.directory)
            if known is not None:
                self.local.state = known


async def _kept_up(duty: Duty) -> None:
    """A duty that fails is told of and begun again: a console that looks alive and gathers nothing
    is worse than one that has ended."""
    while True:
        try:
            await duty()
        except Exception:
            _LOGGER.exception("gathering failed; beginning again")
        await asyncio.sleep(SUMMARY_SECONDS)


def now_ms() -> int:
    return int(time.time() * 1000)
