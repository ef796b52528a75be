"""Guards: they refuse parts of a request before it is served; one for each shape of request.

A guard returns the call to be served, perhaps with less in its request than there was and a call
that adds the refused part to the answer; or None, if there is nothing left and it has answered.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tidelog.core.errors import Error
from tidelog.core.security.acls import CLUSTER_NAME, Operation, ResourceType
from tidelog.rpc.authorization.gate import ERROR_OF, Gate
from tidelog.rpc.calls import AmendedCall, Call, Handler
from tidelog.wire.protocol import Message, response_class

Guard = Callable[[Gate, Call], Call | None]
# Any: each function takes the requests, or parts of them, of the API it is filed under.
Named = Callable[[Gate, Any], str | None]
Refused = Callable[[Any, Error], Any]


REASONS = {
    Error.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    Error.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    Error.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
"""Kafka's words."""


def guarded(gate: Gate, guards: Sequence[Guard], handler: Handler) -> Handler:
    def serve(call: Call) -> None:
        for guard in guards:
            admitted = guard(gate, call)
            if admitted is None:
                return
            call = admitted
        handler(call)

    return serve


def the_cluster(_gate: Gate, _item: Any) -> str:
    return CLUSTER_NAME


def the_topic(gate: Gate, topic: Any) -> str | None:
    return gate.name_of(topic)


def itself(_gate: Gate, item: str) -> str:
    return item


def the_group(_gate: Gate, request: Any) -> str:
    name: str = request.group_id
    return name


def the_transaction(_gate: Gate, request: Any) -> str:
    name: str = request.transactional_id
    return name


def top_level(request: Message, error: Error) -> Message:
    """Most answers have one place for an error of the whole request."""
    make: Callable[..., Message] = response_class(request.__api_key__)
    response = make(error_code=error)
    if hasattr(response, "error_message"):
        response.error_message = REASONS[error]
    return response


def whole(
    operation: int,
    resource_type: int,
    named: Named = the_cluster,
    refused: Refused = top_level,
) -> Guard:
    """All of a request, or nothing."""

    def guard(gate: Gate, call: Call) -> Call | None:
        name = named(gate, call.request)
        if name is None or gate.allows(call, operation, resource_type, name):
            return call
        call.answer(refused(call.request, ERROR_OF[resource_type]))
        return None

    return guard


def cluster(*operations: int, refused: Refused = top_level) -> Guard:
    """What concerns the cluster as such. One of the operations is enough."""

    def guard(gate: Gate, call: Call) -> Call | None:
        if gate.allows_on_cluster(call, *operations):
            return call
        call.answer(refused(call.request, Error.CLUSTER_AUTHORIZATION_FAILED))
        return None

    return guard


def each(
    items: str,
    into: str,
    operation: int,
    resource_type: int,
    *,
    refused: Refused,
    named: Named = the_topic,
) -> Guard:
    """Every item for itself: those that are not allowed are answered here."""

    def is_allowed(gate: Gate, call: Call, item: Any) -> bool:
        name = named(gate, item)
        return name is None or gate.allows(call, operation, resource_type, name)

    def guard(gate: Gate, call: Call) -> Call | None:
        return split(
            call,
            items,
            into,
            partial(is_allowed, gate, call),
            lambda item: refused(item, ERROR_OF[resource_type]),
        )

    return guard


def split(
    call: Call,
    items: str,
    into: str,
    is_allowed: Callable[[Any], bool],
    refused: Callable[[Any], Any],
) -> Call | None:
    wanted = getattr(call.request, items) or ()
    kept, results = [], []
    for item in wanted:
        if is_allowed(item):
            kept.append(item)
        else:
            results.append(refused(item))
    if not results:
        return call
    if not kept:
        call.answer(response_class(call.header.api_key)(**{into: results}))
        return None
    setattr(call.request, items, kept)
    return AmendedCall(call, partial(extend, into, results))


def extend(field: str, results: Sequence[Any], response: Message) -> None:
    setattr(response, field, [*(getattr(response, field) or ()), *results])


def shown(items: str, operation: int, resource_type: int, named: Named) -> Guard:
    """The answer lists only what the caller may see. Nobody is told of the others."""

    def drop(gate: Gate, call: Call, response: Message) -> None:
        listed = getattr(response, items) or ()
        kept = [
            item
            for item in listed
            if (name := named(gate, item)) is None
            or gate.would_allow(call, operation, resource_type, name)
        ]
        setattr(response, items, kept)

    def guard(gate: Gate, call: Call) -> Call | None:
        return AmendedCall(call, partial(drop, gate, call))

    return guard


def told_operations(asked: str, items: str, field: str, resource_type: int, named: Named) -> Guard:
    """Items of the answer say what the caller may do with them, if he asked for that."""

    def tell(gate: Gate, call: Call, response: Message) -> None:
        for item in getattr(response, items) or ():
            name = named(gate, item)
            if name is not None and item.error_code == Error.NONE:
                setattr(item, field, gate.operations(call, resource_type, name))

    def guard(gate: Gate, call: Call) -> Call | None:
        if not getattr(call.request, asked, True):
            return call
        return AmendedCall(call, partial(tell, gate, call))

    return guard


def told_operations_on_cluster(asked: str) -> Guard:
    """None at all for somebody who may not describe the cluster, as in Kafka."""

    def tell(gate: Gate, call: Call, response: Any) -> None:
        bits = 0
        if gate.would_allow(call, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
            bits = gate.operations(call, ResourceType.CLUSTER, CLUSTER_NAME)
        response.cluster_authorized_operations = bits

    def guard(gate: Gate, call: Call) -> Call | None:
        if not getattr(call.request, asked):
            return call
        return AmendedCall(call, partial(tell, gate, call))

    return guard
