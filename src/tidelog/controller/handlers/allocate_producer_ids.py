"""AllocateProducerIds (67): a block of producer ids for a broker to hand out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.controller.open_request import expect
from tidelog.core import requests
from tidelog.core.requests import ControllerResponse
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.allocate_producer_ids_request import AllocateProducerIdsRequest
from tidelog.wire.protocol.schemas.allocate_producer_ids_response import (
    AllocateProducerIdsResponse,
)

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController


def handle(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, AllocateProducerIdsRequest), request

    def finish(responses: Sequence[ControllerResponse]) -> None:
        block = expect(responses[0], requests.AllocateProducerIdsResponse)
        call.answer(
            AllocateProducerIdsResponse(
                error_code=block.error,
                producer_id_start=block.start,
                producer_id_len=block.size,
            )
        )

    wish = requests.AllocateProducerIdsRequest(request.broker_id, request.broker_epoch)
    controller.ask(call, [wish], finish)
