"""The replication throttles of a broker: the measured rate, and the allowed one (KIP-73)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.metadata.records import RESOURCE_BROKER
from tidelog.core.replication.throttle import ReplicationThrottle

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.config.settings import Settings
    from tidelog.host.ports import Clock

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"


class Throttle:
    """One direction. The rate may be changed at any time: for this broker, or for all."""

    __slots__ = ("_default_bytes", "_metadata", "_meter", "_name", "_now_ms")

    def __init__(
        self, name: str, metadata: LocalMetadata, settings: Settings, clock: Clock
    ) -> None:
        self._name = name
        self._metadata = metadata
        self._now_ms = clock.monotonic_ms
        self._default_bytes = settings.whole(name)
        self._meter = ReplicationThrottle(self._rate_bytes())

    def record(self, size_bytes: int) -> None:
        self._meter.record(size_bytes, self._now_ms())

    def over_quota(self) -> bool:
        self._meter.rate_bytes = self._rate_bytes()
        return self._meter.over_quota(self._now_ms())

    def _rate_bytes(self) -> int:
        configs = self._metadata.image.configs
        for resource in (str(self._metadata.own_id), ""):
            text = configs.get((RESOURCE_BROKER, resource), {}).get(self._name)
            if text is not None:
                return max(int(text), 1)
        return max(self._default_bytes, 1)
