"""Members of groups whose connection broke: are they dead, or will they be back?

A process that is killed closes its connections at once, and Kafka would wait for the end of its
session, 45 s by default, before somebody else gets its partitions. The broken connection is the
better witness, but not a proof: connections also break under living members. Those come back
within moments, so a client that does not open a new one has ended. One that does is granted the
time in which a living member sends a heartbeat. A process that is only paused keeps its
connections, and with them its seat.

It is a hint to the coordinator (`MemberGone`), and whatever the member says takes it back. Static
members are left alone: they are expected to go and come again under the same name.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.group_calls import client_name
from tidelog.core.groups.requests import ClientName, MemberGone
from tidelog.host.ports import CloseReason, PeerConnection

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker
    from tidelog.rpc import Call

HUNG_UP = (CloseReason.CLOSED_BY_PEER, CloseReason.RESET_BY_PEER, CloseReason.HALF_FRAME)
"""The other process ended the connection. A network that fails says nothing about it."""
PATIENCE_MIN_MS = 3_500
"""Longer than the 3 s between heartbeats that clients have by default."""
PATIENCE_OF_STRANGERS_MS = 15_000
"""A third of the usual session, for a member whose session was agreed with another broker."""


class MemberName(NamedTuple):
    group_id: str
    member_id: str


class Speaker:
    """A connection through which members speak, and how long each may be silent after it."""

    __slots__ = ("client", "patience_ms")

    def __init__(self, client: ClientName) -> None:
        self.client = client
        self.patience_ms: dict[MemberName, int] = {}


class Absence:
    """A member whose connection broke and who was not heard of since."""

    __slots__ = ("client", "reconnected", "until_ms")

    def __init__(self, client: ClientName, until_ms: int) -> None:
        self.client = client
        self.until_ms = until_ms
        """When it is taken for dead if its client has connected again."""
        self.reconnected = False


class Absences:
    """Which member spoke last through which connection."""

    __slots__ = ("_absent", "_broker", "_grace_ms", "_heard_on", "_speakers")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._grace_ms = broker.config.coordinating.disconnect_grace_ms
        self._speakers: dict[PeerConnection, Speaker] = {}
        self._heard_on: dict[MemberName, PeerConnection] = {}
        self._absent: dict[MemberName, Absence] = {}

    def expect(self, call: Call) -> None:
        """A member asks something here. `heard` may follow when it is answered, much later."""
        if call.connection not in self._speakers:
            self._speakers[call.connection] = Speaker(client_name(call))

    def heard(self, call: Call, group_id: str, member_id: str, session_ms: int = 0) -> None:
        """The coordinator knows this member, and it spoke through the connection of this call."""
        patience_ms = max(session_ms // 3, PATIENCE_MIN_MS) if session_ms > 0 else 0
        self._note(call, MemberName(group_id, member_id), patience_ms)

    def heard_again(self, call: Call, group_id: str, member_id: str) -> None:
        """It asks something that may be answered late. Strangers have to be known first."""
        member = MemberName(group_id, member_id)
        if member in self._heard_on or member in self._absent:
            self._note(call, member, 0)

    def heard_consumer(self, call: Call, group_id: str, member_id: str) -> None:
        """The same in the consumer protocol, where the coordinator sets the pace."""
        interval_ms = self._broker.config.settings.whole("group.consumer.heartbeat.interval.ms")
        self._note(call, MemberName(group_id, member_id), 2 * interval_ms)

    def forget(self, group_id: str, member_id: str) -> None:
        """It leaves."""
        member = MemberName(group_id, member_id)
        self._absent.pop(member, None)
        connection = self._heard_on.pop(member, None)
        if connection is not None:
            self._speakers[connection].patience_ms.pop(member, None)

    def on_opened(self, call: Call) -> None:
        """The first call on a new connection: whoever missed one has it again."""
        if self._absent:
            client = client_name(call)
            for absence in self._absent.values():
                if absence.client == client:
                    absence.reconnected = True

    def on_closed(self, connection: PeerConnection, reason: CloseReason) -> None:
        speaker = self._speakers.pop(connection, None)
        if speaker is None:
            return
        for member, patience_ms in speaker.patience_ms.items():
            del self._heard_on[member]
            if reason in HUNG_UP:
                self._miss(member, speaker.client, patience_ms)

    def connections(self) -> list[PeerConnection]:
        """Through which members speak."""
        return list(self._speakers)

    def _note(self, call: Call, member: MemberName, patience_ms: int) -> None:
        self._absent.pop(member, None)
        speaker = self._speakers.get(call.connection)
        before = self._heard_on.get(member)
        if speaker is None:
            # It hung up while its request was parked, and nobody will tell us again.
            if before is None:
                patience_ms = patience_ms or PATIENCE_OF_STRANGERS_MS
                self._miss(member, client_name(call), patience_ms)
            return
        if before is not None:
            known_ms = self._speakers[before].patience_ms.pop(member)
            patience_ms = patience_ms or known_ms
        self._heard_on[member] = call.connection
        speaker.patience_ms[member] = patience_ms or PATIENCE_OF_STRANGERS_MS

    def _miss(self, member: MemberName, client: ClientName, patience_ms: int) -> None:
        if self._grace_ms == 0:
            return
        absence = Absence(client, self._broker.now_ms() + patience_ms)
        self._absent[member] = absence
        self._broker.host.timers.after(self._grace_ms, partial(self._decide, member, absence))

    def _decide(self, member: MemberName, absence: Absence) -> None:
        if self._absent.get(member) is not absence:
            return  # it was heard of, or left
        del self._absent[member]
        coordination = self._broker.coordination
        index = coordination.group_partition(member.group_id)
        if index is not None:
            deadline_ms = absence.until_ms if absence.reconnected else self._broker.now_ms()
            coordination.groups.tell(index, MemberGone(*member, deadline_ms))
