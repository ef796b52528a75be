"""ListConfigResources (API 74, v0–1): whose settings can be described.

v0 only lists subscriptions to client metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.handlers.describe_configs import RESOURCE_BROKER_LOGGER
from tidelog.core.errors import Error
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.records import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.list_config_resources_request import ListConfigResourcesRequest
from tidelog.wire.protocol.schemas.list_config_resources_response import (
    ConfigResource,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata

LISTED = (
    RESOURCE_TOPIC,
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
)


def handle(metadata: LocalMetadata, call: Call) -> None:
    request = call.request
    assert isinstance(request, ListConfigResourcesRequest), request
    kinds = list(dict.fromkeys(request.resource_types)) or list(LISTED)
    if call.version == 0:
        kinds = [RESOURCE_CLIENT_METRICS]
    if any(kind not in LISTED for kind in kinds):
        call.answer(ListConfigResourcesResponse(error_code=Error.UNSUPPORTED_VERSION))
        return
    resources = [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in kinds
        for name in names_of(metadata.image, kind)
    ]
    call.answer(ListConfigResourcesResponse(config_resources=resources))


def names_of(image: MetadataImage, kind: int) -> list[str]:
    """Topics and brokers have settings always, the others only if somebody made them."""
    if kind == RESOURCE_TOPIC:
        return list(image.topic_ids)
    if kind in (RESOURCE_BROKER, RESOURCE_BROKER_LOGGER):
        return [str(broker_id) for broker_id in sorted(image.brokers)]
    return sorted(name for resource_type, name in image.configs if resource_type == kind)
