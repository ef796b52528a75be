"""Passes what the metadata quorum has committed to a node's listeners, in order and in slices.

Thousands of entries may be committed together, above all at a start. Between two slices other work
has its turn; by then every listener has got the same entries, and an entry is never divided.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from tidelog.core.types import LogEntry
from tidelog.quorum.listener import MetadataListener

AT_ONCE = 64
"""Records in one turn of the event loop."""


class Entries(Protocol):
    """The metadata log, as far as it is needed here."""

    def entries_from(self, offset: int, max_entries: int) -> Sequence[LogEntry]: ...


class Applying:
    """Owned by a `QuorumMember`."""

    __slots__ = (
        "_committed",
        "_listeners",
        "_log",
        "_next",
        "_on_caught_up",
        "_soon",
        "_step",
        "_under_way",
        "offset",
    )

    def __init__(
        self,
        log: Entries,
        listeners: Sequence[MetadataListener],
        soon: Callable[[Callable[[], None]], None],
        step: Callable[[Callable[[], None]], None],
        on_caught_up: Callable[[], None],
    ) -> None:
        """`step` runs a slice, and deals with what goes wrong in it; `on_caught_up` comes before
        the listeners hear that a burst is over."""
        self._log = log
        self._listeners = listeners
        self._soon = soon
        self._step = step
        self._on_caught_up = on_caught_up
        self._committed = 0
        self._under_way = False
        self._next: Callable[[], None] | None = None
        self.offset = 0
        """Everything below was told."""

    def commit(self, high_watermark: int) -> None:
        self._committed = max(self._committed, high_watermark)
        if not self._under_way:
            self._tell_some()

    def then(self, work: Callable[[], None] | None) -> None:
        """When all that is committed was told; now, if it was. None: not any more."""
        if work is not None and not self._under_way:
            work()
        else:
            self._next = work

    def start_at(self, offset: int) -> None:
        """A snapshot has told everything below."""
        self.offset = offset

    def _tell_some(self) -> None:
        records = 0
        self._under_way = False
        for entry in self._log.entries_from(self.offset, AT_ONCE + 2):
            if entry.offset < self.offset:
                continue
            if entry.next_offset > self._committed:
                break
            if records >= AT_ONCE:
                self._under_way = True
                break
            records += entry.next_offset - entry.offset
            self.offset = entry.next_offset
            for listener in self._listeners:
                listener.on_committed(entry)
        if self._under_way:
            self._soon(self._go_on)
        else:
            self._on_caught_up()
        self.tell_applied()

    def _go_on(self) -> None:
        self._step(self._tell_more)

    def _tell_more(self) -> None:
        self._tell_some()
        if self._next is not None and not self._under_way:
            work, self._next = self._next, None
            work()

    def tell_applied(self) -> None:
        for listener in self._listeners:
            listener.on_applied(self.offset)
