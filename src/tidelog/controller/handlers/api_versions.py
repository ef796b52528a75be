"""ApiVersions (18): what the controller listener speaks, and the features of the cluster."""

from typing import TYPE_CHECKING

from tidelog.controller.features import SUPPORTED
from tidelog.core.metadata.image import MetadataImage
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController

FIRST_WITH_LEVEL_0 = 4
"""Older clients take a feature that supports level 0 for a mistake."""


def handle(controller: "ActiveController", call: Call) -> None:
    committed = controller.core.committed
    call.answer(
        ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=each.key, min_version=each.first, max_version=each.last)
                for each in controller.api_ranges()
            ],
            supported_features=supported_features(call.version),
            # Below 0 it means that nothing is finalized yet.
            finalized_features_epoch=controller.core.committed_end - 1,
            finalized_features=finalized_features(committed),
        )
    )


def supported_features(version: int) -> list[SupportedFeatureKey]:
    return [
        SupportedFeatureKey(name=name, min_version=levels.lowest, max_version=levels.highest)
        for name, levels in SUPPORTED.items()
        if levels.lowest > 0 or version >= FIRST_WITH_LEVEL_0
    ]


def finalized_features(image: MetadataImage) -> list[FinalizedFeatureKey]:
    return [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in image.features.items()
        if level > 0
    ]
