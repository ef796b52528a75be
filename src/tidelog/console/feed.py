"""The events of one node, as they happen: one connection that is made again when it breaks."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Protocol

from tidelog.console.node_client import NodeClient, NodeSilent, ToldEvent

RECONNECT_SECONDS = 0.2
ALIVE, DOWN, PAUSED, FENCED = "alive", "down", "paused", "fenced"


class Listener(Protocol):
    """`hub.Hub`."""

    def on_event(self, node: int, event: dict[str, Any], *, is_history: bool) -> None: ...
    def on_gap(self, node: int, missed: int | None) -> None: ...
    def on_reached(self, node: int, *, is_reached: bool) -> None: ...


class Feed:
    """Owner of one stream. Goes on from the last event it has seen."""

    __slots__ = ("_connect", "_history_end", "_last_id", "_listener", "caught_up", "node", "stream")

    def __init__(self, node: int, connect: Callable[[], NodeClient], listener: Listener) -> None:
        self.node = node
        self.stream: int | None = None
        """When the process of the node began."""
        self._connect = connect
        self._listener = listener
        self._last_id: str | None = None
        self._history_end = 0
        self.caught_up = asyncio.Event()
        """All that happened before we came was told, or nobody is there to tell it."""

    async def run(self) -> None:
        while True:
            if await self._listen():
                continue  # it may only have let us go; if it is gone, the next try says so at once
            self.caught_up.set()
            self._listener.on_reached(self.node, is_reached=False)
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _listen(self) -> bool:
        """Until the stream ends. False if there was none."""
        began = False
        try:
            async with aclosing(self._connect().events(self._last_id)) as events:
                async for told in events:
                    began = True
                    self._take(told)
        except NodeSilent:
            return began
        return began

    def _take(self, told: ToldEvent) -> None:
        if told.name == "hello":
            self._greet(told.data)
        elif told.name == "gap":
            if self._last_id is not None:  # the beginning of what is kept is no news
                self._listener.on_gap(self.node, told.data.get("missed"))
        elif told.id is not None and self.stream is not None:
            self._last_id = told.id
            event = as_event(self.node, self.stream, told.data)
            is_history = event["number"] <= self._history_end
            self._listener.on_event(self.node, event, is_history=is_history)
            if event["number"] >= self._history_end:
                self.caught_up.set()

    def _greet(self, hello: Mapping[str, Any]) -> None:
        first = self.stream is None
        self.stream = int(hello["stream"])
        if first:
            self._history_end = int(hello["number"])
        else:
            self._history_end = 0  # what was missed meanwhile counts
        if not self._history_end:
            self.caught_up.set()
        self._listener.on_reached(self.node, is_reached=True)


def as_event(node: int, stream: int, told: Mapping[str, Any]) -> dict[str, Any]:
    """An event as the pages know it. `about_node` is the node that some events are about."""
    event = {key: value for key, value in told.items() if key not in _RENAMED}
    if told.get("node") != node:
        event["about_node"] = told.get("node")
    event.update(
        node=node,
        stream=stream,
        number=int(told["number"]),
        wall_ms=told.get("time_ms", int(time.time() * 1000)),
        kind=told["event"],
        sentence=told.get("text", ""),
    )
    return event


_RENAMED = frozenset(("node", "number", "time", "time_ms", "event", "text"))
