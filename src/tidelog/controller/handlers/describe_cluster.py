"""DescribeCluster (60), sent to a controller: the list of controllers (KIP-919)."""

from typing import TYPE_CHECKING

from tidelog.core.errors import Error
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.describe_cluster_request import DescribeClusterRequest
from tidelog.wire.protocol.schemas.describe_cluster_response import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController

BROKERS = 1
CONTROLLERS = 2


def handle(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, DescribeClusterRequest), request
    call.answer(answer_to(controller, request.endpoint_type))


def answer_to(controller: "ActiveController", endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == BROKERS:
        return DescribeClusterResponse(
            error_code=Error.MISMATCHED_ENDPOINT_TYPE,
            error_message="this is a controller: ask it for controllers, and a broker for brokers",
        )
    if endpoint_type != CONTROLLERS:
        return DescribeClusterResponse(
            error_code=Error.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"endpoint type {endpoint_type}: 1 are brokers, 2 are controllers",
        )
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=controller.core.settings.cluster_id,
        controller_id=controller.leader_id,
        brokers=[
            DescribeClusterBroker(broker_id=node_id, host=host, port=port)
            for node_id, (host, port) in controller.facts.voters.items()
        ],
    )
