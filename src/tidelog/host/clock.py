"""The real clock."""

import time


class SystemClock:
    """Milliseconds of the operating system: one clock that only goes forward, one that is right."""

    __slots__ = ()

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
