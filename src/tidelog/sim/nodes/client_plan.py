"""The clients of a whole-node run, drawn from its seed."""

from typing import NamedTuple

from tidelog.sim.entropy import stream


class ClientPlan(NamedTuple):
    writers: int
    pause_ms_max: int
    """Between two writes of a writer."""

    def headline(self) -> str:
        return f"{self.writers} writer{'s' if self.writers != 1 else ''}"


def draw_clients(seed: int) -> ClientPlan:
    entropy = stream(seed, "clients of whole nodes")
    return ClientPlan(entropy.randrange(1, 4), entropy.choice((5, 20, 100)))
