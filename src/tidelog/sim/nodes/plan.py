"""What happens in one whole-node run, drawn from its seed.

Each seed switches on some kinds of faults and leaves others out: with all of them at once a
cluster never lives long enough to get into interesting trouble.
"""

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from tidelog.sim.entropy import stream

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


class NodePlan(NamedTuple):
    seed: int
    brokers: int
    partitions: int
    writers: int
    pause_ms_max: int
    """Between two writes of a writer."""
    settings: tuple[tuple[str, str], ...]
    faults: tuple[NodeFault, ...]
    calm_ms: int
    chaos_ms: int

    def headline(self) -> str:
        counts: dict[str, int] = {}
        for fault in self.faults:
            counts[fault.kind] = counts.get(fault.kind, 0) + 1
        told = ", ".join(f"{kind} {number}" for kind, number in sorted(counts.items()))
        return (
            f"seed {self.seed}: {self.brokers} whole nodes, {self.partitions} partitions, "
            f"{self.writers} writers, {self.chaos_ms / 1000:.0f} s of faults: {told}"
        )


def draw_node_plan(seed: int, focus: Sequence[str] = ()) -> NodePlan:
    """`focus` names the kinds of faults; any mixture without it."""
    entropy = stream(seed, "plan of whole nodes")
    brokers = entropy.choice((3, 3, 3, 5))
    chaos_ms = entropy.randrange(5_000, 20_000)
    calm_ms = 4_000
    return NodePlan(
        seed=seed,
        brokers=brokers,
        partitions=entropy.choice((1, 3, 8, 16, 40)),
        writers=entropy.randrange(1, 4),
        pause_ms_max=entropy.choice((5, 20, 100)),
        settings=_draw_settings(entropy),
        faults=_draw_faults(entropy, brokers, calm_ms, chaos_ms, focus),
        calm_ms=calm_ms,
        chaos_ms=chaos_ms,
    )


def _draw_settings(entropy: Random) -> tuple[tuple[str, str], ...]:
    settings = {
        "log.segment.bytes": entropy.choice(("1048576", "1073741824")),
        "auto.leader.rebalance.enable": entropy.choice(("true", "false")),
    }
    return tuple(sorted(settings.items()))


def _draw_faults(
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
