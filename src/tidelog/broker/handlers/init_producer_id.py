"""InitProducerId v0 to v5: a producer id for an idempotent producer (KIP-98, KIP-730).

A transactional id is refused with UNSUPPORTED_VERSION. A retriable code would be kinder to read,
but clients then retry it in silence until they time out; this one they report at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.producer_ids import NoProducerIds
from tidelog.core.errors import Error
from tidelog.wire.protocol.schemas.init_producer_id_request import InitProducerIdRequest
from tidelog.wire.protocol.schemas.init_producer_id_response import InitProducerIdResponse

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker
    from tidelog.rpc import Call

FIRST_EPOCH = 0


def handle(broker: Broker, call: Call) -> None:
    """Without a transactional id every call gives a new id; one that is sent along is ignored,
    as Kafka does."""
    request = call.request
    assert isinstance(request, InitProducerIdRequest), request
    if request.transactional_id is not None:
        call.answer(InitProducerIdResponse(error_code=Error.UNSUPPORTED_VERSION))
        return
    producer_id = broker.link.producer_ids.take()
    if producer_id is None:
        call.run(_wait(broker, call))
    else:
        call.answer(InitProducerIdResponse(producer_id=producer_id, producer_epoch=FIRST_EPOCH))


async def _wait(broker: Broker, call: Call) -> None:
    try:
        producer_id = await broker.link.producer_ids.wait()
    except NoProducerIds:
        # Of the codes that clients retry, the one that does not make them look for a coordinator.
        call.answer(InitProducerIdResponse(error_code=Error.COORDINATOR_LOAD_IN_PROGRESS))
        return
    call.answer(InitProducerIdResponse(producer_id=producer_id, producer_epoch=FIRST_EPOCH))
