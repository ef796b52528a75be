"""IncrementalAlterConfigs (API 44, v0–1): levels of this broker's loggers are changed here, all
other settings by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.answers import loggers
from tidelog.broker.handlers import forwarded
from tidelog.broker.handlers.describe_configs import RESOURCE_BROKER_LOGGER
from tidelog.core.errors import Error
from tidelog.core.metadata.config_operations import Operation
from tidelog.core.metadata.configs import ConfigError
from tidelog.wire.protocol.schemas.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.protocol.schemas.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from tidelog.rpc import Call

KEY = 44


def handle(parts: forwarded.Parts, call: Call) -> None:
    request = call.request
    assert isinstance(request, IncrementalAlterConfigsRequest), request
    if any(each.resource_type == RESOURCE_BROKER_LOGGER for each in request.resources):
        call.run(_answer(parts, call, request))
    else:
        forwarded.handle(parts, call)


async def _answer(
    parts: forwarded.Parts, call: Call, request: IncrementalAlterConfigsRequest
) -> None:
    """In the order of the request."""
    here = [each.resource_type == RESOURCE_BROKER_LOGGER for each in request.resources]
    elsewhere = [each for each, is_here in zip(request.resources, here, strict=True) if not is_here]
    responses: list[AlterConfigsResourceResponse] = []
    if elsewhere:
        passed_on = IncrementalAlterConfigsRequest(
            resources=elsewhere, validate_only=request.validate_only
        )
        answer = await forwarded.answer_of_controller(
            parts, call, passed_on, call.version, forwarded.ROWS[KEY]
        )
        assert isinstance(answer, IncrementalAlterConfigsResponse), answer
        responses = list(answer.responses)
    others = iter(responses)
    call.answer(
        IncrementalAlterConfigsResponse(
            responses=[
                _change(parts.metadata.own_id, each, validate_only=request.validate_only)
                if is_here
                else next(others)
                for each, is_here in zip(request.resources, here, strict=True)
            ]
        )
    )


def _change(
    own_id: int, resource: AlterConfigsResource, *, validate_only: bool
) -> AlterConfigsResourceResponse:
    result = AlterConfigsResourceResponse(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    operations = [
        Operation(each.name, each.config_operation, each.value) for each in resource.configs
    ]
    try:
        if resource.resource_name != str(own_id):
            reason = f"broker {own_id} has its own loggers, not those of {resource.resource_name!r}"
            raise ConfigError(Error.INVALID_REQUEST, reason)
        loggers.change(operations, validate_only=validate_only)
    except ConfigError as refused:
        result.error_code, result.error_message = refused.error, refused.reason
    return result
