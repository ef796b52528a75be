"""The features of a cluster: their levels are in the log, the levels we can do are here."""

from typing import NamedTuple

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
from tidelog.core.metadata.image import MetadataImage


class Levels(NamedTuple):
    lowest: int
    highest: int


SUPPORTED: dict[str, Levels] = {
    METADATA_VERSION_FEATURE: Levels(METADATA_VERSION, METADATA_VERSION),
    ELR_FEATURE: Levels(0, ELR_VERSION),
    GROUP_FEATURE: Levels(0, GROUP_VERSION),
    TRANSACTION_FEATURE: Levels(0, TRANSACTION_VERSION),
}


def why_not(feature: str, level: int, image: MetadataImage) -> str | None:
    """The reason why a feature cannot get this level, or None if it has it."""
    levels = SUPPORTED.get(feature)
    if levels is None:
        known = ", ".join(SUPPORTED)
        return f"there is no feature {feature!r}; there are {known}"
    present = image.features.get(feature, 0)
    if level == present:
        return None
    if not levels.lowest <= level <= levels.highest:
        return (
            f"{feature} cannot be {level}: this release knows {levels.lowest} to {levels.highest}"
        )
    return f"{feature} is {present} since the cluster was created, and cannot change"
