"""EndTxn v0 to v5: commit or abort a transaction (KIP-98).

It is answered when the decision is committed in the coordinator's log; the markers are written
afterwards. From v5 on the producer epoch is raised with it, and the answer tells it (KIP-890).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.coordination.pending_call import PendingCall
from tidelog.broker.transactions import transaction_calls
from tidelog.broker.transactions.transaction_calls import WithProducerId
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.transactions.requests import EndTransaction, ProducerIdentity
from tidelog.core.types import NO_PRODUCER
from tidelog.wire.protocol.schemas.end_txn_request import EndTxnRequest
from tidelog.wire.protocol.schemas.end_txn_response import EndTxnResponse

if TYPE_CHECKING:
    from tidelog.broker.transactions.transaction_calls import TransactionCalls
    from tidelog.rpc import Call

FIRST_VERSION_THAT_RAISES_THE_EPOCH = 5
FENCED_SINCE = 2


def handle(transactions: TransactionCalls, call: Call) -> None:
    request = call.request
    assert isinstance(request, EndTxnRequest), request
    if call.version < FIRST_VERSION_THAT_RAISES_THE_EPOCH:
        _ask(transactions, call, request, NO_PRODUCER)
        return
    later = WithProducerId(partial(_ask, transactions, call, request), partial(_refuse, call))
    transactions.with_producer_id(request.transactional_id, call, later, ending=True)


def _ask(transactions: TransactionCalls, call: Call, request: EndTxnRequest, fresh_id: int) -> None:
    raises = call.version >= FIRST_VERSION_THAT_RAISES_THE_EPOCH
    asked = EndTransaction(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        transaction_calls.SECOND_VERSION if raises else transaction_calls.FIRST_VERSION,
        fresh_id,
    )
    token = PendingCall(call, partial(_response, call.version), _refusal)
    transactions.ask(request.transactional_id, asked, token)


def _response(version: int, identity: ProducerIdentity) -> EndTxnResponse:
    if identity.error is not NO_ERROR:
        return _refusal(
            transaction_calls.in_words_of(version, identity.error, fenced_since=FENCED_SINCE)
        )
    return EndTxnResponse(producer_id=identity.producer_id, producer_epoch=identity.producer_epoch)


def _refusal(error: Error) -> EndTxnResponse:
    return EndTxnResponse(error_code=error)


def _refuse(call: Call, error: Error) -> None:
    call.answer(_refusal(error))
