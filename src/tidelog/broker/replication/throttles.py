"""The replication throttles of a broker: how much, and how much is allowed (KIP-73)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.metadata.records import RESOURCE_BROKER
from tidelog.core.replication.throttle import ReplicationThrottle

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"


class Throttle:
    """One direction. The rate may be changed at any time: for this broker, or for all."""

    __slots__ = ("_broker", "_meter", "_name")

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker = broker
        self._name = name
        self._meter = ReplicationThrottle(self._rate_bytes())

    def record(self, size_bytes: int) -> None:
        self._meter.record(size_bytes, self._broker.now_ms())

    def over_quota(self) -> bool:
        self._meter.rate_bytes = self._rate_bytes()
        return self._meter.over_quota(self._broker.now_ms())

    def _rate_bytes(self) -> int:
        configs = self._broker.image.configs
        for resource in (str(self._broker.id), ""):
            text = configs.get((RESOURCE_BROKER, resource), {}).get(self._name)
            if text is not None:
                return max(int(text), 1)
        return max(self._broker.config.settings.whole(self._name), 1)
