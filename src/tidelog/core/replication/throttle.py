"""Replication throttle: slow catching up, never a replica that is in sync (§9, KIP-73)."""

from collections import deque
from typing import NamedTuple

WINDOW_MS = 1_000
WINDOWS = 11
UNLIMITED = (1 << 63) - 1
UNKNOWN_LAG = -1


class ReplicationThrottle:
    """Bytes per second over the last eleven windows of one second; one per direction."""

    __slots__ = ("_total", "_windows", "rate_bytes")

    def __init__(self, rate_bytes: int = UNLIMITED) -> None:
        assert rate_bytes > 0, f"throttled to {rate_bytes} bytes per second"
        self.rate_bytes = rate_bytes
        # [window start, bytes], oldest first.
        self._windows: deque[list[int]] = deque()
        self._total = 0

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Every byte of a listed replica counts, in sync or not."""
        assert size_bytes >= 0, f"recorded {size_bytes} bytes"
        self._forget_old(now_ms)
        start = now_ms - now_ms % WINDOW_MS
        if not self._windows or self._windows[-1][0] < start:
            self._windows.append([start, 0])
        self._windows[-1][1] += size_bytes
        self._total += size_bytes

    def over_quota(self, now_ms: int) -> bool:
        self._forget_old(now_ms)
        if not self._windows:
            return False
        # A young meter is read as if ten windows had passed: one burst is not a rate.
        elapsed_ms = now_ms - self._windows[0][0]
        missing = WINDOWS - 1 - elapsed_ms // WINDOW_MS
        if missing > 0:
            elapsed_ms += missing * WINDOW_MS
        return self._total * 1_000 > self.rate_bytes * elapsed_ms

    def _forget_old(self, now_ms: int) -> None:
        windows = self._windows
        while windows and windows[0][0] <= now_ms - WINDOWS * WINDOW_MS:
            self._total -= windows.popleft()[1]
        assert self._total >= 0, f"{self._total} bytes in {len(windows)} windows"


def should_throttle_leader(*, listed: bool, over_quota: bool, in_sync: bool) -> bool:
    """The leader answers this follower's partition without records."""
    return listed and over_quota and not in_sync


def should_throttle_follower(*, listed: bool, over_quota: bool, lag: int) -> bool:
    """The follower leaves the partition out of its fetch. An unknown lag counts as lagging."""
    return listed and over_quota and lag != 0


class ThrottledReplicas(NamedTuple):
    """Value of `leader.` or `follower.replication.throttled.replicas` of a topic."""

    everything: bool = False
    listed: frozenset[tuple[int, int]] = frozenset()

    def __contains__(self, item: object) -> bool:
        """`(partition, broker)`."""
        return self.everything or item in self.listed


def parse_throttled_replicas(text: str) -> ThrottledReplicas:
    """`*`, or `partition:broker` separated by commas. ValueError for anything else."""
    text = text.strip()
    if text == "*":
        return ThrottledReplicas(everything=True)
    pairs: list[tuple[int, int]] = []
    for item in text.split(",") if text else []:
        partition, _, broker = item.partition(":")
        pairs.append((int(partition), int(broker)))
    return ThrottledReplicas(listed=frozenset(pairs))
