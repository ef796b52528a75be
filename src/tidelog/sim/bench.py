"""How much the machinery itself costs: a kernel without work, a network without nodes."""

import time
from typing import NamedTuple

from tidelog.sim.entropy import stream
from tidelog.sim.kernel import Kernel
from tidelog.sim.network import Network, NetworkPlan
from tidelog.sim.results import quiet_collector

STEPS = 200_000
ROUNDS = 3
NEVER_US = 1 << 60


class MachineryCost(NamedTuple):
    kernel_us_per_step: float
    """Schedule one event, pop it, feed the digest, call back."""
    network_us_per_message: float
    """The same with a send and a delivery around it."""


def measure_machinery() -> MachineryCost:
    """The best of a few rounds: what the machine can do, not what else it was doing."""
    with quiet_collector():
        return MachineryCost(
            min(_kernel_round() for _ in range(ROUNDS)),
            min(_network_round() for _ in range(ROUNDS)),
        )


def _kernel_round() -> float:
    kernel = Kernel()

    def again(delay_us: int) -> None:
        kernel.call_in(delay_us, delay_us & 7, again, delay_us)

    for delay_us in range(100, 150):
        kernel.call_in(delay_us, delay_us & 7, again, delay_us)
    return _timed(kernel)


def _network_round() -> float:
    kernel = Kernel()
    network: Network

    def echo(target: int, source: int, message: object) -> None:
        network.send(target, source, message)

    network = Network(kernel, stream(0, "network"), NetworkPlan(), echo)
    for number in range(60):
        network.send(1 + number % 5, 1 + (number + 1) % 5, number)
    return _timed(kernel)


def _timed(kernel: Kernel) -> float:
    begin_ns = time.process_time_ns()
    kernel.run(NEVER_US, STEPS)
    return (time.process_time_ns() - begin_ns) / 1000 / kernel.steps
