"""Committed metadata reaches its listeners in slices, in order, and once."""

from collections.abc import Callable, Sequence

import pytest

from tidelog.core.types import LogEntry
from tidelog.quorum.applying import AT_ONCE, Applying


class Log:
    """Entries of one record each, but for those that a story makes larger."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.entries: list[LogEntry] = []
        for size in sizes:
            self.add(size)

    @property
    def end(self) -> int:
        return self.entries[-1].next_offset if self.entries else 0

    def add(self, size: int = 1) -> None:
        self.entries.append(LogEntry(self.end, 1, tuple(range(size))))

    def entries_from(self, offset: int, max_entries: int) -> Sequence[LogEntry]:
        return [each for each in self.entries if each.next_offset > offset][:max_entries]


class Listener:
    def __init__(self) -> None:
        self.heard: list[int] = []
        self.applied: list[int] = []

    def on_committed(self, entry: LogEntry) -> None:
        self.heard.append(entry.offset)

    def on_applied(self, offset: int) -> None:
        self.applied.append(offset)


class Told:
    """Somebody who applies, and the turns of the loop that it asks for."""

    def __init__(self, *sizes: int) -> None:
        self.log = Log(sizes)
        self.listener = Listener()
        self.turns: list[Callable[[], None]] = []
        self.caught_up: list[int] = []
        self.applying = Applying(
            self.log,
            [self.listener],  # type: ignore[list-item]  # what it has is all that is called
            self.turns.append,
            lambda tell: tell(),
            lambda: self.caught_up.append(self.applying.offset),
        )

    def turn(self) -> int:
        """How many entries are told in the next turn."""
        before = len(self.listener.heard)
        self.turns.pop(0)()
        return len(self.listener.heard) - before


def test_a_few_entries_are_told_at_once():
    told = Told(1, 2, 3)
    told.applying.commit(told.log.end)
    assert told.listener.heard == [0, 1, 3]
    assert told.listener.applied == told.caught_up == [6]
    assert not told.turns


def test_what_is_not_committed_is_not_told():
    told = Told(1, 2, 3)
    told.applying.commit(5)
    assert told.listener.heard == [0, 1]
    assert not told.turns


@pytest.mark.parametrize("count", [AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, AT_ONCE + 2, 5 * AT_ONCE])
def test_no_turn_tells_more_than_a_slice_and_none_is_left_out(count):
    told = Told(*[1] * count)
    told.applying.commit(count)
    assert len(told.listener.heard) <= AT_ONCE
    while told.turns:
        assert told.turn() <= AT_ONCE
    assert told.listener.heard == list(range(count))
    assert told.caught_up == [count], "a snapshot is made once, when all is told"
    assert told.listener.applied[-1] == count


def test_a_large_entry_is_told_whole_and_ends_its_slice():
    told = Told(1, 3 * AT_ONCE, 1)
    told.applying.commit(told.log.end)
    assert told.listener.heard == [0, 1]
    assert told.listener.applied == [1 + 3 * AT_ONCE]
    assert told.turn() == 1


def test_what_is_committed_between_two_slices_follows_in_order():
    told = Told(*[1] * (AT_ONCE + 1))
    told.applying.commit(told.log.end)
    told.log.add()
    told.applying.commit(told.log.end)
    assert len(told.turns) == 1, "one chain of slices"
    while told.turns:
        told.turn()
    assert told.listener.heard == list(range(AT_ONCE + 2))


def test_a_controller_claims_when_everything_that_is_committed_was_told():
    told = Told(*[1] * (AT_ONCE + 1))
    claims: list[int] = []
    told.applying.commit(told.log.end)
    told.applying.then(lambda: claims.append(told.applying.offset))
    assert claims == []
    told.turn()
    assert claims == [AT_ONCE + 1]
    told.applying.then(lambda: claims.append(-1))
    assert claims == [AT_ONCE + 1, -1], "at once if nothing is left"


def test_a_leadership_that_is_lost_between_two_slices_is_not_claimed():
    told = Told(*[1] * (AT_ONCE + 1))
    claims: list[int] = []
    told.applying.commit(told.log.end)
    told.applying.then(lambda: claims.append(0))
    told.applying.then(None)
    told.turn()
    assert claims == []


def test_a_snapshot_between_two_slices_replaces_the_rest():
    told = Told(*[1] * (2 * AT_ONCE))
    told.applying.commit(told.log.end)
    told.applying.start_at(told.log.end)
    told.turn()
    assert len(told.listener.heard) == AT_ONCE
    assert told.listener.applied[-1] == told.log.end
