"""The faults of a whole-node run, drawn from its seed.

Each seed switches on some kinds of faults and leaves others out: with all of them at once a
cluster never lives long enough to get into interesting trouble.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from tidelog.sim.entropy import stream
from tidelog.sim.nodes.fault_kinds import (
    AIMED,
    AIMS,
    ALL_AT_ONCE,
    ALL_NODES,
    DRAWN_APART,
    KINDS,
    PARTITIONS,
    NodeFault,
)

SHORT_MS: Final = (50, 600)
LONG_MS: Final = (500, 5_000)
LASTING_MS: Final = (5_000, 15_000)
"""Longer than any session."""


def draw_faults(
    entropy: Random, nodes: int, calm_ms: int, chaos_ms: int, focus: Sequence[str]
) -> tuple[NodeFault, ...]:
    """In the order of their times. `focus` names kinds; any mixture without it."""
    usual = [kind for kind in KINDS if kind not in DRAWN_APART]
    drawn = [kind for kind in usual if entropy.random() < 0.3] or ["kill"]
    kinds = list(focus) or drawn
    weights = [KINDS[kind].weight for kind in kinds]
    pace_ms = entropy.choice((300, 800, 2_000, 5_000))
    faults = []
    at_ms = calm_ms
    while at_ms < calm_ms + chaos_ms:
        at_ms += 50 + entropy.randrange(pace_ms)
        faults.append(_draw_fault(entropy, nodes, entropy.choices(kinds, weights)[0], at_ms))
    return tuple(sorted(faults))


def draw_apart(seed: int, nodes: int, calm_ms: int, chaos_ms: int) -> list[NodeFault]:
    """A few of the kinds that have streams of their own, each in one run of six."""
    faults = []
    for kind in DRAWN_APART:
        entropy = stream(seed, f"faults of kind {kind}")
        if entropy.random() < 1 / 6:
            times_ms = [calm_ms + entropy.randrange(chaos_ms) for _ in range(entropy.randint(1, 5))]
            faults += [_draw_fault(entropy, nodes, kind, at_ms) for at_ms in times_ms]
    return faults


def _draw_fault(entropy: Random, nodes: int, kind: str, at_ms: int) -> NodeFault:
    node = entropy.randrange(1, nodes + 1)
    others = [each for each in range(1, nodes + 1) if each != node] or [node]
    if kind in ALL_AT_ONCE and entropy.random() < 0.05:
        node = ALL_NODES
    aimed = kind in AIMED and node != ALL_NODES and entropy.random() < 0.5
    lasts_ms = entropy.choices((SHORT_MS, LONG_MS, LASTING_MS), (8, 8, 1))[0]
    return NodeFault(
        at_ms,
        kind,
        node,
        entropy.choice(others),
        entropy.randrange(*lasts_ms),
        aim=entropy.choice(AIMS) if aimed else "",
        partition=entropy.randrange(PARTITIONS),
        amount=entropy.choice(KINDS[kind].amounts or (0,)),
    )
