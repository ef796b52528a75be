"""BrokerRegistration (62): a broker process announces itself (kraft.md §5.1)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.controller.open_request import expect
from tidelog.core.requests import (
    ControllerResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.broker_registration_request import BrokerRegistrationRequest
from tidelog.wire.protocol.schemas.broker_registration_response import BrokerRegistrationResponse

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController


def handle(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, BrokerRegistrationRequest), request

    def finish(responses: Sequence[ControllerResponse]) -> None:
        call.answer(answer_to(expect(responses[0], RegisterBrokerResponse)))

    controller.ask(call, [wish_of(request)], finish)


def wish_of(request: BrokerRegistrationRequest) -> RegisterBrokerRequest:
    return RegisterBrokerRequest(
        request.broker_id,
        request.cluster_id,
        bytes(request.incarnation_id),
        request.rack,
        tuple(map(bytes, request.log_dirs)),
        request.previous_broker_epoch,
        tuple((each.name, each.host, each.port) for each in request.listeners),
    )


def answer_to(response: RegisterBrokerResponse) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(error_code=response.error, broker_epoch=response.broker_epoch)
