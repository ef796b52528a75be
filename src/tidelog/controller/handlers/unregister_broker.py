"""UnregisterBroker (64): forget a broker that will not come back."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.controller.handlers.items import said
from tidelog.controller.open_request import expect
from tidelog.core import requests
from tidelog.core.requests import AdminResponse, ControllerResponse
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.unregister_broker_request import UnregisterBrokerRequest
from tidelog.wire.protocol.schemas.unregister_broker_response import UnregisterBrokerResponse

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController


def handle(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, UnregisterBrokerRequest), request

    def finish(responses: Sequence[ControllerResponse]) -> None:
        response = expect(responses[0], AdminResponse)
        call.answer(
            UnregisterBrokerResponse(
                error_code=response.error, error_message=said(response.message)
            )
        )

    controller.ask(call, [requests.UnregisterBrokerRequest(request.broker_id)], finish)
