"""What the handlers of all group APIs do alike."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from tidelog.core.errors import Error
from tidelog.core.groups.requests import ClientName

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker
    from tidelog.core.coordination import Token
    from tidelog.rpc import Call


def ask_group(broker: Broker, group_id: str, request: object, token: Token) -> None:
    """Ask the coordinator of a group, if it is here."""
    groups = broker.coordination
    index = groups.group_partition(group_id)
    if index is None:
        token.refuse(Error.NOT_COORDINATOR)  # whoever looks for it makes the topic
    else:
        groups.groups.request(index, request, token)


def ask_members(broker: Broker, group_id: str, request: object, token: Token) -> None:
    """The same for what members do. A group of members has a name; only offsets may be kept
    under an empty one, as old consumers without a group did."""
    if group_id:
        ask_group(broker, group_id, request, token)
    else:
        token.refuse(Error.INVALID_GROUP_ID)


def client_name(call: Call) -> ClientName:
    """As Java prints an address."""
    return ClientName(call.client_id, f"/{call.connection.peer}")


def fresh_member_id(broker: Broker, prefix: str) -> str:
    """An id that no member ever had; whoever reads it in a log recognises the client."""
    return f"{prefix}-{UUID(bytes=broker.host.entropy.uuid())}"
