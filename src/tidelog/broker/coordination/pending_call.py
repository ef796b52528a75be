"""Calls that a coordinator answers, now or much later: its tokens."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tidelog.core.errors import Error
from tidelog.rpc import Call
from tidelog.wire.protocol import Message

Entry = TypeVar("Entry")


class PendingCall:
    """The token of one call. Only `refused` knows where in the answer an error has its place."""

    __slots__ = ("_call", "_refused", "_to_message")

    def __init__(
        self,
        call: Call,
        # Any: each API gets exactly the response that belongs to what it asked
        to_message: Callable[[Any], Message],
        refused: Callable[[Error], Message],
    ) -> None:
        self._call = call
        self._to_message = to_message
        self._refused = refused

    def answer(self, response: object) -> None:
        self._call.answer(self._to_message(response))

    def refuse(self, error: Error) -> None:
        self._call.answer(self._refused(error))


class Gathering(Generic[Entry]):
    """One call about many things, which many coordinators may have to be asked for. It is
    finished with as many entries as were asked for, in that order, whoever refused what:
    librdkafka does not survive an answer with fewer (wire.md gotcha 4)."""

    __slots__ = ("_entries", "_finish", "_missing")

    def __init__(self, count: int, finish: Callable[[list[Entry]], None]) -> None:
        self._entries: dict[int, Entry] = {}
        self._missing = count
        self._finish = finish
        if count == 0:
            finish([])

    def put(self, position: int, entry: Entry) -> None:
        assert position not in self._entries, f"entry {position} comes a second time"
        self._entries[position] = entry
        self._missing -= 1
        if self._missing == 0:
            self._finish([self._entries[each] for each in sorted(self._entries)])

    def part(
        self,
        position: int,
        to_entry: Callable[[Any], Entry],  # Any: as above
        refused: Callable[[Error], Entry],
    ) -> "Part[Entry]":
        return Part(self, position, to_entry, refused)


class Part(Generic[Entry]):
    """The token of one of many things."""

    __slots__ = ("_gathering", "_position", "_refused", "_to_entry")

    def __init__(
        self,
        gathering: Gathering[Entry],
        position: int,
        to_entry: Callable[[Any], Entry],
        refused: Callable[[Error], Entry],
    ) -> None:
        self._gathering = gathering
        self._position = position
        self._to_entry = to_entry
        self._refused = refused

    def answer(self, response: object) -> None:
        self._gathering.put(self._position, self._to_entry(response))

    def refuse(self, error: Error) -> None:
        self._gathering.put(self._position, self._refused(error))
