"""Follower side: fetch loops towards the brokers that lead what we follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.types import PartitionId

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker
    from tidelog.broker.hosted import Hosted
    from tidelog.core.replication.effects import AskLeaderOffsets


class Fetchers:
    """Which partition is fetched from whom. One per broker."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def follow(self, hosted: Hosted) -> None:
        """Fetch from the replica's present leader; from nobody if there is none."""

    def drop(self, partition: PartitionId) -> None:
        """Fetch this partition no more."""

    def wake(self, partition: PartitionId) -> None:
        """Something that a fetch of this partition waited for may have come."""

    def wake_all(self) -> None:
        """Metadata was applied."""

    def ask_leader_offsets(self, hosted: Hosted, effect: AskLeaderOffsets) -> None:
        """Ask the leader where its log starts and ends; the replica hears the answer."""

    async def stop(self) -> None:
        """Fetch nothing more, close the connections."""
