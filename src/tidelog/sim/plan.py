"""Everything one run will do, drawn from its seed before it starts.

A plan is data: the options, the knobs, who produces and consumes what, and every fault with
its time. `run_plan(plan)` draws nothing that is not determined by it, so a plan can be
written to a file, cut down by the shrinker and run again anywhere.

Knobs are drawn at their extremes on purpose (reliability.md §2.2): one record per fetch,
timeouts close to each other, one voter, replication factor 1 and 5.
"""

import random
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Final

from tidelog.sim import coordination_plan
from tidelog.sim.coordination_plan import (
    STALE_COORDINATOR,
    STALE_SHARE,
    CoordinationPlan,
    draw_coordination,
    draw_coordinator_faults,
)
from tidelog.sim.entropy import stream
from tidelog.sim.faults import Fault, Terrain
from tidelog.sim.hints import HintPlan, draw_hint_plan
from tidelog.sim.network import CHANCE_SIZE, NetworkPlan
from tidelog.sim.schedule import draw_disk_faults, draw_resets, draw_schedule
from tidelog.sim.topic_plan import TopicPlan

DEPTHS: Final = ("object", "byte")
NODE_DEPTH: Final = "node"
"""Production nodes (`sim.nodes`), with plans of their own."""
FORMAT: Final = 1
"""Raised when a plan written earlier could no longer be run as it was."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Around brisk values, so that a minute of simulated time holds many elections."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    replica_lag_time_max_ms: int
    replica_fetch_wait_ms: int
    replica_fetch_backoff_ms: int
    request_timeout_ms: int
    produce_timeout_ms: int
    election_timeout_ms: int
    election_backoff_max_ms: int
    quorum_fetch_timeout_ms: int
    quorum_fetch_wait_ms: int
    quorum_request_timeout_ms: int
    quorum_retry_backoff_ms: int
    max_idle_interval_ms: int
    imbalance_check_interval_ms: int
    sync_delay_us_min: int
    sync_delay_us_max: int


@dataclass(frozen=True, slots=True)
class ClockPlan:
    """A node's clock: `wall = offset + monotonic`, and both run at `rate_ppm` of true time."""

    offset_ms: int
    rate_ppm: int


@dataclass(frozen=True, slots=True)
class ProducerPlan:
    topic: int
    """Index into the plan's topics."""
    partitions: tuple[int, ...]
    acks: int
    idempotent: bool
    interval_ms: int
    batch_records: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class ConsumerPlan:
    topic: int
    rack: str
    """Empty: no rack is sent."""
    from_follower: bool
    fetch_wait_ms: int
    max_batches: int
    start_ms: int
    """A consumer that starts late reads what others wrote long ago."""


@dataclass(frozen=True, slots=True)
class Phases:
    """Calm, then chaos; then the two liveness phases may take at most so long each."""

    calm_ms: int
    chaos_ms: int
    core_limit_ms: int
    """A sufficient core is healed: progress is due within this time."""
    drain_limit_ms: int
    """Everything is healed: all replicas are equal within this time."""


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    depth: str
    brokers: int
    voters: int
    """Nodes 1..voters are combined: controller and broker in one process."""
    topics: tuple[TopicPlan, ...]
    elr: bool
    durability: str
    racks: tuple[str, ...]
    """One per broker, or none at all."""
    network: NetworkPlan
    timings: Timings
    clocks: tuple[ClockPlan, ...]
    """One per broker."""
    fetch_max_batches: int
    snapshot_every_records: int
    producers: tuple[ProducerPlan, ...]
    consumers: tuple[ConsumerPlan, ...]
    phases: Phases
    faults: tuple[Fault, ...]
    hints: HintPlan | None = None
    """None: nodes know of each other's death by timeouts only."""
    coordination: CoordinationPlan | None = None
    """None: no groups, no transactions, no internal topics."""

    @property
    def every_topic(self) -> tuple[TopicPlan, ...]:
        """Those of groups and transactions come last."""
        return self.topics + (self.coordination.topics if self.coordination else ())

    @property
    def duration_ms(self) -> int:
        """Until the healing begins."""
        return self.phases.calm_ms + self.phases.chaos_ms

    def headline(self) -> str:
        """The drawn options in one line, printed before a story."""
        partitions = sum(topic.partitions for topic in self.topics)
        loss = 100 * self.network.loss / CHANCE_SIZE
        parts = [
            f"seed {self.seed}",
            f"{self.brokers} broker{'s' if self.brokers > 1 else ''}",
            f"{self.voters} voter{'s' if self.voters > 1 else ''}",
            f"{partitions} partition{'s' if partitions > 1 else ''}",
            self.durability,
            f"ELR {'on' if self.elr else 'off'}",
            f"delay {self.network.delay_us_mean / 1000:g} ms",
            f"loss {loss:.1f} %",
            f"{len(self.faults)} fault{'s' if len(self.faults) != 1 else ''}"
            f" in {self.phases.chaos_ms / 1000:.0f} s",
        ]
        if self.hints is not None:
            parts.insert(-1, "hints")
        if self.coordination is not None:
            parts.insert(-1, self.coordination.headline())
        if self.depth != "object":
            parts.insert(1, f"{self.depth} depth")
        return " · ".join(parts)


def draw_plan(seed: int, *, depth: str = "object", focus: Sequence[str] = ()) -> Plan:
    """The plan of this seed. The same at any depth, but for faults only bytes can have.

    `focus` names the only kinds of fault wanted, to look for something in particular.
    """
    assert depth in DEPTHS, f"depth {depth!r} is none of {DEPTHS}"
    entropy = stream(seed, "plan")
    brokers = entropy.choice((1, 2, 3, 3, 3, 3, 4, 4, 5, 5))
    voters = entropy.choice([count for count in (1, 3, 3, 3, 5) if count <= brokers])
    network = _draw_network(entropy)
    timings = _draw_timings(entropy, network)
    topics = _draw_topics(entropy, brokers)
    racks = _draw_racks(entropy, brokers)
    phases = _draw_phases(entropy, timings)
    terrain = Terrain(
        brokers=brokers,
        voters=voters,
        partitions=tuple(topic.partitions for topic in topics),
        replication_factors=tuple(topic.replication_factor for topic in topics),
        session_timeout_ms=timings.session_timeout_ms,
        replica_lag_time_max_ms=timings.replica_lag_time_max_ms,
        byte_depth=depth == "byte",
    )
    until_ms = phases.calm_ms + phases.chaos_ms
    faults, hints = _draw_hints(seed, terrain, phases, focus)
    coordination, more = _draw_coordination(seed, terrain, phases, network, focus)
    return Plan(
        seed=seed,
        depth=depth,
        brokers=brokers,
        voters=voters,
        topics=topics,
        elr=entropy.random() < 0.85,
        durability=entropy.choice(("fsync", "fsync", "page-cache")),
        racks=racks,
        network=network,
        timings=timings,
        clocks=tuple(_draw_clock(entropy) for _ in range(brokers)),
        fetch_max_batches=entropy.choice((1, 1, 2, 5, 50)),
        snapshot_every_records=entropy.choice((5, 20, 50, 200, 10_000)),
        producers=_draw_producers(entropy, topics),
        consumers=_draw_consumers(entropy, topics, racks, until_ms),
        phases=phases,
        faults=_in_order(_draw_faults(seed, terrain, phases, focus), (*faults, *more)),
        hints=hints,
        coordination=coordination,
    )


def _draw_faults(
    seed: int, terrain: Terrain, phases: Phases, focus: Sequence[str]
) -> tuple[Fault, ...]:
    from_ms, until_ms = phases.calm_ms, phases.calm_ms + phases.chaos_ms
    if STALE_COORDINATOR in focus:
        return ()
    entropy = stream(seed, "faults")
    faults = draw_schedule(entropy, terrain, from_ms=from_ms, until_ms=until_ms, focus=focus)
    if focus or not terrain.byte_depth:
        return faults
    entropy = stream(seed, "disk faults")
    more = draw_disk_faults(entropy, terrain, from_ms=from_ms, until_ms=until_ms)
    return _in_order(faults, more)


def _draw_hints(
    seed: int, terrain: Terrain, phases: Phases, focus: Sequence[str]
) -> tuple[tuple[Fault, ...], HintPlan | None]:
    """From a stream of their own: the rest of a plan is the same with and without hints."""
    entropy = stream(seed, "hints")
    hints = draw_hint_plan(entropy, terrain.session_timeout_ms)
    if hints is None or focus:
        return (), None
    from_ms, until_ms = phases.calm_ms, phases.calm_ms + phases.chaos_ms
    return draw_resets(entropy, terrain, from_ms=from_ms, until_ms=until_ms), hints


def _draw_coordination(
    seed: int, terrain: Terrain, phases: Phases, network: NetworkPlan, focus: Sequence[str]
) -> tuple[CoordinationPlan | None, tuple[Fault, ...]]:
    """Groups and transactions, and the faults that hit their coordinators."""
    from_ms, until_ms = phases.calm_ms, phases.calm_ms + phases.chaos_ms
    plot = STALE_COORDINATOR in focus
    plan = draw_coordination(seed, terrain, _round_trip_ms(network), transactions=plot)
    if plan is None or (focus and not plot):
        return plan, ()
    faults = draw_coordinator_faults(
        seed, plan, terrain, (from_ms, until_ms), stale_share=100 if plot else STALE_SHARE
    )
    return plan, faults


def _in_order(faults: tuple[Fault, ...], more: tuple[Fault, ...]) -> tuple[Fault, ...]:
    return tuple(sorted((*faults, *more), key=lambda fault: fault.at_ms))


def to_json(plan: Plan) -> dict[str, Any]:
    """Plain values, in the order of the fields."""
    document = asdict(plan)
    document["network"] = plan.network._asdict()
    document["faults"] = [fault._asdict() for fault in plan.faults]
    document["hints"] = plan.hints._asdict() if plan.hints is not None else None
    return {"format": FORMAT, **document}


def from_json(document: dict[str, Any]) -> Plan:
    """The plan that `to_json` wrote; ValueError with the reason if it is not one."""
    if document.get("format") != FORMAT:
        raise ValueError(f"plan format {document.get('format')!r}, this version reads {FORMAT}")
    missing = [
        field.name
        for field in fields(Plan)
        if field.name not in document and field.default is MISSING
    ]
    if missing:
        raise ValueError(f"plan without {', '.join(missing)}")
    values = {f.name: document[f.name] for f in fields(Plan) if f.name in document}
    try:
        values["topics"] = tuple(TopicPlan(**topic) for topic in values["topics"])
        values["network"] = NetworkPlan(**values["network"])
        values["timings"] = Timings(**values["timings"])
        values["clocks"] = tuple(ClockPlan(**clock) for clock in values["clocks"])
        values["racks"] = tuple(values["racks"])
        values["producers"] = tuple(
            ProducerPlan(**{**producer, "partitions": tuple(producer["partitions"])})
            for producer in values["producers"]
        )
        values["consumers"] = tuple(ConsumerPlan(**consumer) for consumer in values["consumers"])
        values["phases"] = Phases(**values["phases"])
        values["faults"] = tuple(
            Fault(**{**fault, "nodes": tuple(fault["nodes"]), "args": tuple(fault["args"])})
            for fault in values["faults"]
        )
        hints = values.get("hints")
        values["hints"] = HintPlan(**hints) if hints is not None else None
        values["coordination"] = coordination_plan.from_document(values.get("coordination"))
    except (TypeError, KeyError) as reason:
        raise ValueError(f"plan with a wrong shape: {reason}") from reason
    return Plan(**values)


def _draw_network(entropy: random.Random) -> NetworkPlan:
    mean_us = entropy.choice((200, 500, 1_000, 2_000, 5_000, 20_000))
    return NetworkPlan(
        delay_us_min=max(50, mean_us // 10),
        delay_us_mean=mean_us,
        # A long tail, at times: half a second for one message in a thousand.
        delay_us_max=entropy.choice((mean_us * 4, mean_us * 20, 500_000)),
        loss=_draw_chance(entropy, 0.30),
        duplicate=_draw_chance(entropy, 0.20),
        ordered=entropy.random() < 0.3,
    )


def _draw_chance(entropy: random.Random, largest: float) -> int:
    """Often none, mostly little, at times the largest; in parts of CHANCE_SIZE."""
    share = entropy.choice((0.0, 0.0, 0.005, 0.02, 0.1, largest * entropy.random(), largest))
    return round(min(share, largest) * CHANCE_SIZE)


def _draw_timings(entropy: random.Random, network: NetworkPlan) -> Timings:
    # Nothing can be shorter than a few round trips, or no lease would ever hold.
    round_trip_ms = _round_trip_ms(network)
    session_ms = max(10 * round_trip_ms, entropy.choice((300, 500, 1_000, 2_000)))
    election_ms = max(8 * round_trip_ms, entropy.choice((150, 300, 500, 1_000)))
    quorum_fetch_ms = max(10 * round_trip_ms, entropy.choice((300, 500, 1_000, 2_000)))
    request_ms = max(6 * round_trip_ms, entropy.choice((100, 300, 1_000)))
    sync_us = entropy.choice((0, 100, 1_000, 5_000, 20_000))
    return Timings(
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=max(10, session_ms // entropy.choice((3, 5, 10))),
        # Close to the session timeout at times: two detectors that race.
        replica_lag_time_max_ms=entropy.choice((session_ms // 2, session_ms, 3 * session_ms)),
        replica_fetch_wait_ms=entropy.choice((20, 50, 100, 250)),
        replica_fetch_backoff_ms=entropy.choice((10, 50, 200)),
        request_timeout_ms=request_ms,
        produce_timeout_ms=entropy.choice((200, 1_000, 5_000)),
        election_timeout_ms=election_ms,
        election_backoff_max_ms=entropy.choice((election_ms // 2, election_ms)),
        quorum_fetch_timeout_ms=quorum_fetch_ms,
        quorum_fetch_wait_ms=min(quorum_fetch_ms // 3, entropy.choice((50, 100, 250))),
        quorum_request_timeout_ms=request_ms,
        quorum_retry_backoff_ms=entropy.choice((5, 20, 50)),
        max_idle_interval_ms=entropy.choice((200, 500, 2_000)),
        imbalance_check_interval_ms=entropy.choice((1_000, 5_000, 300_000)),
        sync_delay_us_min=sync_us // 4,
        sync_delay_us_max=sync_us,
    )


def _round_trip_ms(network: NetworkPlan) -> int:
    return max(2, 2 * network.delay_us_mean // 1000)


def _draw_topics(entropy: random.Random, brokers: int) -> tuple[TopicPlan, ...]:
    topics = []
    for index in range(entropy.choice((1, 1, 1, 2))):
        factor = min(brokers, entropy.choice((1, 2, 3, 3, 3, 3, 4, 5)))
        topics.append(
            TopicPlan(
                name=("orders", "payments")[index],
                partitions=entropy.choice((1, 1, 2, 3)),
                replication_factor=factor,
                min_insync_replicas=entropy.choice((1, max(1, factor - 1), max(1, factor - 1))),
                unclean=entropy.random() < 0.06,
            )
        )
    return tuple(topics)


def _draw_racks(entropy: random.Random, brokers: int) -> tuple[str, ...]:
    if entropy.random() < 0.5:
        return ()
    racks = entropy.choice((2, 3))
    return tuple(f"rack-{1 + broker % racks}" for broker in range(brokers))


def _draw_clock(entropy: random.Random) -> ClockPlan:
    return ClockPlan(
        offset_ms=entropy.choice((0, 0, -30, 30, entropy.randint(-600_000, 600_000))),
        rate_ppm=entropy.choice((1_000_000, 1_000_000, 950_000, 1_050_000)),
    )


def _draw_producers(
    entropy: random.Random, topics: tuple[TopicPlan, ...]
) -> tuple[ProducerPlan, ...]:
    producers = []
    for _ in range(entropy.randint(1, 3)):
        topic = entropy.randrange(len(topics))
        everything = range(topics[topic].partitions)
        chosen = entropy.sample(everything, entropy.randint(1, len(everything)))
        acks = entropy.choice((-1, -1, -1, -1, 1, 0))
        producers.append(
            ProducerPlan(
                topic=topic,
                partitions=tuple(sorted(chosen)),
                acks=acks,
                idempotent=acks == -1 and entropy.random() < 0.6,
                interval_ms=entropy.choice((5, 20, 50, 200)),
                batch_records=entropy.choice((1, 1, 2, 5)),
                in_flight=entropy.choice((1, 1, 2, 5)),
            )
        )
    return tuple(producers)


def _draw_consumers(
    entropy: random.Random, topics: tuple[TopicPlan, ...], racks: tuple[str, ...], until_ms: int
) -> tuple[ConsumerPlan, ...]:
    consumers = []
    for _ in range(entropy.randint(1, 3)):
        rack = entropy.choice(racks) if racks and entropy.random() < 0.7 else ""
        consumers.append(
            ConsumerPlan(
                topic=entropy.randrange(len(topics)),
                rack=rack,
                from_follower=rack != "",
                fetch_wait_ms=entropy.choice((20, 100, 250)),
                max_batches=entropy.choice((1, 2, 10)),
                start_ms=entropy.choice((0, 0, until_ms // 2)),
            )
        )
    return tuple(consumers)


def _draw_phases(entropy: random.Random, timings: Timings) -> Phases:
    duration_ms = entropy.choice((5_000, 8_000, 12_000, 20_000, 30_000))
    slowest_ms = max(
        timings.session_timeout_ms,
        timings.replica_lag_time_max_ms,
        timings.quorum_fetch_timeout_ms,
        timings.produce_timeout_ms,
    )
    return Phases(
        calm_ms=duration_ms // 7,
        chaos_ms=duration_ms - duration_ms // 7,
        core_limit_ms=30_000 + 20 * slowest_ms,
        drain_limit_ms=60_000 + 20 * slowest_ms,
    )
