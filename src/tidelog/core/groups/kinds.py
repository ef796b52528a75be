"""What the two kinds of groups, classic and consumer, look like to the machine that holds both."""

from typing import Protocol

from tidelog.core.coordination import Answer, Instant, Outcome, Write
from tidelog.core.errors import Error
from tidelog.core.events import Event
from tidelog.core.groups.records import GroupRecord
from tidelog.core.groups.requests import (
    CommitOffsets,
    CommitTransactionalOffsets,
    FetchOffsets,
    ListedGroup,
)

Commit = CommitOffsets | CommitTransactionalOffsets


class GroupKind(Protocol):
    """All groups of one protocol on this shard."""

    def holds(self, group_id: str) -> bool: ...
    def is_empty(self, group_id: str) -> bool:
        """Has it no members? True of a group that is not held."""

    def forget(self, group_id: str) -> tuple[GroupRecord, ...]:
        """The tombstones that end an empty group; it ends when they are replayed."""

    def check_commit(self, request: Commit) -> Error: ...
    def check_fetch(self, request: FetchOffsets) -> Error: ...
    def subscribes(self, group_id: str, topic: str) -> bool: ...
    def listed(self) -> tuple[ListedGroup, ...]: ...
    def request(self, request: object, token: object, now: Instant) -> Outcome: ...
    def on_time(self, now: Instant) -> Outcome: ...
    def next_deadline_ms(self) -> int: ...
    def activate(self, now: Instant) -> Outcome: ...
    def parked(self) -> list[object]: ...


class Draft:
    """An outcome in the making, and when. Each call of `write` becomes one batch."""

    __slots__ = ("_answers", "_events", "_writes", "now")

    def __init__(self, now: Instant) -> None:
        self.now = now
        self._writes: list[Write] = []
        self._answers: list[Answer] = []
        self._events: list[Event] = []

    def write(self, *records: GroupRecord) -> None:
        self._writes.append(Write(records))

    def answer(self, token: object, response: object) -> None:
        """Nobody waits for what the shell only tells: then there is no token."""
        if token is not None:
            self._answers.append(Answer(token, response))

    def tell(self, event: Event) -> None:
        self._events.append(event)

    def outcome(self) -> Outcome:
        return Outcome(
            writes=tuple(self._writes), answers=tuple(self._answers), events=tuple(self._events)
        )


def joined(*outcomes: Outcome) -> Outcome:
    """Several outcomes of one moment, in their order."""
    return Outcome(
        writes=tuple(write for each in outcomes for write in each.writes),
        answers=tuple(answer for each in outcomes for answer in each.answers),
        orders=tuple(order for each in outcomes for order in each.orders),
        events=tuple(event for each in outcomes for event in each.events),
    )
