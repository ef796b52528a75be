"""AlterConfigs (33): all settings of a resource are replaced; unnamed settings are removed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.controller.handlers.items import repeated, said, twice
from tidelog.controller.open_request import Refused, Step, expect
from tidelog.core.metadata.config_operations import replacement
from tidelog.core.metadata.configs import ConfigError
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.requests import AdminResponse, AlterConfigRequest, ControllerResponse
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.alter_configs_request import (
    AlterConfigsRequest,
    AlterConfigsResource,
)
from tidelog.wire.protocol.schemas.alter_configs_response import (
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController


def handle(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, AlterConfigsRequest), request

    def finish(responses: Sequence[ControllerResponse]) -> None:
        call.answer(answer_to(request, responses))

    controller.ask(call, steps_of(request, controller.image), finish)


def steps_of(request: AlterConfigsRequest, image: MetadataImage) -> list[Step]:
    doubtful = repeated((each.resource_type, each.resource_name) for each in request.resources)
    return [
        Refused(twice(f"resource {each.resource_name!r}"))
        if (each.resource_type, each.resource_name) in doubtful
        else step_of(each, image, validate_only=request.validate_only)
        for each in request.resources
    ]


def step_of(resource: AlterConfigsResource, image: MetadataImage, *, validate_only: bool) -> Step:
    key = (resource.resource_type, resource.resource_name)
    wanted = [(config.name, config.value) for config in resource.configs]
    try:
        changes = replacement(wanted, image.configs.get(key, {}))
    except ConfigError as refused:
        return Refused(AdminResponse(refused.error, refused.reason))
    return AlterConfigRequest(*key, changes, validate_only)


def answer_to(
    request: AlterConfigsRequest, responses: Sequence[ControllerResponse]
) -> AlterConfigsResponse:
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
    return AlterConfigsResponse(responses=results)
