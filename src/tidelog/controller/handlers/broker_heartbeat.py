"""BrokerHeartbeat (63): a broker renews its lease and learns what it may do (kraft.md §5.2)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.controller.open_request import expect
from tidelog.core.requests import ControllerResponse, HeartbeatRequest, HeartbeatResponse
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.broker_heartbeat_request import BrokerHeartbeatRequest
from tidelog.wire.protocol.schemas.broker_heartbeat_response import BrokerHeartbeatResponse

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController


def handle(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, BrokerHeartbeatRequest), request
    heartbeat = heartbeat_of(request)
    controller.core.on_arrival(heartbeat, controller.host.now_ms())
    controller.liveness.heard(request.broker_id, request.broker_epoch, call.connection)

    def finish(responses: Sequence[ControllerResponse]) -> None:
        call.answer(answer_to(expect(responses[0], HeartbeatResponse)))

    controller.ask(call, [heartbeat], finish)


def heartbeat_of(request: BrokerHeartbeatRequest) -> HeartbeatRequest:
    return HeartbeatRequest(
        request.broker_id,
        request.broker_epoch,
        request.current_metadata_offset,
        request.want_fence,
        request.want_shut_down,
    )


def answer_to(response: HeartbeatResponse) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(
        error_code=response.error,
        is_caught_up=response.is_caught_up,
        is_fenced=response.is_fenced,
        should_shut_down=response.should_shut_down,
    )
