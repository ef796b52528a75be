"""The active controller of a node: performs what the core decides, and nothing else.

Every voter has one. It follows the committed metadata log, and while its node leads the quorum
it is the one that decides. Effects are performed in the order in which the core gave them;
`sim/node.py` performs the same effects in the same order.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from tidelog.controller.api_table import bind_handlers
from tidelog.controller.audit import change_of
from tidelog.controller.liveness import Liveness
from tidelog.controller.open_request import Finish, OpenRequest, Refused, Step, Ticket, refusal
from tidelog.core.errors import Error
from tidelog.core.metadata.controller import Controller
from tidelog.core.metadata.effects import Answer, AppendRecords, Effect
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.records import MetadataRecord
from tidelog.core.metadata.settings import ControllerSettings
from tidelog.core.requests import ControllerResponse
from tidelog.core.types import NEVER_MS, LogEntry
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import CloseReason, PeerConnection
from tidelog.host.timers import Timer
from tidelog.rpc import Call, Handler
from tidelog.wire.protocol import ApiRange, Listener, Release, supported_versions

REQUEST_TIMEOUT_MS = 30_000
"""For APIs whose requests say nothing about it, and for clients that do not care."""

ENVELOPE = 58
"""Served by the listener: it opens them for the other handlers."""

STEPS_AT_ONCE = 16
"""Items of a request, such as topics to be created, that are decided in one turn of the loop."""


class MetadataQuorum(Protocol):
    """What the controller asks of its node's member of the quorum."""

    @property
    def leader_id(self) -> int: ...
    @property
    def handlers(self) -> Mapping[int, Handler]: ...
    def append(self, records: tuple[MetadataRecord, ...]) -> int:
        """The offset of the first of them. Only while this node leads."""
        ...


class ClusterFacts(NamedTuple):
    """What a controller tells about the cluster without finding it in the log."""

    voters: Mapping[int, tuple[str, int]]
    """Addresses of the controllers."""
    topic_defaults: Mapping[str, str] = {}
    """Settings of topics that this node's file gives another default, by their topic names."""
    has_authorizer: bool = False


class ActiveController:
    """Implements `quorum.listener.MetadataListener`; `handlers` serve the controller listener."""

    __slots__ = ("_quorum", "_timer", "_timer_ms", "core", "facts", "handlers", "host", "liveness")

    def __init__(
        self,
        node_id: int,
        quorum: MetadataQuorum,
        settings: ControllerSettings,
        host: NodeHost,
        facts: ClusterFacts,
    ) -> None:
        self._quorum = quorum
        self.host = host
        self.facts = facts
        self.core = Controller(node_id, settings, host.entropy.below, host.entropy.uuid)
        self.liveness = Liveness(self.core, host, self._on_gone)
        self.handlers: dict[int, Handler] = bind_handlers(self)
        self._timer: Timer | None = None
        self._timer_ms = NEVER_MS

    @property
    def node_id(self) -> int:
        return self.core.node_id

    @property
    def active(self) -> bool:
        return self.core.active

    @property
    def image(self) -> MetadataImage:
        """What the next decision looks at: with what is pending, if this node decides."""
        return self.core.current or self.core.committed

    @property
    def leader_id(self) -> int:
        return self._quorum.leader_id

    def api_ranges(self) -> list[ApiRange]:
        """What the controller listener serves, the quorum's part included."""
        keys = self.handlers.keys() | self._quorum.handlers.keys() | {ENVELOPE}
        return supported_versions(Listener.CLUSTER, Release.FULL, keys)

    def stop(self) -> None:
        """Decide nothing more. What waits for a commit is told to ask another controller."""
        self._perform(self.core.renounce(self.host.now_ms()))
        self._perform(self.core.refuse_held())
        self._disarm()
        self.liveness.stop()

    # -- requests ---------------------------------------------------------------------------

    def ask(
        self, call: Call, steps: Sequence[Step], finish: Finish, *, timeout_ms: int = 0
    ) -> None:
        """Decide on every step, in order. `finish` gets one response per step, once, and answers
        the call; who names no time has `REQUEST_TIMEOUT_MS`."""
        asked = OpenRequest(call, steps, partial(self._finish, call, steps, finish))
        self._take_some(asked, steps, 0)
        if asked.is_open:
            timeout_ms = timeout_ms if timeout_ms > 0 else REQUEST_TIMEOUT_MS
            asked.wait(self.host.timers.after(timeout_ms, partial(self._late, asked, timeout_ms)))

    def _finish(
        self,
        call: Call,
        steps: Sequence[Step],
        finish: Finish,
        responses: Sequence[ControllerResponse],
    ) -> None:
        change = change_of(call, steps, responses)
        if change is not None:
            self.host.emit(change)
        finish(responses)

    def _take_some(self, asked: OpenRequest, steps: Sequence[Step], begin: int) -> None:
        """Each step is a decision of its own: others may be decided between two slices, and this
        node may lose its leadership. A request whose time is over is not gone on with."""
        if begin and not asked.is_open:
            return
        end = begin + STEPS_AT_ONCE
        for index, step in enumerate(steps[begin:end], begin):
            self._take(Ticket(asked, index), step)
        if end < len(steps):
            self.host.network.soon(partial(self._take_some, asked, steps, end))
        self._arm()

    def _late(self, asked: OpenRequest, timeout_ms: int) -> None:
        asked.expire(timeout_ms)
        self.core.forget_held(lambda token: _ticket(token).asked is asked)

    def _take(self, ticket: Ticket, step: Step) -> None:
        if not self.active:
            why = self.why_not_active()
            ticket.asked.settle(ticket.number, refusal(step, Error.NOT_CONTROLLER, why))
        elif isinstance(step, Refused):
            ticket.asked.settle(ticket.number, step.response)
        else:
            now_ms = self.host.now_ms()
            self._perform(self.core.handle(ticket, step, now_ms, part_of=ticket.asked))

    def why_not_active(self) -> str:
        return f"node {self.node_id} is not the active controller, node {self.leader_id} may be"

    # -- the metadata log (quorum.listener.MetadataListener) --------------------------------

    def on_committed(self, entry: LogEntry) -> None:
        self._perform(self.core.on_committed(entry, self.host.now_ms()))

    def on_snapshot(self, records: tuple[MetadataRecord, ...], end_offset: int) -> None:
        self.core.load_snapshot(records, end_offset, self.host.now_ms())

    def on_applied(self, offset: int) -> None:
        self._arm()

    def on_claimable(self, epoch: int, next_offset: int) -> None:
        self._perform(self.core.claim(epoch, next_offset, self.host.now_ms()))
        self._arm()
        self.liveness.look_at_all()

    def on_lost(self, epoch: int) -> None:
        self._perform(self.core.renounce(self.host.now_ms()))
        self._disarm()

    # -- connections ------------------------------------------------------------------------

    def on_closed(self, connection: PeerConnection, reason: CloseReason) -> None:
        """For `rpc.serve` of the controller listener."""
        self.liveness.on_closed(connection, reason)
        for token in self.core.forget_held(lambda token: _ticket(token).asked.is_from(connection)):
            _ticket(token).asked.drop()

    def _on_gone(self, broker_id: int, broker_epoch: int) -> None:
        self._perform(self.core.on_broker_gone(broker_id, broker_epoch, self.host.now_ms()))
        self._arm()

    # -- effects and deadlines --------------------------------------------------------------

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, AppendRecords):
                offset = self._quorum.append(effect.records)
                assert offset == effect.base_offset, (offset, effect.base_offset)
            elif isinstance(effect, Answer):
                ticket = _ticket(effect.token)
                ticket.asked.settle(ticket.number, effect.response)
            else:
                self.host.emit(effect)

    def _arm(self) -> None:
        """Keep one timer at or before the deadline; one that comes too early arms it again."""
        deadline_ms = self.core.next_deadline_ms
        if self._timer_ms <= deadline_ms:
            return
        self._disarm()
        self._timer_ms = deadline_ms
        self._timer = self.host.timers.add(deadline_ms, self._on_deadline)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._timer_ms = NEVER_MS

    def _on_deadline(self) -> None:
        self._timer = None
        self._timer_ms = NEVER_MS
        now_ms = self.host.now_ms()
        if self.active and now_ms >= self.core.next_deadline_ms:
            self._perform(self.core.tick(now_ms))
        self._arm()


def _ticket(token: object) -> Ticket:
    assert isinstance(token, Ticket), token
    return token
