"""DescribeTransactions v0: what the coordinators here know about transactional ids (KIP-664)."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from tidelog.broker.coordination.pending_call import Gathering
from tidelog.broker.transactions.state_names import state_name
from tidelog.core.errors import Error
from tidelog.core.transactions.requests import DescribedTransaction, DescribeTransaction
from tidelog.wire.protocol.schemas.describe_transactions_request import (
    DescribeTransactionsRequest,
)
from tidelog.wire.protocol.schemas.describe_transactions_response import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from tidelog.broker.transactions.transaction_calls import TransactionCalls
    from tidelog.rpc import Call


def handle(transactions: TransactionCalls, call: Call) -> None:
    request = call.request
    assert isinstance(request, DescribeTransactionsRequest), request
    ids = request.transactional_ids
    gathering: Gathering[TransactionState] = Gathering(len(ids), partial(_finish, call))
    for position, transactional_id in enumerate(ids):
        token = gathering.part(
            position, partial(_state, transactional_id), partial(_refused, transactional_id)
        )
        transactions.ask(transactional_id, DescribeTransaction(transactional_id), token)


def _finish(call: Call, states: list[TransactionState]) -> None:
    call.answer(DescribeTransactionsResponse(transaction_states=states))


def _refused(transactional_id: str, error: Error) -> TransactionState:
    return TransactionState(error_code=error, transactional_id=transactional_id)


def _state(transactional_id: str, described: DescribedTransaction) -> TransactionState:
    value = described.value
    if value is None:
        return _refused(transactional_id, described.error)
    by_topic = groupby(value.partitions, key=lambda each: each.topic)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=state_name(value.state),
        transaction_timeout_ms=value.timeout_ms,
        transaction_start_time_ms=value.start_ms,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=[each.partition for each in some])
            for topic, some in by_topic
        ],
    )
