"""The clocks of one machine: they run at a rate of their own."""

from tidelog.sim.kernel import Kernel

MILLION = 1_000_000
EPOCH_MS = 1_700_000_000_000


class MachineClock:
    """The `Clock` port. A rate of 1,000,000 is that of the kernel."""

    __slots__ = ("_ahead_us", "_kernel", "_rate", "_since_us", "_wall_ms")

    def __init__(self, kernel: Kernel, *, rate: int = MILLION, wall_ahead_ms: int = 0) -> None:
        assert rate > 0, rate
        self._kernel = kernel
        self._rate = rate
        self._wall_ms = EPOCH_MS + wall_ahead_ms
        self._since_us = 0
        """When it began to run at this rate, by the kernel."""
        self._ahead_us = 0
        """What it showed then."""

    def monotonic_us(self) -> int:
        return self._ahead_us + (self._kernel.now_us - self._since_us) * self._rate // MILLION

    def kernel_us(self, local_us: int) -> int:
        """How long the kernel takes for so long a time here, rounded up."""
        return -(-local_us * MILLION // self._rate)

    def monotonic_ms(self) -> int:  # asked at every turn: no call within the call
        passed_us = (self._kernel.now_us - self._since_us) * self._rate // MILLION
        return (self._ahead_us + passed_us) // 1000

    def wall_ms(self) -> int:
        return self._wall_ms + self.monotonic_ms()

    # -- faults

    def jump(self, by_ms: int) -> None:
        """Somebody sets the wall clock."""
        self._wall_ms += by_ms

    @property
    def rate(self) -> int:
        return self._rate

    def run_at(self, rate: int) -> None:
        """From now on, both clocks. Timers that are set keep the time they were set for."""
        assert rate > 0, rate
        self._ahead_us = self.monotonic_us()
        self._since_us = self._kernel.now_us
        self._rate = rate
