"""The faults of a whole-node run, drawn from its seed.

Each seed switches on some kinds of faults and leaves others out: with all of them at once a
cluster never lives long enough to get into interesting trouble. Plots are drawn beside them.
"""

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from tidelog.sim.nodes.fault_kinds import (
    AIMED,
    AIMS,
    ALL_AT_ONCE,
    ALL_NODES,
    KINDS,
    PARTITIONS,
    NodeFault,
)
from tidelog.sim.nodes.fault_plots import PLOTS, draw_plot

SHORT_MS: Final = (50, 600)
LONG_MS: Final = (500, 5_000)
LASTING_MS: Final = (5_000, 15_000)
"""Longer than any session."""
PLOTS_AT_MOST: Final = 3
SESSION_MS: Final = 4_000


class Terrain(NamedTuple):
    """What faults fall upon, and when."""

    nodes: int
    begin_ms: int
    duration_ms: int
    session_ms: int


def draw_faults(
    entropy: Random,
    nodes: int,
    calm_ms: int,
    chaos_ms: int,
    focus: Sequence[str],
    *,
    session_ms: int = SESSION_MS,
) -> tuple[NodeFault, ...]:
    """In the order of their times. `focus` names kinds and plots; any mixture without it."""
    drawn = [kind for kind in KINDS if entropy.random() < 0.3] or ["kill"]
    kinds = [kind for kind in focus or drawn if kind in KINDS]
    terrain = Terrain(nodes, calm_ms, chaos_ms, session_ms)
    faults = _draw_plots(entropy, terrain, focus)
    weights = [KINDS[kind].weight for kind in kinds]
    # Beside plots there is less of everything else: it would only disturb them.
    pace_ms = entropy.choice((300, 800, 2_000)) * (3 if faults else 1)
    at_ms = calm_ms
    while kinds and at_ms < calm_ms + chaos_ms:
        at_ms += 50 + entropy.randrange(pace_ms)
        faults.append(_draw_fault(entropy, nodes, entropy.choices(kinds, weights)[0], at_ms))
    return tuple(sorted(faults))


def _draw_plots(entropy: Random, terrain: Terrain, focus: Sequence[str]) -> list[NodeFault]:
    """Half of all runs have some. A run that names some has as many as may be."""
    plots = [plot for plot in focus or PLOTS if plot in PLOTS]
    count = PLOTS_AT_MOST if focus else entropy.choice((0, 0, 0, 1, 2, PLOTS_AT_MOST))
    if not plots or terrain.nodes < 2:
        return []
    faults: list[NodeFault] = []
    for name in entropy.choices(plots, [PLOTS[plot].weight for plot in plots], k=count):
        after_ms = entropy.randrange(max(1, terrain.duration_ms - terrain.session_ms))
        at_ms = terrain.begin_ms + after_ms
        faults += draw_plot(name, entropy, at_ms, terrain.nodes, terrain.session_ms)
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
