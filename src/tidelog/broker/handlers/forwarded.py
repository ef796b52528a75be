"""Admin requests that only the active controller can decide: passed on, answered when seen here.

A broker answers after its own metadata shows the change. Otherwise a client that creates a topic
and then asks the same broker for it would be told that there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.broker.control import admin_settled
from tidelog.broker.control.caught_up import caught_up
from tidelog.core.errors import Error
from tidelog.core.metadata.image import MetadataImage
from tidelog.host.ports import NetworkError
from tidelog.rpc import Call, admin_refusals
from tidelog.wire.protocol import Message
from tidelog.wire.protocol.schemas.delete_topics_request import (
    DeleteTopicsRequest,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from tidelog.broker.control.controller_link import ControllerLink
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.host.node_host import NodeHost

DEFAULT_TIMEOUT_MS = 15_000
"""Of requests that name none: shorter than the 30 s after which clients give up by themselves."""
TIMEOUT_MAX_MS = 300_000
CATCH_UP_MS = 2_000
"""How much longer an answer is held back: an observer learns of a commit with its next fetch."""

FIRST_WITH_TOPIC_STATES = 6


def unchanged(request: Message) -> Message:
    return request


class Row(NamedTuple):
    """How one API is passed on."""

    # Any: each function takes exactly the messages of the API it is filed under.
    refused: Callable[[Any, Error, str], Message]
    settled: Callable[[MetadataImage, Any, Any], bool] = admin_settled.at_once
    version: int | None = None
    """Not the client's, because a newer one tells more."""
    translated: Callable[[Any], Message] = unchanged


def delete_by_state(request: DeleteTopicsRequest) -> DeleteTopicsRequest:
    """Old versions name topics in another field."""
    if not request.topic_names:
        return request
    return DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in request.topic_names],
        timeout_ms=request.timeout_ms,
    )


ROWS: dict[int, Row] = {
    19: Row(admin_refusals.create_topics, admin_settled.create_topics, version=7),
    20: Row(
        admin_refusals.delete_topics,
        admin_settled.delete_topics,
        version=FIRST_WITH_TOPIC_STATES,
        translated=delete_by_state,
    ),
    30: Row(admin_refusals.create_acls, admin_settled.create_acls),
    31: Row(admin_refusals.delete_acls, admin_settled.delete_acls),
    33: Row(admin_refusals.alter_configs, admin_settled.alter_configs),
    37: Row(admin_refusals.create_partitions, admin_settled.create_partitions),
    43: Row(admin_refusals.elect_leaders, admin_settled.elect_leaders),
    44: Row(admin_refusals.incremental_alter_configs, admin_settled.incremental_alter_configs),
    45: Row(admin_refusals.alter_reassignments, admin_settled.alter_reassignments),
    46: Row(admin_refusals.list_reassignments),
    49: Row(admin_refusals.alter_client_quotas, admin_settled.alter_client_quotas),
    51: Row(admin_refusals.alter_scram_credentials, admin_settled.alter_scram_credentials),
    55: Row(admin_refusals.describe_quorum),
    57: Row(admin_refusals.update_features, admin_settled.update_features),
    64: Row(admin_refusals.unregister_broker, admin_settled.unregister_broker),
}


class Parts(NamedTuple):
    """What this handler uses."""

    metadata: LocalMetadata
    link: ControllerLink
    host: NodeHost


def handle(parts: Parts, call: Call) -> None:
    call.run(_forward(parts, call, ROWS[call.header.api_key]))


async def _forward(parts: Parts, call: Call, row: Row) -> None:
    request = row.translated(call.request)
    version = call.version if row.version is None else row.version
    call.answer(await answer_of_controller(parts, call, request, version, row))


async def answer_of_controller(
    parts: Parts, call: Call, request: Message, version: int, row: Row
) -> Message:
    timeout_ms = timeout_of(request)
    try:
        response = await parts.link.forward(request, version, timeout_ms, call)
    except NetworkError as error:
        why = f"no active controller answered within {timeout_ms} ms: {error}"
        return row.refused(request, Error.REQUEST_TIMED_OUT, why)
    await caught_up(
        parts.metadata,
        parts.host.timers,
        lambda: row.settled(parts.metadata.image, request, response),
        CATCH_UP_MS,
    )
    return response


def timeout_of(request: Message) -> int:
    """How long the client will wait; 0 and less come from clients that do not care."""
    asked = getattr(request, "timeout_ms", 0)
    return min(asked, TIMEOUT_MAX_MS) if asked > 0 else DEFAULT_TIMEOUT_MS
