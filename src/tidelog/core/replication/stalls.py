"""Followers that should catch up with their leader and stand still.

A follower that is assigned, on an active broker and outside the ISR has something to do: fetch
until it has everything, and with its next fetch it joins. So its acknowledged offset moves, or it
is in the ISR soon. If neither happens for long, something is wrong with it, idle partition or not.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.core.replication.follower import PATIENCE_IN_LAG_TIMES
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.progress import FollowerProgress
from tidelog.core.types import PartitionId


class Stall(NamedTuple):
    """A follower as it was when it was first seen to be there; -1 is before its first fetch."""

    replica_id: int
    leader_epoch: int
    log_end_offset: int
    since_ms: int


class Stalls:
    """Of the partitions that one broker leads. The caller looks at each now and then."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[PartitionId, dict[int, Stall]] = {}

    def look(self, leader: LeaderReplica, now_ms: int) -> list[Stall]:
        """Its followers that have stood still for too long."""
        state = leader.state
        before = self._seen.pop(state.partition, {})
        seen: dict[int, Stall] = {}
        for progress in expected_to_move(leader):
            known = before.get(progress.replica_id)
            place = (progress.replica_id, state.leader_epoch, progress.log_end_offset)
            seen[progress.replica_id] = (
                known if known is not None and known[:3] == place else Stall(*place, now_ms)
            )
        if seen:
            self._seen[state.partition] = seen
        patience_ms = PATIENCE_IN_LAG_TIMES * state.settings.replica_lag_time_max_ms
        return [stall for stall in seen.values() if now_ms - stall.since_ms >= patience_ms]

    def forget(self, partition: PartitionId) -> None:
        """It is not led here any more."""
        self._seen.pop(partition, None)


def expected_to_move(leader: LeaderReplica) -> Iterator[FollowerProgress]:
    """The assigned followers outside the ISR whose brokers are neither fenced nor leaving."""
    in_sync, brokers = leader.isr, leader.state.brokers
    if len(in_sync) == len(leader.state.replicas):
        return  # nearly always
    for progress in leader.progress.values():
        status = brokers.get(progress.replica_id)
        if progress.replica_id not in in_sync and status is not None and status.active:
            yield progress
