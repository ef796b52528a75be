"""What a node is given of the world, together."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.core.events import Event
from tidelog.host.ports import Clock, Entropy, Network
from tidelog.host.timers import TimerWheel


class NodeHost(NamedTuple):
    clock: Clock
    timers: TimerWheel
    network: Network
    entropy: Entropy
    emit: Callable[[Event], None]
    """The one way out for everything that happens: logs, metrics and traces render it."""

    def now_ms(self) -> int:
        return self.clock.monotonic_ms()
