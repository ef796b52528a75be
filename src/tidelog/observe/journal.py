"""The log of a node: one line for everything worth one, in one format, never a flood.

Events and the warnings of our own code share the lines. A cluster that goes down with ten thousand
partitions has ten thousand things to say; the first hundred and a count say the same.
"""

import logging
import traceback
from collections.abc import Callable
from typing import Final

from tidelog.core import events
from tidelog.core.types import NO_LEADER
from tidelog.host.ports import Clock
from tidelog.observe.render import Renderer, iso
from tidelog.observe.stream import NumberedEvent

SILENT: Final[tuple[type, ...]] = (
    events.RecordsAppended,
    events.HighWatermarkAdvanced,
    events.IsrProposed,
)
"""Too many, or told again by a fact that follows."""

SILENT_ROLES: Final = ("prospective", "leader")
"""Asking around is no news yet, and who leads the quorum is an event of its own."""

LINES_PER_SECOND: Final = 50
BURST_LINES: Final = 200
LINE_MAX_CHARACTERS: Final = 2_000
LEVELS: Final = {"WARNING": "WARN", "CRITICAL": "ERROR"}
LOGGERS: Final = ("tidelog", "asyncio")

_EVENTS = logging.getLogger("tidelog.events")


class Journal:
    """Writes the lines. Give its `on_event` to an `EventStream`."""

    __slots__ = ("_renderer", "handler")

    def __init__(self, renderer: Renderer, handler: "JournalHandler") -> None:
        self._renderer = renderer
        self.handler = handler

    def on_event(self, numbered: NumberedEvent) -> None:
        event = numbered.event
        if is_silent(event):
            return
        _EVENTS.log(level_of(event), "%s", self._renderer.line(event))


class JournalHandler(logging.Handler):
    """Puts log records into lines and counts those that are too many.

    What is left out is mentioned by the next line that is written.
    """

    def __init__(self, write: Callable[[str], object], clock: Clock) -> None:
        super().__init__()
        self._write = write
        self._clock = clock
        self._tokens = float(BURST_LINES)
        self._filled_ms = clock.monotonic_ms()
        self._left_out = 0
        self.written = 0
        self.left_out_total = 0

    def emit(self, record: logging.LogRecord) -> None:
        if not self._may_write():
            self._left_out += 1
            self.left_out_total += 1
            return
        try:
            if self._left_out:
                self._line("WARN", f"{self._left_out} lines were left out: too many at once")
                self._left_out = 0
            self._line(LEVELS.get(record.levelname, record.levelname), self._text(record))
        except Exception:
            # Nobody reads our log any more (a closed pipe), or a message does not fit its
            # arguments. Neither may stop a node.
            self.left_out_total += 1

    def _line(self, level: str, text: str) -> None:
        self.written += 1
        self._write(f"{iso(self._clock.wall_ms())} {level:<5} {text}\n")

    def _text(self, record: logging.LogRecord) -> str:
        text = one_line(record.getMessage())
        if record.exc_info and record.exc_info[1] is not None:
            told = "".join(traceback.format_exception(record.exc_info[1])).rstrip()
            text += "\n  " + told.replace("\n", "\n  ")
        return text

    def _may_write(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        grown = (now_ms - self._filled_ms) * LINES_PER_SECOND / 1000
        self._tokens = min(float(BURST_LINES), self._tokens + grown)
        self._filled_ms = now_ms
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def install(handler: JournalHandler, level: int = logging.INFO) -> Callable[[], None]:
    """Send what our code and the event loop log to `handler`, and nowhere else. The returned
    function takes that back."""
    undo: list[Callable[[], None]] = []
    for name in LOGGERS:
        undo.append(_attach(logging.getLogger(name), handler, level))

    def uninstall() -> None:
        for each in undo:
            each()

    return uninstall


def _attach(logger: logging.Logger, handler: JournalHandler, level: int) -> Callable[[], None]:
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False

    def detach() -> None:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]

    return detach


def is_silent(event: events.Event) -> bool:
    if isinstance(event, events.QuorumRoleChanged):
        return event.role in SILENT_ROLES
    return type(event) in SILENT


def level_of(event: events.Event) -> int:
    """A warning is what may have cost records, leaves a partition without a leader or lasts."""
    if isinstance(event, events.LeaderElected):
        alarming = event.unclean or event.leader == NO_LEADER
    elif isinstance(event, events.LogTruncated):
        alarming = event.below_high_watermark
    else:
        alarming = isinstance(
            event, events.BrokerFenced | events.FindingRaised | events.AccessDenied
        )
    return logging.WARNING if alarming else logging.INFO


def one_line(text: str) -> str:
    """Whatever a peer put into a message cannot look like a line of ours."""
    if not text.isprintable():
        text = "".join(
            each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
        )
    if len(text) > LINE_MAX_CHARACTERS:
        text = f"{text[:LINE_MAX_CHARACTERS]}… ({len(text)} characters)"
    return text
