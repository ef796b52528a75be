"""IncrementalAlterConfigs (44): set, delete, append to and subtract from single settings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.config.live_keys import live_list_default
from tidelog.controller.handlers.items import repeated, said, twice
from tidelog.controller.open_request import Refused, Step, expect
from tidelog.core.metadata import client_metrics_configs
from tidelog.core.metadata.config_operations import (
    ListDefault,
    Operation,
    changes_of,
    topic_list_default,
)
from tidelog.core.metadata.configs import ConfigError
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.records import RESOURCE_CLIENT_METRICS, RESOURCE_TOPIC
from tidelog.core.requests import AdminResponse, AlterConfigRequest, ControllerResponse
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.protocol.schemas.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController


LIST_DEFAULTS: dict[int, ListDefault] = {
    RESOURCE_TOPIC: topic_list_default,
    RESOURCE_CLIENT_METRICS: client_metrics_configs.list_default,
}


def handle(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, IncrementalAlterConfigsRequest), request

    def finish(responses: Sequence[ControllerResponse]) -> None:
        call.answer(answer_to(request, responses))

    controller.ask(call, steps_of(request, controller.image), finish)


def steps_of(request: IncrementalAlterConfigsRequest, image: MetadataImage) -> list[Step]:
    doubtful = repeated((each.resource_type, each.resource_name) for each in request.resources)
    return [
        Refused(twice(f"resource {each.resource_name!r}"))
        if (each.resource_type, each.resource_name) in doubtful
        else step_of(each, image, validate_only=request.validate_only)
        for each in request.resources
    ]


def step_of(resource: AlterConfigsResource, image: MetadataImage, *, validate_only: bool) -> Step:
    key = (resource.resource_type, resource.resource_name)
    operations = [
        Operation(config.name, config.config_operation, config.value) for config in resource.configs
    ]
    try:
        changes = changes_of(
            operations,
            image.configs.get(key, {}),
            LIST_DEFAULTS.get(resource.resource_type, live_list_default),
        )
    except ConfigError as refused:
        return Refused(AdminResponse(refused.error, refused.reason))
    return AlterConfigRequest(*key, changes, validate_only)


def answer_to(
    request: IncrementalAlterConfigsRequest, responses: Sequence[ControllerResponse]
) -> IncrementalAlterConfigsResponse:
    results = []
    for resource, response in zip(request.resources, responses, strict=True):
        error, message = expect(response, AdminResponse)
        results.append(
            AlterConfigsResourceResponse(
                error_code=error,
                error_message=said(message),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return IncrementalAlterConfigsResponse(responses=results)
