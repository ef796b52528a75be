"""ApiVersions (API 18, v0–4): what this listener serves, and the features of the cluster.

Features steer clients as much as versions do: with `transaction.version` 2 they leave it to brokers
to add partitions to a transaction. They take a named feature for one that works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidelog.core.metadata.bootstrap import (
    ELR_VERSION,
    GROUP_FEATURE,
    GROUP_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_FEATURE,
    TRANSACTION_FEATURE,
    TRANSACTION_VERSION,
)
from tidelog.core.metadata.contexts import ELR_FEATURE
from tidelog.rpc import Call
from tidelog.wire.protocol import ApiRange
from tidelog.wire.protocol.schemas.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata

KRAFT_VERSION_FEATURE = "kraft.version"
FIRST_WITH_LEVEL_ZERO = 4
"""Older Java clients fail on a feature that may have level 0 (KIP-1022)."""


class Supported(NamedTuple):
    name: str
    first: int
    last: int


SUPPORTED_FEATURES = (
    Supported(METADATA_VERSION_FEATURE, METADATA_VERSION, METADATA_VERSION),
    Supported(KRAFT_VERSION_FEATURE, 0, 0),  # the voters are those of the settings file
    Supported(ELR_FEATURE, 0, ELR_VERSION),
    Supported(GROUP_FEATURE, 0, GROUP_VERSION),
    Supported(TRANSACTION_FEATURE, 0, TRANSACTION_VERSION),
)


def handle(
    metadata: LocalMetadata, call: Call, *, ranges: Callable[[], Sequence[ApiRange]]
) -> None:
    finalized = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in metadata.image.features.items()
    ]
    response = ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=each.key, min_version=each.first, max_version=each.last)
            for each in ranges()
        ],
        supported_features=[
            SupportedFeatureKey(name=each.name, min_version=each.first, max_version=each.last)
            for each in SUPPORTED_FEATURES
            if each.first > 0 or call.version >= FIRST_WITH_LEVEL_ZERO
        ],
        # It only grows, and clients ignore features that come with a smaller one than before.
        finalized_features_epoch=metadata.offset,
        finalized_features=finalized,
    )
    call.answer(response)
