"""Settings of brokers that can change while they run.

Which there are, a node knows from its own keys (`ControllerSettings.check_broker_config`). Here
are those that the state machines themselves depend on, for everybody who has no such keys.
"""

import re
from collections.abc import Callable

from tidelog.core.metadata.topic_configs import check_config

BrokerConfigCheck = Callable[[str, str], str | None]
"""The reason why no broker can be given this value of this setting, or None."""

THROTTLE_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
"""Bytes per second; settings of brokers, not of topics."""

BYTES_PER_SECOND = re.compile(r"[0-9]{1,18}")


def check_broker_config(name: str, value: str) -> str | None:
    """Throttle rates, and defaults of topics under the names that topics have for them."""
    if name in THROTTLE_RATES:
        fits = BYTES_PER_SECOND.fullmatch(value) is not None
        return None if fits else f"{name} must be a whole number of at least 0, not {value!r}"
    return check_config(name, value)
