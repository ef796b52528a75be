"""FindCoordinator (API 10, v0–6): which broker coordinates a group or a transaction.

The answer may wait up to a second if that helps. Clients that get a retriable error retry after a
pause (100 ms in Java, 500 ms in librdkafka), so an answer that comes when the internal topic is
made, or when the successor of a killed coordinator is elected, is the quicker one. As with leaders,
a coordinator is asked for a sign of life before a client gets its address.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.answers.neighbours import NOBODY, neighbours
from tidelog.broker.control.caught_up import caught_up
from tidelog.broker.coordination.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidelog.core.errors import Error
from tidelog.core.types import NO_LEADER
from tidelog.wire.protocol.schemas.find_coordinator_request import FindCoordinatorRequest
from tidelog.wire.protocol.schemas.find_coordinator_response import (
    Coordinator,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.coordination.coordinators import Coordination
    from tidelog.broker.coordination.internal_topics import InternalTopics
    from tidelog.broker.replication.suspected_brokers import SuspectedBrokers
    from tidelog.host.node_host import NodeHost
    from tidelog.rpc import Call

FIRST_WITH_KEYS = 4
TOPICS = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE}
"""By the type of a key. Share groups (2) are not served."""
CREATE_WAIT_MS = 1_000
ELECTION_WAIT_MS = 500


class Parts(NamedTuple):
    """What this handler uses."""

    metadata: LocalMetadata
    coordination: Coordination
    internal_topics: InternalTopics
    suspected: SuspectedBrokers
    host: NodeHost


def handle(parts: Parts, call: Call) -> None:
    request = call.request
    assert isinstance(request, FindCoordinatorRequest), request
    keys = request.coordinator_keys if call.version >= FIRST_WITH_KEYS else (request.key,)
    topic = TOPICS.get(request.key_type)
    if topic is None:
        kinds = "0 (a group) and 1 (a transaction) are known"
        message = f"key type {request.key_type} has no coordinator: {kinds}"
        answer(call, [unfound(each, Error.INVALID_REQUEST, message) for each in keys])
        return
    leaders = {parts.coordination.coordinator_of(topic, key) for key in keys}
    if (
        topic in parts.metadata.image.topic_ids
        and leaders <= {parts.metadata.own_id}
        and not parts.suspected.remain()
    ):
        answer(call, list(found(parts, call, topic, keys)))
    else:
        call.run(_wait_and_answer(parts, call, topic, keys))


async def _wait_and_answer(parts: Parts, call: Call, topic: str, keys: Sequence[str]) -> None:
    coordination = parts.coordination
    wait_ms, refusal = ELECTION_WAIT_MS, None
    if topic not in parts.metadata.image.topic_ids:
        deadline_ms = parts.host.now_ms() + CREATE_WAIT_MS
        refusal = await parts.internal_topics.create(topic, CREATE_WAIT_MS)
        wait_ms = 0 if refusal is not None else max(0, deadline_ms - parts.host.now_ms())
    else:
        leaders = {coordination.coordinator_of(topic, key) for key in keys}
        await parts.suspected.settled(leaders - {parts.metadata.own_id, NO_LEADER})

    def all_led() -> bool:
        live = neighbours(parts.metadata.image, call.listener)
        return all(coordination.coordinator_of(topic, key) in live for key in keys)

    await caught_up(parts.metadata, parts.host.timers, all_led, wait_ms)
    answer(call, list(found(parts, call, topic, keys, refusal)))


def found(
    parts: Parts, call: Call, topic: str, keys: Sequence[str], refusal: str | None = None
) -> Iterator[Coordinator]:
    live = neighbours(parts.metadata.image, call.listener)
    for key in keys:
        leader = live.get(parts.coordination.coordinator_of(topic, key))
        if leader is None:
            message = refusal or f"the partition of {topic} that {key!r} belongs to has no leader"
            yield unfound(key, Error.COORDINATOR_NOT_AVAILABLE, message)
        else:
            yield Coordinator(key=key, node_id=leader.broker_id, host=leader.host, port=leader.port)


def unfound(key: str, error: Error, message: str) -> Coordinator:
    return Coordinator(
        key=key, node_id=NOBODY, port=NOBODY, error_code=error, error_message=message
    )


def answer(call: Call, coordinators: list[Coordinator]) -> None:
    if call.version >= FIRST_WITH_KEYS:
        call.answer(FindCoordinatorResponse(coordinators=coordinators))
        return
    (only,) = coordinators
    call.answer(
        FindCoordinatorResponse(
            error_code=only.error_code,
            error_message=only.error_message,
            node_id=only.node_id,
            host=only.host,
            port=only.port,
        )
    )
