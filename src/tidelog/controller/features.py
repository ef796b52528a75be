"""The features of a cluster: their levels are in the log, the levels we support are here."""

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


CHANGEABLE: dict[str, Levels] = {TRANSACTION_FEATURE: Levels(1, TRANSACTION_VERSION)}
"""Brokers go by the versions of requests, so this only tells clients which ones to use. Without a
level a feature would be given its newest one by the next controller."""

UPGRADE = 1
SAFE_DOWNGRADE = 2
UNSAFE_DOWNGRADE = 3


class Wanted(NamedTuple):
    """One feature of a request. Kafka has the operator say which way it goes."""

    feature: str
    level: int
    upgrade_type: int = UPGRADE


def why_not(wanted: Wanted, image: MetadataImage) -> str | None:
    """The reason why a feature cannot get this level, or None if it can, or has it."""
    feature, level, upgrade_type = wanted
    levels = SUPPORTED.get(feature)
    if levels is None:
        known = ", ".join(SUPPORTED)
        return f"there is no feature {feature!r}; there are {known}"
    present = image.features.get(feature, 0)
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"there is no upgrade type {upgrade_type}"
    if level == present:
        return None
    if not levels.lowest <= level <= levels.highest:
        return (
            f"{feature} cannot be {level}: this release knows {levels.lowest} to {levels.highest}"
        )
    if level < present and upgrade_type == UPGRADE:
        return f"{feature} is {present}: to lower it to {level}, ask for a downgrade"
    if level > present and upgrade_type != UPGRADE:
        return f"{feature} is {present}: {level} would be no downgrade"
    allowed = CHANGEABLE.get(feature)
    if allowed is None:
        return f"{feature} is {present} since the cluster was created, and cannot change"
    if not allowed.lowest <= level <= allowed.highest:
        return f"{feature} can be {allowed.lowest} to {allowed.highest}, not {level}"
    return None
