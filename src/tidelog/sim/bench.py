"""How much the machinery itself costs: a kernel without work."""

import time

from tidelog.sim.kernel import Kernel
from tidelog.sim.results import quiet_collector

STEPS = 200_000
ROUNDS = 3
NEVER_US = 1 << 60


def kernel_us_per_step() -> float:
    """Schedule one event, pop it, feed the digest, call back. The best of a few rounds: what the
    machine can do, not what else it was doing."""
    with quiet_collector():
        return min(_kernel_round() for _ in range(ROUNDS))


def _kernel_round() -> float:
    kernel = Kernel()

    def again(delay_us: int) -> None:
        kernel.call_in(delay_us, delay_us & 7, again, delay_us)

    for delay_us in range(100, 150):
        kernel.call_in(delay_us, delay_us & 7, again, delay_us)
    return _timed(kernel)


def _timed(kernel: Kernel) -> float:
    begin_ns = time.process_time_ns()
    kernel.run(NEVER_US, STEPS)
    return (time.process_time_ns() - begin_ns) / 1000 / kernel.steps
