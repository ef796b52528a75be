"""Leader side of every read: follower fetches and consumer fetches, answered or parked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.types import PartitionId

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker


class Reads:
    """Fetches under way on this broker. One per broker."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def wake(self, partition: PartitionId) -> None:
        """The log end or the leadership of this partition changed: followers and consumers."""

    def wake_consumers(self, partition: PartitionId) -> None:
        """Its high watermark, last stable offset, log start or ISR changed."""
