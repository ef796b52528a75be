"""The faults of a whole-node run, as plain data, drawn from its seed.

Each seed switches on some kinds of faults and leaves others out: with all of them at once a
cluster never lives long enough to get into interesting trouble.
"""

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

ALL_NODES: Final = 0
"""As the target of a fault."""

KINDS: Final = (
    "kill",
    "power_loss",
    "stop",
    "pause",
    "cut",
    "cut_one_way",
    "isolate",
    "reset",
    "slow_disk",
    "slow_network",
    "elect",
)

BETWEEN_TWO: Final = ("cut", "cut_one_way", "reset")

SHORT_MS: Final = (50, 600)
LONG_MS: Final = (500, 5_000)


class NodeFault(NamedTuple):
    """Something is broken at a time, for a while."""

    at_ms: int
    kind: str
    node: int
    other: int
    """A second node, for faults between two."""
    lasts_ms: int

    def __str__(self) -> str:
        where = "all nodes" if self.node == ALL_NODES else f"node {self.node}"
        other = f" and {self.other}" if self.kind in BETWEEN_TWO else ""
        return f"{self.kind.replace('_', ' ')} {where}{other}, for {self.lasts_ms} ms"


def draw_faults(
    entropy: Random, brokers: int, calm_ms: int, chaos_ms: int, focus: Sequence[str]
) -> tuple[NodeFault, ...]:
    drawn = [kind for kind in KINDS if entropy.random() < 0.5] or ["kill"]
    kinds = list(focus) or drawn
    pace_ms = entropy.choice((300, 800, 2_000))
    faults = []
    at_ms = calm_ms
    while at_ms < calm_ms + chaos_ms:
        at_ms += 50 + entropy.randrange(pace_ms)
        node = entropy.randrange(1, brokers + 1)
        other = entropy.choice([each for each in range(1, brokers + 1) if each != node])
        kind = entropy.choice(kinds)
        if kind in ("kill", "power_loss") and entropy.random() < 0.05:
            node = ALL_NODES
        lasts_ms = entropy.randrange(*(SHORT_MS if entropy.random() < 0.5 else LONG_MS))
        faults.append(NodeFault(at_ms, kind, node, other, lasts_ms))
    return tuple(faults)
