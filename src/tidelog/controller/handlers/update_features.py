"""UpdateFeatures (57): levels of features are fixed when a cluster is created.

Asking for the level that a feature has is granted, so that a tool that upgrades every cluster it
meets has nothing to complain about.
"""

from typing import TYPE_CHECKING

from tidelog.controller.features import why_not
from tidelog.controller.handlers.items import repeated
from tidelog.core.errors import Error
from tidelog.core.metadata.image import MetadataImage
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.update_features_request import UpdateFeaturesRequest
from tidelog.wire.protocol.schemas.update_features_response import (
    UpdatableFeatureResult,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController


def handle(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, UpdateFeaturesRequest), request
    if controller.active:
        call.answer(answer_to(request, controller.core.committed))
        return
    call.answer(
        UpdateFeaturesResponse(
            error_code=Error.NOT_CONTROLLER, error_message=controller.why_not_active()
        )
    )


def answer_to(request: UpdateFeaturesRequest, image: MetadataImage) -> UpdateFeaturesResponse:
    """All or nothing: one that is refused is an error of the whole request as well."""
    doubtful = repeated(each.feature for each in request.feature_updates)
    results = []
    for each in request.feature_updates:
        if each.feature in doubtful:
            error, reason = Error.INVALID_REQUEST, f"{each.feature} is named more than once"
        else:
            why = why_not(each.feature, each.max_version_level, image)
            error, reason = (Error.INVALID_UPDATE_VERSION, why) if why else (Error.NONE, "")
        results.append(
            UpdatableFeatureResult(
                feature=each.feature, error_code=error, error_message=reason or None
            )
        )
    for result in results:
        if result.error_code:
            return UpdateFeaturesResponse(
                error_code=result.error_code, error_message=result.error_message, results=results
            )
    return UpdateFeaturesResponse(results=results)
