"""What happened in a simulated cluster, told as the simulator tells it."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

from tidelog.core.events import Event
from tidelog.sim.kernel import Kernel
from tidelog.sim.nodes.story import LEGEND, WORLD, Story
from tidelog.sim.nodes.story import Told as Happening
from tidelog.testing.events import Events, Told
from tidelog.testing.node_journal import EVENTS_LOGGER

KEPT_MOMENTS = 20_000


class KeptStory(Story):
    """The last of its moments, however long a test lets time pass."""

    __slots__ = ()

    def _add(self, node_id: int, mark: str, happening: Event | Happening) -> None:
        if len(self.moments) >= 2 * KEPT_MOMENTS:
            del self.moments[:KEPT_MOMENTS]
        super()._add(node_id, mark, happening)

    def said(self, owner: int, text: str) -> None:
        """By a node, or a client."""
        self._add(owner if owner in self._cluster.servers else WORLD, "", Happening("Said", text))

    def all(self) -> Iterator[Told]:
        for each, document in zip(self.moments, self.as_json(everything=True), strict=True):
            kind, text = str(document["event"]), str(document["text"])
            yield Told(_show(each.at_us), each.node, kind, text)

    def lines_of(self, node_id: int) -> list[str]:
        """Of one node, without what comes with every produce."""
        shown = [each for each in self._shown(everything=False) if each.node == node_id]
        return [f"{_show(each.at_us)} {self._text(each)}" for each in shown]

    def last(self, count: int) -> list[str]:
        """Beside the state of every node at that time."""
        _, *lines = self.lines(everything=False)
        return [LEGEND, *lines[-count:]]


class SimEvents(Events):
    """Times are virtual seconds since the cluster was made; node 0 is the test."""

    __slots__ = ("_story",)

    def __init__(self, story: KeptStory) -> None:
        self._story = story

    def lines(self) -> list[str]:
        return [f"{told.time} node {told.node}: {told.text}" for told in self.all()]

    def all(self) -> list[Told]:
        return list(self._story.all())


class SimJournal(logging.Handler):
    """Takes what the nodes of one world log, beside their events."""

    def __init__(self, kernel: Kernel, story: KeptStory) -> None:
        super().__init__()
        self._kernel = kernel
        self._story = story

    def open(self) -> None:
        logging.getLogger("tidelog").addHandler(self)  # once, however often it is added

    def emit(self, record: logging.LogRecord) -> None:
        loop: Any = self._kernel.running_loop
        running = loop is not None and loop is asyncio._get_running_loop()
        if running and record.name != EVENTS_LOGGER:
            self._story.said(loop.owner, f"{record.levelname} {record.getMessage()}")

    def close(self) -> None:
        logging.getLogger("tidelog").removeHandler(self)
        super().close()


def _show(at_us: int) -> str:
    return f"{at_us / 1_000_000:.6f}s"
