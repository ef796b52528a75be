"""DescribeCluster (API 60, v0–2): the brokers, and which one takes admin requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.answers import authorized_operations
from tidelog.broker.answers.neighbours import controller_for_clients, neighbours
from tidelog.core.errors import Error
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.describe_cluster_request import DescribeClusterRequest
from tidelog.wire.protocol.schemas.describe_cluster_response import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata

BROKERS = 1
CONTROLLERS = 2


def handle(metadata: LocalMetadata, cluster_id: str, call: Call) -> None:
    request = call.request
    assert isinstance(request, DescribeClusterRequest), request
    if request.endpoint_type != BROKERS:
        call.answer(refusal(request.endpoint_type))
        return
    image, listener = metadata.image, call.listener
    live = neighbours(image, listener)
    shown = live
    if request.include_fenced_brokers:
        shown = neighbours(image, listener, with_fenced=True)
    operations = authorized_operations.on_cluster(
        asked=request.include_cluster_authorized_operations
    )
    response = DescribeClusterResponse(
        endpoint_type=BROKERS,
        cluster_id=cluster_id,
        controller_id=controller_for_clients(live, metadata.own_id),
        brokers=[
            DescribeClusterBroker(
                broker_id=each.broker_id,
                host=each.host,
                port=each.port,
                rack=each.rack,
                is_fenced=each.fenced,
            )
            for each in shown.values()
        ],
        cluster_authorized_operations=operations,
    )
    call.answer(response)


def refusal(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == CONTROLLERS:
        error = Error.MISMATCHED_ENDPOINT_TYPE
        message = "this is a broker; controllers are described by a controller's listener"
    else:
        error = Error.UNSUPPORTED_ENDPOINT_TYPE
        message = f"endpoint type {endpoint_type} is none of {BROKERS} (brokers), {CONTROLLERS}"
    return DescribeClusterResponse(
        error_code=error, error_message=message, endpoint_type=endpoint_type
    )
