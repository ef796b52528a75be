"""The settings of one consumer group: how fast its members have to say that they are alive.

Kafka has more of them, for share groups and streams groups; there are none here.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.core.metadata.topic_configs import INT32_MAX, IntConfig, misfit, shown

SESSION_TIMEOUT_MS = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL_MS = "consumer.heartbeat.interval.ms"

KNOWN: dict[str, IntConfig] = {
    SESSION_TIMEOUT_MS: IntConfig(45_000, at_least=1, at_most=INT32_MAX),
    HEARTBEAT_INTERVAL_MS: IntConfig(5_000, at_least=1, at_most=INT32_MAX),
}

OTHER_KINDS = ("share.", "streams.")


class GroupLimits(NamedTuple):
    """What a group gets that says nothing, and what it may ask for; the defaults are Kafka's."""

    session_timeout_ms: int = 45_000
    min_session_timeout_ms: int = 45_000
    max_session_timeout_ms: int = 60_000
    heartbeat_interval_ms: int = 5_000
    min_heartbeat_interval_ms: int = 5_000
    max_heartbeat_interval_ms: int = 15_000


KAFKAS_LIMITS = GroupLimits()


def check_group_config(name: str, value: str) -> str | None:
    """The reason why no group can have this setting, or None."""
    known = KNOWN.get(name)
    if known is None:
        if name.startswith(OTHER_KINDS):
            return f"{name}: Tidelog has consumer groups, no share groups and no streams groups"
        return f"no group setting {shown(name)}; there are {', '.join(KNOWN)}"
    expected = misfit(known, value.strip())
    return f"{name} must be {expected}, not {shown(value)}" if expected is not None else None


def check_group(values: Mapping[str, str], limits: GroupLimits) -> str | None:
    """The reason why a group cannot have these settings together; defaults fill the gaps."""
    assert limits.min_session_timeout_ms <= limits.max_session_timeout_ms, limits
    assert limits.min_heartbeat_interval_ms <= limits.max_heartbeat_interval_ms, limits
    session_ms = int(values.get(SESSION_TIMEOUT_MS, limits.session_timeout_ms))
    heartbeat_ms = int(values.get(HEARTBEAT_INTERVAL_MS, limits.heartbeat_interval_ms))
    for name, number, least, most in (
        (
            HEARTBEAT_INTERVAL_MS,
            heartbeat_ms,
            limits.min_heartbeat_interval_ms,
            limits.max_heartbeat_interval_ms,
        ),
        (
            SESSION_TIMEOUT_MS,
            session_ms,
            limits.min_session_timeout_ms,
            limits.max_session_timeout_ms,
        ),
    ):
        if name in values and not least <= number <= most:
            return f"{name}={number} must be from {least} to {most} (group.consumer.min and max)"
    if session_ms <= heartbeat_ms:
        interval = f"{HEARTBEAT_INTERVAL_MS}={heartbeat_ms}"
        return f"{SESSION_TIMEOUT_MS}={session_ms} must be above {interval}"
    return None
