"""What the nodes of one process say, each for itself.

A node that is a process has a log file. Nodes on threads share Python's loggers, so what is logged
is told apart by the thread that logs it; events come from the stream of their node.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tidelog.core.events import Event
from tidelog.host.clock import SystemClock
from tidelog.observe.journal import LEVELS, JournalHandler, is_silent, level_of
from tidelog.observe.render import Renderer, TopicName, iso
from tidelog.observe.stream import EventStream, NumberedEvent
from tidelog.testing.in_process import Promises

KEPT_EVENTS = 20_000
EVENTS_LOGGER = "tidelog.events"


class Happened(NamedTuple):
    """One event of one node."""

    wall_ms: int
    event: Event
    text: str

    @property
    def kind(self) -> str:
        return type(self.event).__name__

    @property
    def time(self) -> str:
        return iso(self.wall_ms)


class NodeJournal:
    """Lines and events of one node, over all its lives. Written on its thread, read on others."""

    __slots__ = ("_unsubscribe", "events", "handler", "lines", "promises")

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=KEPT_EVENTS)
        self.events: deque[Happened] = deque(maxlen=KEPT_EVENTS)
        self.promises = Promises()
        self.handler = JournalHandler(self.write, SystemClock())
        self._unsubscribe: Callable[[], None] = lambda: None

    def write(self, text: str) -> None:
        self.lines.extend(text.splitlines())

    def follow(self, stream: EventStream, topic_name: TopicName) -> None:
        renderer = Renderer(topic_name)

        def on_event(numbered: NumberedEvent) -> None:
            event = numbered.event
            happened = Happened(numbered.wall_ms, event, renderer.line(event))
            self.events.append(happened)
            self.promises.note(event)
            if not is_silent(event):
                level = logging.getLevelName(level_of(event))
                self.write(f"{iso(numbered.wall_ms)} {LEVELS.get(level, level):<5} {happened.text}")

        self._unsubscribe = stream.subscribe(on_event)

    def close(self) -> None:
        self._unsubscribe()


class _Journals(logging.Handler):
    """Gives a log record to the journal of the node whose thread it comes from."""

    def __init__(self) -> None:
        super().__init__()
        self._of_thread: dict[int, NodeJournal] = {}
        self._changing = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        journal = self._of_thread.get(record.thread or 0)
        if journal is not None and record.name != EVENTS_LOGGER:
            journal.handler.emit(record)

    @contextmanager
    def of_this_thread(self, journal: NodeJournal) -> Iterator[None]:
        logger, thread = logging.getLogger("tidelog"), threading.get_ident()
        with self._changing:
            self._of_thread[thread] = journal
            logger.addHandler(self)  # once, however often it is added
        try:
            yield
        finally:
            with self._changing:
                del self._of_thread[thread]
                if not self._of_thread:
                    logger.removeHandler(self)


journals = _Journals()
