"""The check that every guard makes, and the record of refused callers."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tidelog.core.errors import Error
from tidelog.core.security.acls import CLUSTER_NAME, ResourceType
from tidelog.core.security.authorizer import Authorizer
from tidelog.rpc.caller import Caller
from tidelog.rpc.calls import Call
from tidelog.wire.protocol import API_BY_KEY, ZERO_UUID

ERROR_OF: dict[int, Error] = {
    ResourceType.TOPIC: Error.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: Error.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: Error.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""What somebody is told who may not do it."""


class Refusal(NamedTuple):
    """Somebody was not allowed something."""

    caller: Caller
    api: str
    """Of the protocol, or a request of HTTP."""
    operation: int
    resource_type: int
    name: str


class Gate:
    """One per node. `topic_name` finds the topic of an id; `on_refused` hears of refusals."""

    __slots__ = ("authorizer", "on_refused", "topic_name")

    def __init__(
        self,
        authorizer: Authorizer,
        topic_name: Callable[[bytes], str | None],
        on_refused: Callable[[Refusal], None],
    ) -> None:
        self.authorizer = authorizer
        self.topic_name = topic_name
        self.on_refused = on_refused

    def allows(self, call: Call, operation: int, resource_type: int, name: str) -> bool:
        if self.would_allow(call, operation, resource_type, name):
            return True
        api = API_BY_KEY[call.header.api_key].name
        self.on_refused(Refusal(call.caller, api, operation, resource_type, name))
        return False

    def would_allow(self, call: Call, operation: int, resource_type: int, name: str) -> bool:
        """Nobody hears of it: the caller did not ask for this one by its name."""
        caller = call.caller
        return self.authorizer.allows(caller.principal, caller.host, operation, resource_type, name)

    def allows_on_cluster(self, call: Call, *operations: int) -> bool:
        """One of them is enough."""
        cluster = ResourceType.CLUSTER
        if any(self.would_allow(call, each, cluster, CLUSTER_NAME) for each in operations):
            return True
        return self.allows(call, operations[0], cluster, CLUSTER_NAME)

    def operations(self, call: Call, resource_type: int, name: str) -> int:
        caller = call.caller
        return self.authorizer.operations(caller.principal, caller.host, resource_type, name)

    def name_of(self, topic: Any) -> str | None:  # Any: a part of a request, with a name or an id
        """The topic that is meant. None: no topic has this id, which its handler will say."""
        if getattr(topic, "topic_id", ZERO_UUID) != ZERO_UUID:
            return self.topic_name(topic.topic_id)
        name: str | None = topic.name
        return name
