"""The part of a plan that is about groups and transactions: internal topics and their clients.

Drawn from streams of its own, so that everything else in a plan is the same with and without it.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from tidelog.sim.entropy import stream
from tidelog.sim.faults import Fault, Terrain, log_uniform
from tidelog.sim.topic_plan import TopicPlan

OFFSETS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
INPUTS: Final = "inputs"
"""What groups read."""
OUTPUTS: Final = "outputs"
"""What was read from `inputs`, record by record, written in transactions with the offsets."""
TRANSFERS: Final = "transfers"
"""Written by producers whose transactions span partitions."""

CLASSIC: Final = "classic"
COOPERATIVE: Final = "cooperative"
CONSUMER: Final = "consumer"
PROTOCOLS: Final = (CLASSIC, COOPERATIVE, CONSUMER)

OWN_ASSIGNMENT: Final = ""
"""A processor that takes its partitions by itself, as a stream task of old did."""

SHARE: Final = 0.5
"""Of the runs have coordinators."""


@dataclass(frozen=True, slots=True)
class WriterPlan:
    """Somebody who writes to several partitions in one transaction, and aborts at times."""

    version: int
    """1: partitions are added first, the epoch stays. 2: KIP-890."""
    timeout_ms: int
    interval_ms: int
    batches: int
    """At most so many in a transaction."""
    patience: int
    """Time-outs of a request until it gives one up: a batch may arrive after that."""
    mischief: int
    """In percent: how often it aborts, vanishes, is late, or meets its successor."""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    protocol: str
    members: int
    session_timeout_ms: int
    rebalance_timeout_ms: int
    commit_every: int
    """Polls between two commits."""
    mischief: int
    """In percent: how often a member leaves, vanishes, or sleeps past its session."""


@dataclass(frozen=True, slots=True)
class ProcessorPlan:
    """Read, process, write: exactly once."""

    protocol: str
    """Of the group that assigns the partitions; OWN_ASSIGNMENT without one."""
    instances: int
    version: int
    session_timeout_ms: int
    timeout_ms: int
    patience: int
    mischief: int


@dataclass(frozen=True, slots=True)
class CoordinationPlan:
    topics: tuple[TopicPlan, ...]
    loading_batches: int
    """A new coordinator reads so many batches of its log at a time; 0 for all at once."""
    loading_delay_us: int
    rebalance_delay_ms: int
    session_timeout_ms: int
    """Of members of the consumer protocol; those of the classic one bring theirs."""
    input_interval_ms: int
    writers: tuple[WriterPlan, ...]
    groups: tuple[GroupPlan, ...]
    processors: tuple[ProcessorPlan, ...]

    def position_of(self, topic: str) -> int | None:
        for position, each in enumerate(self.topics):
            if each.name == topic:
                return position
        return None

    def headline(self) -> str:
        parts = [f"{len(self.writers)} transactional"] if self.writers else []
        parts += [f"{group.protocol} group of {group.members}" for group in self.groups]
        parts += [f"{each.instances} exactly-once" for each in self.processors]
        return ", ".join(parts)


def draw_coordination(
    seed: int, terrain: Terrain, round_trip_ms: int, *, transactions: bool = False
) -> CoordinationPlan | None:
    """Half of the runs have none. Asked for, there are transactions and nothing else: such whose
    epoch stays, for they have no other protection from late messages."""
    entropy = stream(seed, "coordination")
    if entropy.random() >= SHARE and not transactions:
        return None
    draw_session = _timeouts(entropy, round_trip_ms, 12)
    draw_timeout = _timeouts(entropy, round_trip_ms, 60)
    writers = tuple(
        _draw_writer(entropy, draw_timeout) for _ in range(entropy.choice((0, 1, 1, 2)))
    )
    groups = tuple(_draw_group(entropy, draw_session) for _ in range(entropy.choice((0, 1, 1, 2))))
    processors = tuple(
        _draw_processor(entropy, draw_timeout) for _ in range(entropy.choice((0, 1, 1)))
    )
    if not (writers or groups or processors):
        writers = (*writers, _draw_writer(entropy, draw_timeout))
    plan = CoordinationPlan(
        topics=_draw_topics(entropy, terrain.brokers),
        loading_batches=entropy.choice((0, 0, 1, 5, 50)),
        loading_delay_us=entropy.choice((0, 1_000, 20_000)),
        rebalance_delay_ms=entropy.choice((0, 0, 100)),
        session_timeout_ms=draw_timeout(),
        input_interval_ms=entropy.choice((20, 50, 200)),
        writers=writers,
        groups=groups,
        processors=processors,
    )
    if transactions:
        writer = _draw_writer(entropy, draw_timeout)
        writer = replace(writer, version=1, interval_ms=1, patience=40, mischief=2)
        plan = replace(plan, writers=(writer, writer), groups=(), processors=())
    return without_idle_topics(plan)


def _timeouts(entropy: random.Random, round_trip_ms: int, round_trips: int) -> Callable[[], int]:
    """They end now and then, but not before so many round trips."""
    return lambda: max(round_trips * round_trip_ms, entropy.choice((300, 600, 1_500, 4_000)))


def _draw_writer(entropy: random.Random, draw_timeout: Callable[[], int]) -> WriterPlan:
    return WriterPlan(
        version=entropy.choice((1, 2)),
        timeout_ms=draw_timeout(),
        interval_ms=entropy.choice((1, 10, 50)),
        batches=entropy.choice((1, 2, 4)),
        patience=entropy.choice((1, 2, 20)),
        mischief=entropy.choice((5, 20, 50)),
    )


def _draw_group(entropy: random.Random, draw_session: Callable[[], int]) -> GroupPlan:
    session_ms = draw_session()
    return GroupPlan(
        protocol=entropy.choice(PROTOCOLS),
        members=entropy.choice((1, 2, 3)),
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=entropy.choice((session_ms, 2 * session_ms)),
        commit_every=entropy.choice((1, 1, 3)),
        mischief=entropy.choice((1, 3, 10)),
    )


def _draw_processor(entropy: random.Random, draw_timeout: Callable[[], int]) -> ProcessorPlan:
    return ProcessorPlan(
        protocol=entropy.choice((OWN_ASSIGNMENT, *PROTOCOLS)),
        instances=entropy.choice((1, 2)),
        version=entropy.choice((1, 2)),
        # It sends no heartbeat before a transaction is done.
        session_timeout_ms=draw_timeout(),
        timeout_ms=draw_timeout(),
        patience=entropy.choice((1, 2, 20)),
        mischief=entropy.choice((2, 10, 25)),
    )


def _draw_topics(entropy: random.Random, brokers: int) -> tuple[TopicPlan, ...]:
    factor = min(brokers, entropy.choice((1, 2, 3, 3, 3)))
    min_isr = entropy.choice((1, max(1, factor - 1)))
    return tuple(
        TopicPlan(name, entropy.choice((1, 1, 2, 3)), factor, min_isr, unclean=False)
        for name in (OFFSETS, TRANSACTIONS, INPUTS, OUTPUTS, TRANSFERS)
    )


def without_idle_topics(plan: CoordinationPlan) -> CoordinationPlan:
    """Topics that none of its clients uses are not created."""
    used = []
    if plan.groups or plan.processors:
        used += [OFFSETS, INPUTS]
    if plan.processors:
        used += [OUTPUTS]
    if plan.writers:
        used += [TRANSFERS]
    if plan.writers or plan.processors:
        used += [TRANSACTIONS]
    return replace(plan, topics=tuple(topic for topic in plan.topics if topic.name in used))


# -- faults that hit coordinators

MOVES: Final = ("preferred_election",)
LASTING: Final = ("pause", "isolate", "controller_cut")
"""Whoever they hit goes on to believe that it coordinates, when somebody else does."""
KINDS: Final = ("crash", "clean_stop", "client_cut", *LASTING, *MOVES)
KINDS_FOR_ONE_BROKER: Final = ("crash", "pause", "clean_stop")
STALE_COORDINATOR: Final = "stale_coordinator"
"""A plot, see below; a mutant may have it as its focus."""
STALE_SHARE: Final = 35
"""In percent of the faults of coordinators."""


def draw_coordinator_faults(
    seed: int,
    plan: CoordinationPlan,
    terrain: Terrain,
    between_ms: tuple[int, int],
    *,
    stale_share: int = STALE_SHARE,
) -> tuple[Fault, ...]:
    """Whoever coordinates goes away, or only believes to coordinate. `topic` counts on behind
    the topics of the plan."""
    entropy = stream(seed, "coordinator faults")
    mean_gap_ms = log_uniform(entropy, 400, 4_000)
    may_be_stale = terrain.brokers > 1 and plan.position_of(TRANSACTIONS) is not None
    faults: list[Fault] = []
    at_ms, until_ms = between_ms
    while True:
        at_ms += 1 + round(entropy.expovariate(1.0) * mean_gap_ms)
        if at_ms >= until_ms:
            return tuple(fault for fault in faults if fault.at_ms < until_ms)
        if may_be_stale and entropy.randrange(100) < stale_share:
            faults += _draw_stale_coordinator(entropy, plan, terrain, at_ms)
            at_ms += 3 * terrain.session_timeout_ms
        else:
            faults.append(_draw_fault(entropy, plan, terrain, at_ms))


def _draw_stale_coordinator(
    entropy: random.Random, plan: CoordinationPlan, terrain: Terrain, at_ms: int
) -> list[Fault]:
    """A plot: whoever sends a marker does not hear that it was written, and sends it again; then
    it stands still for so long that another one takes over, and when it goes on it does not know
    that yet."""
    written = [n for n, topic in enumerate(plan.topics) if topic.name in (TRANSFERS, OUTPUTS)]
    position, coordinator = entropy.choice(written), plan.position_of(TRANSACTIONS)
    assert coordinator is not None, "a plot without transactions"
    partition = entropy.randrange(plan.topics[coordinator].partitions)
    session_ms = terrain.session_timeout_ms
    first = len(terrain.partitions)
    deaf = Fault(
        at_ms,
        "lost_answers",
        nodes=(entropy.randint(1, terrain.brokers),),
        duration_ms=2 * session_ms,
        args=(partition,),
        aim="leader",
        topic=first + position,
        partition=entropy.randrange(plan.topics[position].partitions),
    )
    still = Fault(
        at_ms + entropy.randint(20, 500),
        "pause",
        nodes=(entropy.randint(1, terrain.brokers),),
        duration_ms=entropy.randint(session_ms * 6 // 5, 3 * session_ms),
        aim="leader",
        topic=first + coordinator,
        partition=partition,
    )
    return [deaf, still]


def _draw_fault(
    entropy: random.Random, plan: CoordinationPlan, terrain: Terrain, at_ms: int
) -> Fault:
    kind = entropy.choice(KINDS if terrain.brokers > 1 else KINDS_FOR_ONE_BROKER)
    position = entropy.randrange(len(plan.topics))
    internal = [n for n, topic in enumerate(plan.topics) if topic.name in (OFFSETS, TRANSACTIONS)]
    if entropy.random() < 0.7:
        position = entropy.choice(internal)
    session_ms = terrain.session_timeout_ms
    duration_ms = log_uniform(entropy, 10, 4 * session_ms)
    if kind in LASTING and entropy.random() < 0.5:
        duration_ms = entropy.randint(session_ms, 3 * session_ms)
    return Fault(
        at_ms,
        kind,
        nodes=() if kind in MOVES else (entropy.randint(1, terrain.brokers),),
        duration_ms=0 if kind in MOVES else duration_ms,
        args=(entropy.randint(0, 1),) if kind == "isolate" else (),
        aim="" if kind in MOVES else "leader",
        topic=len(terrain.partitions) + position,
        partition=entropy.randrange(plan.topics[position].partitions),
    )


def from_document(document: dict[str, Any] | None) -> CoordinationPlan | None:
    """What `dataclasses.asdict` made of it."""
    if document is None:
        return None
    values = dict(document)
    for name, kind in _LISTS.items():
        values[name] = tuple(kind(**each) for each in values[name])
    return CoordinationPlan(**values)


_LISTS: Final[dict[str, Any]] = {
    "topics": TopicPlan,
    "writers": WriterPlan,
    "groups": GroupPlan,
    "processors": ProcessorPlan,
}
