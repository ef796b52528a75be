"""What happened lately in the whole cluster, in one order. Every viewer has a place in it.

The ring is the queue of every viewer: who is slow falls behind it and is told of the gap, and no
viewer makes it grow.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

KEPT = 10_000
EVENT, GAP, NODE = "event", "gap", "node"

Position = tuple[int, int]
"""The process of a node (when it started) and the number of an event of it."""


class Entry(NamedTuple):
    kind: str
    node: int
    data: dict[str, Any]


class Cursor:
    """How far somebody has seen each node: `1:1700000000000-123,2:…`."""

    __slots__ = ("positions",)

    def __init__(self, positions: Mapping[int, Position] | None = None) -> None:
        self.positions: dict[int, Position] = dict(positions or {})

    def __str__(self) -> str:
        return ",".join(
            f"{node}:{stream}-{number}" for node, (stream, number) in sorted(self.positions.items())
        )

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """ValueError if it is none of ours."""
        positions = {}
        for part in filter(None, text.split(",")):
            node, _, place = part.partition(":")
            stream, _, number = place.partition("-")
            if not all(each.isascii() and each.isdigit() for each in (node, stream, number)):
                raise ValueError(f"{text[:60]!r} is not the id of a message")
            positions[int(node)] = (int(stream), int(number))
        return cls(positions)

    def see(self, entry: Entry) -> None:
        if entry.kind == EVENT:
            self.positions[entry.node] = (entry.data["stream"], entry.data["number"])


class Ring:
    """Owner of the order. Entries have places that count up and are never given twice."""

    __slots__ = ("_entries", "_first", "cursor")

    def __init__(self, kept: int = KEPT) -> None:
        self._entries: deque[Entry] = deque(maxlen=kept)
        self._first = 0
        """Place of the oldest entry."""
        self.cursor = Cursor()

    @property
    def end(self) -> int:
        return self._first + len(self._entries)

    def append(self, entry: Entry) -> None:
        if len(self._entries) == self._entries.maxlen:
            self._first += 1
        self._entries.append(entry)
        self.cursor.see(entry)

    def missed_before(self, place: int) -> int:
        """How many entries after a place are gone."""
        return max(0, self._first - place)

    def since(self, place: int, limit: int) -> list[Entry]:
        skipped = max(0, place - self._first)
        return list(islice(self._entries, skipped, skipped + limit))

    def after(self, cursor: Cursor) -> tuple[list[Entry], list[Entry]]:
        """(gaps, entries that were not seen). Gaps are of nodes whose events after the cursor are
        not all here."""
        oldest: dict[int, Position] = {}
        unseen = []
        for entry in self._entries:
            if entry.kind != EVENT:
                continue
            here = (entry.data["stream"], entry.data["number"])
            oldest.setdefault(entry.node, here)
            seen = cursor.positions.get(entry.node)
            if seen is None or here > seen:
                unseen.append(entry)
        return list(_gaps(cursor, oldest, self.cursor)), unseen


def _gaps(cursor: Cursor, oldest: Mapping[int, Position], newest: Cursor) -> Iterator[Entry]:
    for node, (stream, number) in cursor.positions.items():
        last = newest.positions.get(node)
        if last is None or last[0] < stream or (last[0] == stream and last[1] < number):
            yield Entry(GAP, node, {"node": node, "missed": None})
            continue
        first = oldest.get(node, last)
        if first[0] > stream:
            yield Entry(GAP, node, {"node": node, "missed": None})
        elif first[0] == stream and first[1] > number + 1:
            yield Entry(GAP, node, {"node": node, "missed": first[1] - number - 1})
