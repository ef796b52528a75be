"""What coordinators of groups and of transactions share (wire.md §3.4, KIP-98, KIP-848).

A coordinator's state is the content of one partition of an internal topic. A machine is asked
something and answers with an `Outcome`: what to write, whom to answer what, what to order. It
changes what has to outlive it only in `replay`, which is called for every batch of the log, its
own and those of leaders before it. So a coordinator that has read the log is the old one again.

One rule makes this safe, and `coordinators.shard` keeps it: nothing leaves, neither an answer
nor an order, before everything it was derived from is committed.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tidelog.core.errors import Error
from tidelog.core.events import Event


class Instant(NamedTuple):
    """Deadlines are monotonic. What is written down for the next coordinator is wall clock."""

    monotonic_ms: int
    wall_ms: int


class TopicPartition(NamedTuple):
    """A partition by the name of its topic: how groups and transactions speak of it."""

    topic: str
    partition: int


class ProducerStamp(NamedTuple):
    """The producer in whose transaction a batch is written."""

    producer_id: int
    producer_epoch: int


class Marker(NamedTuple):
    """The end of a transaction in one log: a control batch."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int


class Write(NamedTuple):
    """Records that become one batch: all of them or none. With a stamp it is part of that
    producer's transaction, and counts only when a marker commits it."""

    records: tuple[object, ...]
    stamp: ProducerStamp | None = None


class Answer(NamedTuple):
    """The response to a request; the token is whoever asked, opaque to the machine."""

    token: object
    response: object


class Outcome(NamedTuple):
    writes: tuple[Write, ...] = ()
    answers: tuple[Answer, ...] = ()
    orders: tuple[object, ...] = ()
    """What the shell shall do when all this is committed, e.g. send markers."""
    events: tuple[Event, ...] = ()


NOTHING = Outcome()


class CoordinatorMachine(Protocol):
    """One partition of an internal topic as a state machine. Pure: time and ids come in."""

    def replay(self, records: Sequence[object], stamp: ProducerStamp | None) -> None:
        """Follow one batch of the log."""

    def replay_marker(self, marker: Marker) -> None:
        """Follow one end marker of the log."""

    def activate(self, now: Instant) -> Outcome:
        """The log is replayed, or could not be written for a while: sessions begin anew, and
        what was under way goes on."""

    def request(self, request: object, token: object, now: Instant) -> Outcome:
        """Somebody asks. The answer may come with a later outcome."""

    def on_time(self, now: Instant) -> Outcome:
        """Whatever is due by now. Called at `next_deadline_ms` or later."""

    def next_deadline_ms(self) -> int:
        """Monotonic; NEVER_MS if there is nothing to wait for."""

    def parked(self) -> list[object]:
        """Tokens of requests that wait inside the machine; it forgets them."""


class Token(Protocol):
    """Who asked, as the shell knows them. Exactly one of the two is called, once."""

    def answer(self, response: object) -> None: ...
    def refuse(self, error: Error) -> None: ...
