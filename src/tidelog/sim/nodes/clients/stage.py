"""What all clients of a run share."""

from random import Random

from tidelog.sim.entropy import stream
from tidelog.sim.nodes.clients.history import History


class Stage:
    """Where they write down what they see, and when they have to come to an end."""

    __slots__ = ("_seed", "history", "stopped", "tides_partitions")

    def __init__(self, seed: int, tides_partitions: int) -> None:
        self._seed = seed
        self.history = History()
        self.tides_partitions = tides_partitions
        self.stopped = False

    def stream(self, name: str) -> Random:
        """What the client of this name draws."""
        return stream(self._seed, f"client {name}")
