"""Members of groups whose connection broke: what the coordinator learns about it.

The connections of a killed process close immediately. Kafka would wait for the end of its session,
45 s by default, before another member gets its partitions. The broken connection is early evidence,
but not a proof: connections of living members break too. The coordinator weighs it against the
member's heartbeats (`core.groups.absence`, ADR 0021). From here it gets facts: which member spoke
last through a connection that the other side closed, whether the same client has another connection
or opened one since, and whose request nobody waits for any more.

A process that is only paused keeps its connections, and with them its seat.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.coordination.pending_call import PendingCall
from tidelog.broker.groups.group_calls import client_name
from tidelog.core.groups.requests import CallerGone, ClientName, ConnectionLost
from tidelog.host.ports import CloseReason, PeerConnection
from tidelog.host.timers import Timer, TimerWheel

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tidelog.broker.coordination.coordinators import Coordination
    from tidelog.core.errors import Error
    from tidelog.rpc import Call
    from tidelog.wire.protocol import Message

HUNG_UP = (CloseReason.CLOSED_BY_PEER, CloseReason.RESET_BY_PEER, CloseReason.HALF_FRAME)
"""The other process ended the connection. A network that fails says nothing about it."""
REMEMBERED_MS = 300_000
"""How long a client that went is known here. The coordinator has decided long before."""


class MemberName(NamedTuple):
    group_id: str
    member_id: str


class Speaker:
    """An open connection through which members speak."""

    __slots__ = ("members", "waiting")

    def __init__(self) -> None:
        self.members: dict[MemberName, None] = {}
        self.waiting: dict[WaitingCall, str] = {}
        """Calls that are parked in a group, with the name of the group."""


class Client:
    """All that one client, known by its address and client id, has here."""

    __slots__ = ("absent", "connections")

    def __init__(self) -> None:
        self.connections = 0
        self.absent: dict[MemberName, None] = {}
        """Members whose connection broke, and not heard of since. The client did not open another
        one since either, or they would not be here."""


class Absence(NamedTuple):
    """One such member."""

    client: ClientName
    forgetting: Timer


class WaitingCall(PendingCall):
    """The token of a call that may wait for other members. Should its connection break, the
    coordinator hears of that."""

    __slots__ = ("_absences", "_connection")

    def __init__(
        self,
        absences: Absences,
        call: Call,
        group_id: str,
        to_message: Callable[[Any], Message],  # Any: as in PendingCall
        refused: Callable[[Error], Message],
    ) -> None:
        super().__init__(call, to_message, refused)
        self._absences = absences
        self._connection = call.connection
        absences.expect(call).waiting[self] = group_id

    def answer(self, response: object) -> None:
        self._absences.answered(self, self._connection)
        super().answer(response)

    def refuse(self, error: Error) -> None:
        self._absences.answered(self, self._connection)
        super().refuse(error)


class Absences:
    """Which member spoke last through which connection, and what its client has besides."""

    __slots__ = (
        "_absent",
        "_client_of",
        "_clients",
        "_coordination",
        "_enabled",
        "_heard_on",
        "_speakers",
        "_timers",
    )

    def __init__(
        self, coordination: Coordination, timers: TimerWheel, *, disconnect_grace_ms: int
    ) -> None:
        self._coordination = coordination
        self._timers = timers
        self._enabled = disconnect_grace_ms > 0
        self._client_of: dict[PeerConnection, ClientName] = {}
        self._clients: dict[ClientName, Client] = {}
        self._speakers: dict[PeerConnection, Speaker] = {}
        self._heard_on: dict[MemberName, PeerConnection] = {}
        self._absent: dict[MemberName, Absence] = {}

    # -- members speak

    def expect(self, call: Call) -> Speaker:
        """A member asks something here. `heard` may follow when it is answered, much later."""
        return self._speakers.setdefault(call.connection, Speaker())

    def heard(self, call: Call, group_id: str, member_id: str) -> None:
        """The coordinator knows this member, and it spoke through the connection of this call."""
        member = MemberName(group_id, member_id)
        self._found(member)
        speaker = self._speakers.get(call.connection)
        before = self._heard_on.get(member)
        if speaker is None:
            # It hung up before it was answered, and nobody will tell us again.
            if before is None:
                self._miss(member, client_name(call))
            return
        if before is not None:
            del self._speakers[before].members[member]
        self._heard_on[member] = call.connection
        speaker.members[member] = None

    def heard_again(self, call: Call, group_id: str, member_id: str) -> None:
        """It asks something that may be answered late. Strangers have to be known first."""
        member = MemberName(group_id, member_id)
        if member in self._heard_on or member in self._absent:
            self.heard(call, group_id, member_id)

    def answered(self, call: WaitingCall, connection: PeerConnection) -> None:
        speaker = self._speakers.get(connection)
        if speaker is not None:
            speaker.waiting.pop(call, None)

    def forget(self, group_id: str, member_id: str) -> None:
        """It leaves."""
        member = MemberName(group_id, member_id)
        self._found(member)
        connection = self._heard_on.pop(member, None)
        if connection is not None:
            del self._speakers[connection].members[member]

    # -- connections come and go

    def on_opened(self, call: Call) -> None:
        """The first call on a new connection, before it is served: its client is there."""
        name = client_name(call)
        self._client_of[call.connection] = name
        client = self._clients.setdefault(name, Client())
        client.connections += 1
        for member in list(client.absent):
            self._found(member)
            self._tell(member.group_id, ConnectionLost(*member, client_is_there=True))

    def on_closed(self, connection: PeerConnection, reason: CloseReason) -> None:
        speaker = self._speakers.pop(connection, None)
        name = self._client_of.pop(connection, None)
        if speaker is not None:
            for member in speaker.members:
                del self._heard_on[member]
        if name is None:
            return
        client = self._clients[name]
        client.connections -= 1
        if speaker is not None and reason in HUNG_UP:
            for caller, group_id in speaker.waiting.items():
                self._tell(group_id, CallerGone(group_id, caller))
            for member in speaker.members:
                self._miss(member, name)
        if client.connections == 0:
            # One process had all of them: only with the last one does it look gone.
            for member in list(client.absent):
                self._tell(member.group_id, ConnectionLost(*member, client_is_there=False))
        self._may_forget(name)

    def connections(self) -> list[PeerConnection]:
        """Through which members speak."""
        return list(self._speakers)

    def open_connections(self) -> int:
        """Of all clients."""
        return len(self._client_of)

    # -- inside

    def _miss(self, member: MemberName, name: ClientName) -> None:
        if not self._enabled:
            return
        self._found(member)
        client = self._clients.setdefault(name, Client())
        client.absent[member] = None
        forgetting = self._timers.after(REMEMBERED_MS, partial(self._found, member))
        self._absent[member] = Absence(name, forgetting)
        there = client.connections > 0
        self._tell(member.group_id, ConnectionLost(*member, client_is_there=there))

    def _found(self, member: MemberName) -> None:
        """It is heard of, left, or was given up."""
        absence = self._absent.pop(member, None)
        if absence is not None:
            absence.forgetting.cancel()
            del self._clients[absence.client].absent[member]
            self._may_forget(absence.client)

    def _may_forget(self, name: ClientName) -> None:
        client = self._clients.get(name)
        if client is not None and client.connections == 0 and not client.absent:
            del self._clients[name]

    def _tell(self, group_id: str, fact: ConnectionLost | CallerGone) -> None:
        coordination = self._coordination
        index = coordination.group_partition(group_id)
        if self._enabled and index is not None:
            coordination.groups.tell(index, fact)
