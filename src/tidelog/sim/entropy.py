"""Chance, drawn from the seed.

Every part of a run has its own named stream, so that one more draw in one part (a message
more, a knob more) does not reshuffle what every other part draws.
"""

import random
import zlib


def stream(seed: int, name: str) -> random.Random:
    """The stream of random numbers called `name` in the run of this seed."""
    assert seed >= 0, f"seed {seed} is negative"
    return random.Random((seed << 32) | zlib.crc32(name.encode()))


class SeededEntropy:
    """The `Entropy` port of one simulated node: ids, jitter and timeouts from its stream."""

    __slots__ = ("_below", "_bits")

    def __init__(self, seed: int, name: str) -> None:
        source = stream(seed, name)
        self._bits = source.getrandbits
        self._below = source.randrange

    def below(self, limit: int) -> int:
        return self._below(limit)

    def uuid(self) -> bytes:
        return self._bits(128).to_bytes(16, "big")

    def draw_timeout(self, timeout_ms: int) -> int:
        """Between one and two timeouts: what the quorum asks for before an election."""
        return timeout_ms + self._below(timeout_ms)
