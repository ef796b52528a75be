"""What the leader knows of one follower, learned only from its fetches (replication.md §8.1)."""

from tidelog.core.replication.inputs import FollowerFetch
from tidelog.core.types import NO_EPOCH, NO_OFFSET

NEVER_MS = -(1 << 62)
"""Longer ago than any clock that starts at zero could tell."""


class FollowerProgress:
    """`last_caught_up_ms` is the latest time at which the follower had everything the leader
    had then. It is not the time of the last fetch: a follower may fetch often and still lag."""

    __slots__ = (
        "broker_epoch",
        "last_caught_up_ms",
        "last_fetch_leader_end",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
        "replica_id",
    )

    def __init__(self, replica_id: int) -> None:
        self.replica_id = replica_id
        self.log_start_offset = NO_OFFSET
        self.log_end_offset = NO_OFFSET
        self.last_fetch_leader_end = NO_OFFSET
        self.last_fetch_ms = NEVER_MS
        self.last_caught_up_ms = NEVER_MS
        self.broker_epoch = NO_EPOCH

    def __repr__(self) -> str:
        return (
            f"FollowerProgress({self.replica_id}, log_end_offset={self.log_end_offset}, "
            f"last_caught_up_ms={self.last_caught_up_ms})"
        )

    def acknowledge(self, fetch: FollowerFetch, leader_end: int, now_ms: int) -> bool:
        """Count a sound fetch. True when the follower's log end moved."""
        fetch_offset = fetch.fetch_offset
        assert fetch_offset <= leader_end, f"fetch at {fetch_offset} beyond {leader_end}"
        if fetch_offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end:
            # It has what the leader had when it last fetched: it was caught up then.
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        moved = fetch_offset != self.log_end_offset
        self.log_end_offset = fetch_offset
        self.log_start_offset = fetch.log_start_offset
        self.last_fetch_leader_end = max(leader_end, self.last_fetch_leader_end)
        self.last_fetch_ms = now_ms
        self.broker_epoch = fetch.replica_epoch
        return moved

    def start_leadership(self, *, in_isr: bool, now_ms: int) -> None:
        """A new leader gives every ISR member the full lag time to show up."""
        self.last_caught_up_ms = now_ms if in_isr else NEVER_MS

    def continue_leadership(self, *, in_isr: bool, leader_end: int, now_ms: int) -> None:
        """A new leader epoch of the same leader: what the follower holds stays known."""
        self.last_caught_up_ms = now_ms if in_isr else NEVER_MS
        self.last_fetch_leader_end = leader_end
        self.last_fetch_ms = now_ms if in_isr else NEVER_MS
