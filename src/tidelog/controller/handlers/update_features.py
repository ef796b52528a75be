"""UpdateFeatures (57): most feature levels are fixed when a cluster is created.

Asking for the level that a feature has is granted, so that a tool that upgrades every cluster it
meets has nothing to complain about. `controller.features` knows which others can be had.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.controller.features import SAFE_DOWNGRADE, UPGRADE, Wanted, why_not
from tidelog.controller.handlers.items import repeated, said
from tidelog.controller.open_request import expect
from tidelog.core.errors import Error
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.requests import AdminResponse, ControllerResponse
from tidelog.core.requests import UpdateFeaturesRequest as Decided
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.update_features_request import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from tidelog.wire.protocol.schemas.update_features_response import (
    UpdatableFeatureResult,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController

FIRST_WITH_UPGRADE_TYPE = 1


def handle(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, UpdateFeaturesRequest), request
    if not controller.active:
        call.answer(
            UpdateFeaturesResponse(
                error_code=Error.NOT_CONTROLLER, error_message=controller.why_not_active()
            )
        )
        return
    wanted = [wanted_by(each, call.version) for each in request.feature_updates]
    judged = judge(wanted, controller.image)
    if judged.error_code or request.validate_only:
        call.answer(judged)
        return

    def finish(responses: Sequence[ControllerResponse]) -> None:
        call.answer(answer_to(judged, responses))

    levels = tuple((each.feature, each.level) for each in wanted)
    controller.ask(call, [Decided(levels)], finish, timeout_ms=request.timeout_ms)


def wanted_by(update: FeatureUpdateKey, version: int) -> Wanted:
    """The oldest version has a flag for what is a type since."""
    kind = update.upgrade_type
    if version < FIRST_WITH_UPGRADE_TYPE:
        kind = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    return Wanted(update.feature, update.max_version_level, kind)


def judge(wanted: Sequence[Wanted], image: MetadataImage) -> UpdateFeaturesResponse:
    """All or nothing: one that is refused is an error of the whole request as well."""
    doubtful = repeated(each.feature for each in wanted)
    results = []
    for each in wanted:
        if each.feature in doubtful:
            error, reason = Error.INVALID_REQUEST, f"{each.feature} is named more than once"
        else:
            why = why_not(each, image)
            error, reason = (Error.INVALID_UPDATE_VERSION, why) if why else (Error.NONE, "")
        results.append(
            UpdatableFeatureResult(
                feature=each.feature, error_code=error, error_message=said(reason)
            )
        )
    for result in results:
        if result.error_code:
            return UpdateFeaturesResponse(
                error_code=result.error_code, error_message=result.error_message, results=results
            )
    return UpdateFeaturesResponse(results=results)


def answer_to(
    granted: UpdateFeaturesResponse, responses: Sequence[ControllerResponse]
) -> UpdateFeaturesResponse:
    (response,) = responses
    error, message = expect(response, AdminResponse)
    if error is Error.NONE:
        return granted
    return UpdateFeaturesResponse(error_code=error, error_message=said(message))
