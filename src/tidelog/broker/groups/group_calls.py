"""What the handlers of all group APIs have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from tidelog.core.errors import Error
from tidelog.core.groups.requests import ClientName

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.coordination.coordinators import Coordination
    from tidelog.broker.groups.absences import Absences
    from tidelog.core.coordination import Token
    from tidelog.host.node_host import NodeHost
    from tidelog.rpc import Call


TOPIC_WAIT_MS = 1_000
"""Another broker knows the internal topic, or nobody would ask here; so shall we, soon."""


class GroupCalls:
    """Brings what clients ask to the coordinator of their group. One per broker."""

    __slots__ = ("absences", "coordination", "host", "metadata")

    def __init__(
        self,
        coordination: Coordination,
        absences: Absences,
        metadata: LocalMetadata,
        host: NodeHost,
    ) -> None:
        self.coordination = coordination
        self.absences = absences
        self.metadata = metadata
        self.host = host

    def ask(self, group_id: str, request: object, token: Token) -> None:
        """Ask the coordinator of a group, if it is here."""
        index = self.coordination.group_partition(group_id)
        if index is None:
            Early(self, group_id, request, token).wait()
        else:
            self.coordination.groups.request(index, request, token)

    def ask_for_member(self, group_id: str, request: object, token: Token) -> None:
        """The same for what members do. A group of members has a name; only offsets may be kept
        under an empty one, as old consumers without a group did."""
        if group_id:
            self.ask(group_id, request, token)
        else:
            token.refuse(Error.INVALID_GROUP_ID)

    def fresh_member_id(self, prefix: str) -> str:
        """An id that no member ever had; whoever reads it in a log recognises the client."""
        return f"{prefix}-{UUID(bytes=self.host.entropy.uuid())}"


class Early:
    """A request that came before our metadata show the topic that coordinators live on."""

    __slots__ = ("_calls", "_group_id", "_request", "_timer", "_token")

    def __init__(self, calls: GroupCalls, group_id: str, request: object, token: Token) -> None:
        self._calls = calls
        self._group_id = group_id
        self._request = request
        self._token = token
        self._timer = calls.host.timers.after(TOPIC_WAIT_MS, self._give_up)

    def wait(self) -> None:
        metadata = self._calls.metadata
        metadata.when_followed(metadata.offset + 1, self._look)

    def _look(self) -> None:
        coordination = self._calls.coordination
        index = coordination.group_partition(self._group_id)
        if not self._timer.pending:
            return  # it was sent away
        if index is None:
            self.wait()
        else:
            self._timer.cancel()
            coordination.groups.request(index, self._request, self._token)

    def _give_up(self) -> None:
        self._token.refuse(Error.NOT_COORDINATOR)  # whoever looks for it makes the topic


def client_name(call: Call) -> ClientName:
    """As Java prints an address."""
    return ClientName(call.client_id, f"/{call.host}")
