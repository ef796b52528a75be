"""ListConfigResources (API 74, v0–1): whose settings can be described.

v0 only lists client metrics subscriptions, and there are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.errors import Error
from tidelog.core.metadata.records import RESOURCE_BROKER, RESOURCE_TOPIC
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.list_config_resources_request import ListConfigResourcesRequest
from tidelog.wire.protocol.schemas.list_config_resources_response import (
    ConfigResource,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32
LISTED = (RESOURCE_TOPIC, RESOURCE_BROKER)
NEVER_THERE = (BROKER_LOGGER, CLIENT_METRICS, GROUP)
"""Kinds that Kafka has; nobody can make one here, so their lists are empty."""


def handle(broker: Broker, call: Call) -> None:
    request = call.request
    assert isinstance(request, ListConfigResourcesRequest), request
    kinds = list(dict.fromkeys(request.resource_types)) or list(LISTED)
    if call.version == 0:
        kinds = [CLIENT_METRICS]
    if any(kind not in (*LISTED, *NEVER_THERE) for kind in kinds):
        call.answer(ListConfigResourcesResponse(error_code=Error.UNSUPPORTED_VERSION))
        return
    names = {
        RESOURCE_TOPIC: list(broker.image.topic_ids),
        RESOURCE_BROKER: [str(broker_id) for broker_id in sorted(broker.image.brokers)],
    }
    resources = [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in kinds
        for name in names.get(kind, ())
    ]
    call.answer(ListConfigResourcesResponse(config_resources=resources))
