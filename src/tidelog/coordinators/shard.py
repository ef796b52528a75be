"""One partition of an internal topic, and the coordinator that lives on it.

The machine decides; the shard writes what it decided to the log of the partition it leads, and
lets nothing out before everything it was derived from is committed: an answer that a failover
could make untrue must never have been given. So every outcome waits for the end of the log as it
was when the outcome was made, also one that wrote nothing.

Nothing is asked of a machine whose records could not be committed. Its time stands still then,
and when the partition has its replicas back, sessions begin anew.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

from tidelog.core.coordination import (
    CoordinatorMachine,
    Instant,
    Marker,
    Outcome,
    ProducerStamp,
    Token,
    Write,
)
from tidelog.core.errors import Error
from tidelog.core.events import Event
from tidelog.core.types import NEVER_MS


class AppendFailed(Exception):  # noqa: N818 - it names what happened
    """The log took no batch: what the machine decided did not happen."""


class ShardLog(Protocol):
    """The log of the partition, as its leader of one epoch has it."""

    def may_append(self) -> bool:
        """Are enough replicas in sync, and do we still lead?"""

    def append(self, write: Write) -> int:
        """The end of the log after this batch; raises AppendFailed."""

    def end_offset(self) -> int: ...
    def committed_offset(self) -> int: ...


class ShardPort(Protocol):
    """What a shard needs of its surroundings."""

    def now(self) -> Instant: ...
    def order(self, order: object) -> None: ...
    def emit(self, event: Event) -> None: ...
    def failed(self, shard: "Shard", reason: AppendFailed) -> None:
        """The machine is ahead of its log: it has to be loaded again."""


class Held(NamedTuple):
    """An outcome that waits for the commit of everything below `required_offset`."""

    required_offset: int
    outcome: Outcome


class Shard:
    """Owner of one machine, from the election of this broker to the end of its leadership."""

    __slots__ = ("_frozen", "_held", "_log", "_port", "loaded", "machine", "resigned")

    def __init__(self, machine: CoordinatorMachine, log: ShardLog, port: ShardPort) -> None:
        self.machine = machine
        self.loaded = False
        self.resigned = False
        self._log = log
        self._port = port
        self._held: deque[Held] = deque()
        self._frozen = False

    # -- loading

    def replay(self, records: tuple[object, ...], stamp: ProducerStamp | None) -> None:
        assert not self.loaded, "a loaded shard is asked to read old records"
        self.machine.replay(records, stamp)

    def replay_marker(self, marker: Marker) -> None:
        """While loading, and for every marker that is appended afterwards."""
        self.machine.replay_marker(marker)

    def finish_loading(self) -> None:
        assert not self.loaded, "loaded twice"
        self.loaded = True
        self._frozen = True
        self._thaw()

    # -- work

    def request(self, request: object, token: Token) -> None:
        refusal = self._refusal()
        if refusal is not None:
            token.refuse(refusal)
        else:
            self._settle(self.machine.request(request, token, self._port.now()))

    def tell(self, request: object) -> None:
        """A request that nobody waits for; lost if the shard cannot work now."""
        if self._refusal() is None:
            self._settle(self.machine.request(request, None, self._port.now()))

    def apply(self, change: Callable[[CoordinatorMachine, Instant], Outcome]) -> None:
        """Something outside the log changed that the machine has to hear of."""
        if self._refusal() is None:
            self._settle(change(self.machine, self._port.now()))

    def on_time(self) -> None:
        if self._refusal() is None:
            self._settle(self.machine.on_time(self._port.now()))

    def next_deadline_ms(self) -> int:
        return self.machine.next_deadline_ms() if self._refusal() is None else NEVER_MS

    def on_committed(self) -> None:
        """The high watermark moved, or the in-sync set did."""
        if self.resigned or not self.loaded:
            return
        committed = self._log.committed_offset()
        while self._held and self._held[0].required_offset <= committed:
            self._release(self._held.popleft().outcome)
        self._thaw()

    def resign(self, error: Error = Error.NOT_COORDINATOR) -> None:
        """Somebody else leads, or the machine cannot be trusted: everybody asks again."""
        if self.resigned:
            return
        self.resigned = True
        held, self._held = self._held, deque()
        for each in held:
            for answer in each.outcome.answers:
                cast(Token, answer.token).refuse(error)
        for token in self.machine.parked():
            cast(Token, token).refuse(error)

    # -- inside

    def _refusal(self) -> Error | None:
        if self.resigned:
            return Error.NOT_COORDINATOR
        if not self.loaded:
            return Error.COORDINATOR_LOAD_IN_PROGRESS
        self._thaw()
        return Error.COORDINATOR_NOT_AVAILABLE if self._frozen else None

    def _thaw(self) -> None:
        if not self._log.may_append():
            self._frozen = True
        elif self._frozen:
            self._frozen = False
            self._settle(self.machine.activate(self._port.now()))

    def _settle(self, outcome: Outcome) -> None:
        try:
            for write in outcome.writes:
                self._log.append(write)
                self.machine.replay(write.records, write.stamp)
        except AppendFailed as reason:
            self._held.append(Held(NEVER_MS, outcome))  # its answers are refused with the rest
            self.resign(Error.COORDINATOR_NOT_AVAILABLE)
            self._port.failed(self, reason)
            return
        required = self._log.end_offset()
        if not self._held and required <= self._log.committed_offset():
            self._release(outcome)
        else:
            self._held.append(Held(required, outcome))

    def _release(self, outcome: Outcome) -> None:
        for event in outcome.events:
            self._port.emit(event)
        for answer in outcome.answers:
            cast(Token, answer.token).answer(answer.response)
        for order in outcome.orders:
            self._port.order(order)
