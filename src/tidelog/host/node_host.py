"""What a node is given of the world, together."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.core.events import Event
from tidelog.host.ports import Clock, DiskSpace, Entropy, Network
from tidelog.host.timers import TimerWheel


def unknown_space(_path: str) -> DiskSpace | None:
    """For hosts whose disks have no size."""
    return None


class NodeHost(NamedTuple):
    clock: Clock
    timers: TimerWheel
    network: Network
    entropy: Entropy
    emit: Callable[[Event], None]
    """The one way out for everything that happens: logs, metrics and traces render it."""
    disk_space: Callable[[str], DiskSpace | None] = unknown_space
    """How much room there is around a path; None if nobody can tell."""

    def now_ms(self) -> int:
        return self.clock.monotonic_ms()
