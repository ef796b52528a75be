"""The clocks of one machine: they run at a rate of their own."""

from tidelog.sim.kernel import Kernel

MILLION = 1_000_000
EPOCH_MS = 1_700_000_000_000


class MachineClock:
    """The `Clock` port. A rate of 1,000,000 is that of the kernel."""

    __slots__ = ("_kernel", "_rate", "_wall_ms")

    def __init__(self, kernel: Kernel, *, rate: int = MILLION, wall_ahead_ms: int = 0) -> None:
        assert rate > 0, rate
        self._kernel = kernel
        self._rate = rate
        self._wall_ms = EPOCH_MS + wall_ahead_ms

    def monotonic_us(self) -> int:
        return self._kernel.now_us * self._rate // MILLION

    def kernel_us(self, local_us: int) -> int:
        """How long the kernel takes for so long a time here, rounded up."""
        return -(-local_us * MILLION // self._rate)

    def monotonic_ms(self) -> int:
        return self.monotonic_us() // 1000

    def wall_ms(self) -> int:
        return self._wall_ms + self.monotonic_ms()
