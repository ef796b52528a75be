"""When the active controller acts by itself (kraft.md §4, §8). Leases are in `sessions`.

Each timer is armed only while there is something for it to find, so the shell may sleep
until the earliest deadline and is not woken for nothing.
"""

from tidelog.core.metadata import balance
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.settings import ControllerSettings
from tidelog.core.types import NEVER_MS, NO_LEADER

BALANCE_AGAIN_MS = 10
"""After a full batch of elections there is more to do; others get a turn in between."""


class Timers:
    __slots__ = ("_balance_ms", "_idle_ms", "_settings", "_unclean_ms")

    def __init__(self, settings: ControllerSettings) -> None:
        self._settings = settings
        self.stop()

    def start(self, image: MetadataImage, now_ms: int) -> None:
        self._restart_idle(now_ms)
        self.follow(image, now_ms)

    def stop(self) -> None:
        self._balance_ms = NEVER_MS
        self._unclean_ms = NEVER_MS
        self._idle_ms = NEVER_MS

    @property
    def next_deadline_ms(self) -> int:
        return min(self._balance_ms, self._unclean_ms, self._idle_ms)

    def appended(self, image: MetadataImage, now_ms: int) -> None:
        self._restart_idle(now_ms)
        self.follow(image, now_ms)

    def follow(self, image: MetadataImage, now_ms: int) -> None:
        """Arm what has found something to do, disarm what has nothing left."""
        settings = self._settings
        if not settings.auto_leader_rebalance or not balance.anything_displaced(image):
            self._balance_ms = NEVER_MS
        elif self._balance_ms == NEVER_MS:
            self._balance_ms = now_ms + settings.leader_imbalance_check_interval_ms
        if NO_LEADER not in image.index.led_by:
            self._unclean_ms = NEVER_MS
        elif self._unclean_ms == NEVER_MS:
            self._unclean_ms = now_ms + settings.unclean_check_interval_ms

    def balance_due(self, now_ms: int) -> bool:
        return now_ms >= self._balance_ms

    def balanced(self, image: MetadataImage, *, full: bool, now_ms: int) -> None:
        self._balance_ms = now_ms + BALANCE_AGAIN_MS if full else NEVER_MS
        self.follow(image, now_ms)

    def unclean_due(self, now_ms: int) -> bool:
        return now_ms >= self._unclean_ms

    def unclean_checked(self, image: MetadataImage, now_ms: int) -> None:
        self._unclean_ms = NEVER_MS
        self.follow(image, now_ms)

    def idle_due(self, now_ms: int) -> bool:
        """Nothing was written for a while: observers would not know whether we are alive."""
        return now_ms >= self._idle_ms

    def _restart_idle(self, now_ms: int) -> None:
        interval_ms = self._settings.max_idle_interval_ms
        self._idle_ms = now_ms + interval_ms if interval_ms > 0 else NEVER_MS
