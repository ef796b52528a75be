"""Faults: the kinds there are, and how one of them is drawn.

What `nodes` and `args` mean for each kind is said in `KINDS`. A fault may be aimed at a role
("the leader of this partition, whoever that is then"); the world resolves it when it happens
and falls back to `nodes` when nobody has the role. `topic` is an index into the plan's topics.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple


class Fault(NamedTuple):
    """One disturbance. Plain values only: it travels in replay files."""

    at_ms: int
    kind: str
    nodes: tuple[int, ...] = ()
    duration_ms: int = 0
    args: tuple[int, ...] = ()
    aim: str = ""
    """One of AIMS: who is hit, decided when it happens. Empty: `nodes` as they stand."""
    topic: int = 0
    partition: int = 0


class Kind(NamedTuple):
    weight: int
    """How often, beside the others that are switched on."""
    meaning: str


AIMS: Final = ("leader", "follower", "outsider", "controller")
"""The leader, an ISR follower, or a replica outside the ISR of (topic, partition); the active
controller."""

KINDS: Final[Mapping[str, Kind]] = {
    "crash": Kind(10, "process dies, page cache kept; starts after duration"),
    "power_loss": Kind(6, "as crash, unsynced tail lost; args=(permille of it kept,)"),
    "power_loss_all": Kind(2, "all nodes at once; args=(permille kept,); starts one by one"),
    "pause": Kind(6, "no events for the node for duration, then all at once"),
    "clean_stop": Kind(5, "controlled shutdown, then down for duration"),
    "isolate": Kind(8, "node cut off from all nodes; args=(1 if from clients too,)"),
    "split": Kind(4, "nodes = one side, cut off from the other nodes"),
    "one_way": Kind(5, "messages from nodes[0] to nodes[1] vanish"),
    "controller_cut": Kind(5, "node cut off from the voters, not from the other brokers"),
    "client_cut": Kind(3, "no client reaches the node"),
    "clog": Kind(4, "messages from nodes[0] to nodes[1] slower; args=(factor,)"),
    "slow_disk": Kind(4, "a sync of the node takes args[0] ms"),
    "wipe": Kind(2, "node comes back after duration with an empty disk and the same id"),
    "clock_jump": Kind(2, "the wall clock of the node jumps by args[0] ms"),
    "reassign": Kind(4, "partition moves to the replicas in nodes"),
    "min_isr_change": Kind(3, "min.insync.replicas of the topic becomes args[0]"),
    "preferred_election": Kind(3, "asked for the partition"),
    "unclean_election": Kind(1, "asked for as soon as the partition is offline within duration"),
    "trim": Kind(2, "records of the partition are deleted; args=(permille of the committed,)"),
    "create_topic": Kind(2, "args=(ordinal, partitions, replication factor, min ISR)"),
    "delete_topic": Kind(1, "the topic is deleted and created again under its name"),
    "roll_restart": Kind(2, "nodes stop cleanly in this order, each down for duration"),
    "late_proposals": Kind(
        6,
        "ISR proposals of the node arrive args[0] ms late; args[1]=1: in time, but copies of them"
        " and of heartbeats come late",
    ),
    "late_fetches": Kind(3, "copies of the fetches of the node arrive args[0] ms late, too"),
    "lost_answers": Kind(
        1, "messages of the node to whoever leads partition args[0] of __transaction_state vanish"
    ),
    "connection_reset": Kind(4, "every connection of the node closes, and nothing else happens"),
    "bit_flip": Kind(2, "byte depth; args=(permille of the log, bit): damage at rest"),
    "disk_full": Kind(3, "byte depth; args=(bytes of the first write that still fit,)"),
    "sync_error": Kind(2, "byte depth; one sync fails after args[0] good ones"),
    "segment_loss": Kind(2, "byte depth; the file of the first segment of a log vanishes"),
}

KINDS_OF_BYTES: Final = ("bit_flip", "disk_full", "sync_error", "segment_loss")
"""They happen to disks with bytes on them, and only there."""

DRAWN_APART: Final = (
    "disk_full",
    "sync_error",
    "segment_loss",
    "connection_reset",
    "lost_answers",
)
"""From streams of their own, so that the schedule is otherwise the same in runs without them."""

KINDS_FOR_ONE_BROKER: Final = (
    "crash",
    "power_loss",
    "clean_stop",
    "pause",
    "preferred_election",
    "min_isr_change",
    "reassign",
    "slow_disk",
    "clock_jump",
    "trim",
    "create_topic",
    "bit_flip",
    "disk_full",
    "sync_error",
    "segment_loss",
)
"""The others need somebody to be cut off from, or leave nothing to expect."""


class Terrain(NamedTuple):
    """What the faults of a run fall upon."""

    brokers: int
    voters: int
    partitions: tuple[int, ...]
    """Number of partitions of each topic."""
    replication_factors: tuple[int, ...]
    session_timeout_ms: int
    replica_lag_time_max_ms: int
    byte_depth: bool


def draw_fault(entropy: random.Random, terrain: Terrain, kind: str, at_ms: int) -> Fault:
    """One fault of this kind with everything about it drawn."""
    topic = entropy.randrange(len(terrain.partitions))
    partition = entropy.randrange(terrain.partitions[topic])
    # A crash that outlives the session is fenced; one that does not is T15 of replication.md.
    duration_ms = log_uniform(entropy, 10, 4 * terrain.session_timeout_ms)
    return Fault(
        at_ms,
        kind,
        nodes=_draw_nodes(entropy, terrain, kind, topic),
        duration_ms=duration_ms if kind not in _INSTANT else 0,
        args=_draw_args(entropy, terrain, kind),
        aim=entropy.choice(("", *AIMS)) if kind in _AIMED else "",
        topic=topic,
        partition=partition,
    )


_INSTANT: Final = (
    "clock_jump",
    "reassign",
    "min_isr_change",
    "preferred_election",
    "trim",
    "create_topic",
    "delete_topic",
    "bit_flip",
    "sync_error",
    "segment_loss",
)
HEAVY: Final = ("power_loss_all", "wipe", "roll_restart", "delete_topic", "unclean_election")
_OF_TOPICS: Final = (
    "min_isr_change",
    "preferred_election",
    "unclean_election",
    "trim",
    "create_topic",
    "delete_topic",
)
_AIMED: Final = (
    "crash",
    "power_loss",
    "pause",
    "clean_stop",
    "isolate",
    "controller_cut",
    "client_cut",
    "slow_disk",
    "wipe",
    "late_proposals",
    "late_fetches",
    "bit_flip",
    "disk_full",
    "sync_error",
    "segment_loss",
)


def concerns_topic(fault: Fault) -> bool:
    """Does it matter which topic and partition it names?"""
    about_data = fault.kind in _OF_TOPICS or fault.kind in ("reassign", "bit_flip", "segment_loss")
    return about_data or fault.aim in ("leader", "follower", "outsider")


def makes_sense(kind: str, terrain: Terrain) -> bool:
    return terrain.brokers > 1 or kind in KINDS_FOR_ONE_BROKER


def _draw_nodes(entropy: random.Random, terrain: Terrain, kind: str, topic: int) -> tuple[int, ...]:
    everyone = range(1, terrain.brokers + 1)
    if kind == "power_loss_all":
        return tuple(everyone)
    if kind == "roll_restart":
        return tuple(entropy.sample(everyone, terrain.brokers))
    if kind == "split":
        return tuple(sorted(entropy.sample(everyone, entropy.randint(1, terrain.brokers - 1))))
    if kind in ("one_way", "clog"):
        return tuple(entropy.sample(everyone, 2))
    if kind == "reassign":
        factor = min(terrain.replication_factors[topic], terrain.brokers)
        # Mostly the same number of replicas; now and then one more or one less.
        factor = min(terrain.brokers, max(1, factor + entropy.choice((0, 0, 0, 1, -1))))
        return tuple(entropy.sample(everyone, factor))
    if kind in _OF_TOPICS:
        return ()
    return (entropy.choice(everyone),)


def _draw_args(entropy: random.Random, terrain: Terrain, kind: str) -> tuple[int, ...]:
    if kind in ("power_loss", "power_loss_all"):
        return (entropy.choice((0, 0, 0, 500, 900, entropy.randint(0, 1000))),)
    if kind == "isolate":
        return (entropy.randint(0, 1),)
    if kind == "clog":
        return (entropy.choice((5, 20, 100)),)
    if kind == "slow_disk":
        return (log_uniform(entropy, 5, 3_000),)
    if kind == "clock_jump":
        return (entropy.choice((-3_600_000, -60_000, -1_000, 1_000, 60_000, 3_600_000)),)
    if kind == "min_isr_change":
        return (entropy.randint(1, min(3, terrain.brokers)),)
    if kind == "create_topic":
        factor = entropy.randint(1, terrain.brokers)
        return (
            entropy.randrange(1_000),
            entropy.randint(1, 2),
            factor,
            entropy.randint(1, factor),
        )
    if kind == "trim":
        return (entropy.choice((100, 500, 1000)),)
    if kind == "late_proposals":
        return (log_uniform(entropy, 20, 4 * terrain.session_timeout_ms), entropy.randint(0, 1))
    if kind == "late_fetches":
        return (log_uniform(entropy, 20, 4 * terrain.session_timeout_ms),)
    if kind == "bit_flip":
        return (entropy.randint(0, 999), entropy.randrange(8))
    if kind == "disk_full":
        return (entropy.choice((0, 0, 1, 40, 200)),)
    if kind == "sync_error":
        return (entropy.choice((0, 1, 3, 10)),)
    return ()


def log_uniform(entropy: random.Random, low: int, high: int) -> int:
    """Between the two, every order of magnitude equally likely."""
    assert 0 < low <= high, f"range {low}..{high}"
    ratio: float = (high / low) ** entropy.random()
    return min(high, round(low * ratio))


def count_kinds(faults: Sequence[Fault]) -> dict[str, int]:
    """How many of each kind, in the order of `KINDS`."""
    counts = dict.fromkeys(KINDS, 0)
    for fault in faults:
        counts[fault.kind] += 1
    return {kind: count for kind, count in counts.items() if count}
