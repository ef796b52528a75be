"""AddOffsetsToTxn v0 to v4: a transaction will commit offsets of a group (KIP-98).

What is added is the partition of `__consumer_offsets` in which they will stand.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.coordination.internal_topics import CONSUMER_OFFSETS
from tidelog.broker.coordination.pending_call import PendingCall
from tidelog.broker.transactions import transaction_calls
from tidelog.core.coordination import TopicPartition
from tidelog.core.errors import Error
from tidelog.core.transactions.requests import AddPartitions, AddPartitionsResponse
from tidelog.wire.protocol.schemas.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from tidelog.wire.protocol.schemas.add_offsets_to_txn_response import AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from tidelog.broker.coordination.coordinators import Coordination
    from tidelog.broker.coordination.internal_topics import InternalTopics
    from tidelog.broker.transactions.transaction_calls import TransactionCalls
    from tidelog.rpc import Call

FENCED_SINCE = 2
CREATE_TIMEOUT_MS = 1_000


class Parts(NamedTuple):
    """What this handler uses."""

    coordination: Coordination
    internal_topics: InternalTopics
    transaction_calls: TransactionCalls


def handle(parts: Parts, call: Call) -> None:
    request = call.request
    assert isinstance(request, AddOffsetsToTxnRequest), request
    if not request.group_id:
        call.answer(_refusal(Error.INVALID_GROUP_ID))
        return
    index = parts.coordination.group_partition(request.group_id)
    if index is None:
        call.run(_create(parts, call))
        return
    asked = AddPartitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        (TopicPartition(CONSUMER_OFFSETS, index),),
        verify_only=False,
        version=transaction_calls.FIRST_VERSION,
    )
    token = PendingCall(call, partial(_response, call.version), _refusal)
    parts.transaction_calls.ask_patiently(request.transactional_id, asked, token)


async def _create(parts: Parts, call: Call) -> None:
    """Nobody has looked for the group's coordinator yet: the producer does only after this."""
    await parts.internal_topics.create(CONSUMER_OFFSETS, CREATE_TIMEOUT_MS)
    call.answer(_refusal(Error.COORDINATOR_NOT_AVAILABLE))


def _response(version: int, response: AddPartitionsResponse) -> AddOffsetsToTxnResponse:
    error = response.errors[0] if response.errors else response.error
    return _refusal(transaction_calls.in_words_of(version, error, fenced_since=FENCED_SINCE))


def _refusal(error: Error) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error)
