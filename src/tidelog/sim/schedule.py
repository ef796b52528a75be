"""How the faults of a run are drawn.

Swarm testing: each seed switches on a random subset of the kinds, because a run with all of
them at once never lives long enough to reach the states that only two or three produce. The
pace is drawn too, from a fault now and then to several a second.
"""

import random
from collections.abc import Sequence

from tidelog.sim.faults import (
    DRAWN_APART,
    HEAVY,
    KINDS,
    KINDS_OF_BYTES,
    Fault,
    Terrain,
    draw_fault,
    log_uniform,
    makes_sense,
)
from tidelog.sim.plots import PLOTS, Setting


def draw_schedule(
    entropy: random.Random,
    terrain: Terrain,
    *,
    from_ms: int,
    until_ms: int,
    focus: Sequence[str] = (),
) -> tuple[Fault, ...]:
    """A swarm of faults between the two times, in order of time; of those in `focus` if any."""
    kinds = draw_kinds(entropy, terrain)
    kinds = [kind for kind in focus if makes_sense(kind, terrain)] or kinds
    weights = [(PLOTS[kind] if kind in PLOTS else KINDS[kind]).weight for kind in kinds]
    mean_gap_ms = log_uniform(entropy, 150, 2_500)
    faults: list[Fault] = []
    at_ms = from_ms
    while True:
        at_ms += 1 + round(entropy.expovariate(1.0) * mean_gap_ms)
        if at_ms >= until_ms:
            break
        kind = entropy.choices(kinds, weights)[0]
        if kind in PLOTS:
            faults += draw_plot(entropy, terrain, kind, at_ms)
        else:
            faults.append(draw_fault(entropy, terrain, kind, at_ms))
        if kind in PLOTS or kind in HEAVY:
            # A cluster that is always on the floor shows nothing: let it try to get up.
            at_ms += entropy.randrange(2 * terrain.session_timeout_ms)
    # Dropped only after all were drawn: both depths have the same schedule otherwise.
    possible = (fault for fault in faults if terrain.byte_depth or fault.kind not in KINDS_OF_BYTES)
    return tuple(sorted((f for f in possible if f.at_ms < until_ms), key=lambda fault: fault.at_ms))


def draw_disk_faults(
    entropy: random.Random, terrain: Terrain, *, from_ms: int, until_ms: int
) -> tuple[Fault, ...]:
    """What happens to the disks of a run at byte depth, besides its schedule."""
    chosen = entropy.sample(KINDS_OF_BYTES, entropy.choice((0, 1, 1, 2, 3)))
    kinds = [kind for kind in KINDS_OF_BYTES if kind in chosen]
    mean_gap_ms = log_uniform(entropy, 500, 5_000)
    faults: list[Fault] = []
    at_ms = from_ms
    while kinds and terrain.byte_depth:
        at_ms += 1 + round(entropy.expovariate(1.0) * mean_gap_ms)
        if at_ms >= until_ms:
            break
        faults.append(draw_fault(entropy, terrain, entropy.choice(kinds), at_ms))
    return tuple(faults)


def draw_resets(
    entropy: random.Random, terrain: Terrain, *, from_ms: int, until_ms: int
) -> tuple[Fault, ...]:
    """Connections that close for no reason, in a run whose nodes draw conclusions from it."""
    mean_gap_ms = entropy.choice((300, 1_000, 3_000))
    faults: list[Fault] = []
    at_ms = from_ms
    while makes_sense("connection_reset", terrain):
        at_ms += 1 + round(entropy.expovariate(1.0) * mean_gap_ms)
        if at_ms >= until_ms:
            break
        faults.append(draw_fault(entropy, terrain, "connection_reset", at_ms))
    return tuple(faults)


def draw_kinds(entropy: random.Random, terrain: Terrain) -> list[str]:
    """The subset of kinds and plots switched on for this seed, in their order."""
    everything = [kind for kind in (*KINDS, *PLOTS) if kind not in DRAWN_APART]
    possible = [kind for kind in everything if makes_sense(kind, terrain)]
    wanted = entropy.choice((1, 2, 3, 4, 6, 9, len(possible)))
    chosen = entropy.sample(possible, min(wanted, len(possible)))
    return [kind for kind in possible if kind in chosen]


def draw_plot(entropy: random.Random, terrain: Terrain, name: str, at_ms: int) -> list[Fault]:
    topic = entropy.randrange(len(terrain.partitions))
    setting = Setting(
        at_ms,
        topic,
        partition=entropy.randrange(terrain.partitions[topic]),
        node=entropy.randint(1, terrain.brokers),
        brokers=terrain.brokers,
        replication_factor=terrain.replication_factors[topic],
        session_timeout_ms=terrain.session_timeout_ms,
        replica_lag_time_max_ms=terrain.replica_lag_time_max_ms,
    )
    return PLOTS[name].draw(entropy, setting)
