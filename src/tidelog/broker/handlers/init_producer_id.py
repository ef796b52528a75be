"""InitProducerId v0 to v5: a producer id, and for a transactional id its epoch (KIP-98, KIP-360).

Without a transactional id every call gives a new id (KIP-730). With one the coordinator decides:
the same producer with a higher epoch, so that every instance before this one is fenced.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.coordination.pending_call import PendingCall
from tidelog.broker.transactions import transaction_calls
from tidelog.broker.transactions.transaction_calls import WithProducerId
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.transactions.requests import InitProducer, ProducerIdentity
from tidelog.wire.protocol.schemas.init_producer_id_request import InitProducerIdRequest
from tidelog.wire.protocol.schemas.init_producer_id_response import InitProducerIdResponse

if TYPE_CHECKING:
    from tidelog.broker.transactions.transaction_calls import TransactionCalls
    from tidelog.rpc import Call

FIRST_EPOCH = 0
FENCED_SINCE = 4


def handle(transactions: TransactionCalls, call: Call) -> None:
    request = call.request
    assert isinstance(request, InitProducerIdRequest), request
    if request.transactional_id is None:
        _give_new_id(transactions, call)
        return
    later = WithProducerId(partial(_ask, transactions, call, request), partial(_refuse, call))
    transactions.with_producer_id(request.transactional_id, call, later, ending=False)


# ---- without a transactional id: one that is sent along is ignored, as Kafka does


def _give_new_id(transactions: TransactionCalls, call: Call) -> None:
    def go(producer_id: int) -> None:
        call.answer(InitProducerIdResponse(producer_id=producer_id, producer_epoch=FIRST_EPOCH))

    transactions.with_new_id(call, WithProducerId(go, partial(_refuse, call)))


# ---- with one


def _ask(
    transactions: TransactionCalls, call: Call, request: InitProducerIdRequest, fresh_id: int
) -> None:
    transactional_id = request.transactional_id
    assert transactional_id is not None, request
    asked = InitProducer(
        transactional_id,
        request.transaction_timeout_ms,
        request.producer_id,
        request.producer_epoch,
        fresh_id,
    )
    token = PendingCall(call, partial(_response, call.version), _refusal)
    transactions.ask_patiently(transactional_id, asked, token)


def _response(version: int, identity: ProducerIdentity) -> InitProducerIdResponse:
    if identity.error is not NO_ERROR:
        return _refusal(
            transaction_calls.in_words_of(version, identity.error, fenced_since=FENCED_SINCE)
        )
    return InitProducerIdResponse(
        producer_id=identity.producer_id, producer_epoch=identity.producer_epoch
    )


def _refusal(error: Error) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_epoch=-1)


def _refuse(call: Call, error: Error) -> None:
    call.answer(_refusal(error))
