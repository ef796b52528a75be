"""From a plan that fails to the smallest one found that still breaks the same rule.

First goes what came after the violation. Then the faults, by delta debugging: most have
nothing to do with it. What is left happens sooner and ends sooner. Then clients, topics,
partitions and brokers; then every knob is turned to its plainest setting. Each pass only
proposes; a proposal stays if the *same* rule still fails. The passes are repeated until none
of them finds anything.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from tidelog.sim.faults import Fault, concerns_topic
from tidelog.sim.network import NetworkPlan
from tidelog.sim.plan import ClockPlan, Plan, ProducerPlan
from tidelog.sim.shrink_coordination import smaller, with_fewer_replicas

Fails = Callable[[Plan], str | None]
"""The rule this plan breaks, or None."""

Item = TypeVar("Item")

TRIES_MAX: Final = 1_000


@dataclass(slots=True)
class Shrunk:
    plan: Plan
    rule: str
    tries: int


class _Search:
    """The best plan so far and how many runs it took."""

    __slots__ = ("_expired", "_fails", "_tries_max", "best", "rule", "tries")

    def __init__(
        self, plan: Plan, rule: str, fails: Fails, tries_max: int, expired: Callable[[], bool]
    ) -> None:
        self.best = plan
        self.rule = rule
        self.tries = 0
        self._fails = fails
        self._tries_max = tries_max
        self._expired = expired

    @property
    def over(self) -> bool:
        return self.tries >= self._tries_max or self._expired()

    def accept(self, candidate: Plan) -> bool:
        """Keep the candidate if it breaks the same rule."""
        if candidate == self.best or self.over:
            return False
        self.tries += 1
        if self._fails(candidate) != self.rule:
            return False
        self.best = candidate
        return True


def shrink(
    plan: Plan,
    rule: str,
    fails: Fails,
    *,
    broke_at_ms: int | None = None,
    tries_max: int = TRIES_MAX,
    expired: Callable[[], bool] = lambda: False,
) -> Shrunk:
    """The smallest plan found that breaks `rule`, as `plan` did at `broke_at_ms`; `expired` may
    end the search early."""
    search = _Search(plan, rule, fails, tries_max, expired)
    if broke_at_ms is not None:
        search.accept(ending_at(plan, broke_at_ms))
    while not search.over:
        before = search.best
        for shrink_pass in _PASSES:
            shrink_pass(search)
        if search.best == before:
            break
    return Shrunk(search.best, rule, search.tries)


def minimise(items: Sequence[Item], still_fails: Callable[[list[Item]], bool]) -> list[Item]:
    """Delta debugging: a sublist that still fails and from which no single item can go."""
    current = list(items)
    if current and still_fails([]):
        return []
    parts = 2
    while len(current) >= 2:
        size = -(-len(current) // parts)
        for start in range(0, len(current), size):
            rest = current[:start] + current[start + size :]
            if rest and still_fails(rest):
                current = rest
                parts = max(parts - 1, 2)
                break
        else:
            if parts >= len(current):
                return current
            parts = min(len(current), 2 * parts)
    return current


def _fewer_faults(search: _Search) -> None:
    base = search.best
    minimise(base.faults, lambda faults: search.accept(replace(search.best, faults=tuple(faults))))


def ending_at(plan: Plan, at_ms: int) -> Plan:
    """Without the faults that come later; the healing begins then, if not before."""
    chaos_ms = max(1, min(plan.phases.chaos_ms, at_ms + 1 - plan.phases.calm_ms))
    return replace(
        plan,
        phases=replace(plan.phases, chaos_ms=chaos_ms),
        faults=tuple(fault for fault in plan.faults if fault.at_ms <= at_ms),
    )


def _sooner(search: _Search) -> None:
    """A long quiet beginning makes a long story: try to begin at once, or half way there."""
    for share in (1, 2):
        plan = search.best
        if not plan.faults:
            return
        earlier_ms = (plan.faults[0].at_ms - plan.phases.calm_ms) // share
        chaos_ms = plan.phases.chaos_ms - earlier_ms
        if earlier_ms <= 0 or chaos_ms <= 0:
            return
        moved = tuple(fault._replace(at_ms=fault.at_ms - earlier_ms) for fault in plan.faults)
        phases = replace(plan.phases, chaos_ms=chaos_ms)
        if search.accept(replace(plan, phases=phases, faults=moved)):
            return


def _shorter_tail(search: _Search) -> None:
    """Nothing needs to happen long after the last fault; try less and less of it."""
    for share in (8, 4, 2):
        phases = search.best.phases
        last_ms = max((fault.at_ms for fault in search.best.faults), default=phases.calm_ms)
        kept_ms = max(0, last_ms - phases.calm_ms) + 1
        spare_ms = phases.chaos_ms - kept_ms
        if spare_ms <= 0:
            return
        shorter = replace(phases, chaos_ms=kept_ms + spare_ms // share)
        if search.accept(replace(search.best, phases=shorter)):
            return


def _fewer_clients(search: _Search) -> None:
    minimise(
        search.best.consumers,
        lambda some: search.accept(replace(search.best, consumers=tuple(some))),
    )
    minimise(
        search.best.producers,
        lambda some: search.accept(replace(search.best, producers=tuple(some))),
    )


def _less_coordination(search: _Search) -> None:
    while any(search.accept(candidate) for candidate in smaller(search.best)):
        pass


def _fewer_topics(search: _Search) -> None:
    for index in reversed(range(len(search.best.topics))):
        if len(search.best.topics) > 1:
            search.accept(without_topic(search.best, index))
    for index in range(len(search.best.topics)):
        while search.best.topics[index].partitions > 1:
            if not search.accept(with_fewer_partitions(search.best, index)):
                break


def _fewer_brokers(search: _Search) -> None:
    while search.best.brokers > 1:
        # The last one first: then nobody is renumbered.
        candidates = reversed(range(1, search.best.brokers + 1))
        if not any(search.accept(without_broker(search.best, node)) for node in candidates):
            break
    while search.best.voters > 1 and search.accept(
        replace(search.best, voters=search.best.voters - 2)
    ):
        pass


def _plainer_knobs(search: _Search) -> None:
    for plainer in _PLAINER:
        search.accept(plainer(search.best))
    for index in range(len(search.best.faults)):
        for fault in _plainer(search.best.faults[index]):
            faults = list(search.best.faults)
            faults[index] = fault
            search.accept(replace(search.best, faults=tuple(faults)))


def _one_record_at_a_time(plan: Plan) -> Plan:
    slow = (replace(producer, batch_records=1, in_flight=1) for producer in plan.producers)
    return replace(plan, producers=tuple(slow))


# Each takes the plan as it is then: an earlier one may have been accepted.
_PLAINER: Final[tuple[Callable[[Plan], Plan], ...]] = (
    lambda plan: replace(plan, network=NetworkPlan(ordered=True)),
    lambda plan: replace(plan, network=plan.network._replace(loss=0)),
    lambda plan: replace(plan, network=plan.network._replace(duplicate=0)),
    lambda plan: replace(plan, network=plan.network._replace(ordered=True)),
    lambda plan: replace(plan, clocks=tuple(ClockPlan(0, 1_000_000) for _ in plan.clocks)),
    lambda plan: replace(plan, racks=()),
    lambda plan: replace(plan, elr=True),
    lambda plan: replace(plan, hints=None),
    lambda plan: replace(plan, fetch_max_batches=50),
    lambda plan: replace(plan, snapshot_every_records=10_000),
    _one_record_at_a_time,
)


def _plainer(fault: Fault) -> Iterator[Fault]:
    if fault.aim and fault.nodes:
        yield fault._replace(aim="")
    for duration_ms in (100, 1_000):
        if fault.duration_ms > duration_ms:
            yield fault._replace(duration_ms=duration_ms)


def without_broker(plan: Plan, removed: int) -> Plan:
    """One broker less, those after it renumbered; replica sets, voters, faults cut to fit."""
    brokers = plan.brokers - 1
    assert brokers >= 1, "a plan without brokers"
    topics = tuple(
        replace(
            topic,
            replication_factor=min(topic.replication_factor, brokers),
            min_insync_replicas=min(topic.min_insync_replicas, brokers),
        )
        for topic in plan.topics
    )
    voters = plan.voters
    while voters > brokers:
        voters -= 2
    moved = (_without_node(fault, removed, brokers) for fault in plan.faults)
    return replace(
        plan,
        brokers=brokers,
        voters=voters,
        topics=topics,
        racks=plan.racks[: removed - 1] + plan.racks[removed:],
        clocks=plan.clocks[: removed - 1] + plan.clocks[removed:],
        coordination=with_fewer_replicas(plan.coordination, brokers),
        faults=tuple(fault for fault in moved if fault is not None),
    )


def _without_node(fault: Fault, removed: int, brokers: int) -> Fault | None:
    """The fault among those who are left; None when its point is gone."""
    nodes = tuple(_moved_up(node, removed) for node in fault.nodes if node != removed)
    if len(nodes) < len(fault.nodes) and (not nodes or fault.kind in ("one_way", "clog")):
        return None
    if fault.kind == "split" and len(nodes) == brokers:
        return None
    return fault._replace(nodes=nodes)


def without_topic(plan: Plan, index: int) -> Plan:
    """The plan without one topic, its clients and its faults; later topics move up."""
    return replace(
        plan,
        topics=plan.topics[:index] + plan.topics[index + 1 :],
        producers=tuple(
            replace(producer, topic=_moved_up(producer.topic, index))
            for producer in plan.producers
            if producer.topic != index
        ),
        consumers=tuple(
            replace(consumer, topic=_moved_up(consumer.topic, index))
            for consumer in plan.consumers
            if consumer.topic != index
        ),
        faults=tuple(
            fault._replace(topic=_moved_up(fault.topic, index))
            if fault.topic != index
            else fault._replace(topic=0, partition=0)
            for fault in plan.faults
            if fault.topic != index or not concerns_topic(fault)
        ),
    )


def _moved_up(number: int, removed: int) -> int:
    return number - 1 if number > removed else number


def with_fewer_partitions(plan: Plan, index: int) -> Plan:
    """The last partition of a topic goes; who used it uses partition 0."""
    topic = plan.topics[index]
    left = topic.partitions - 1
    assert left >= 1, f"topic {topic.name} without partitions"

    def fits(producer: ProducerPlan) -> ProducerPlan:
        kept = tuple(partition for partition in producer.partitions if partition < left)
        return replace(producer, partitions=kept or (0,)) if producer.topic == index else producer

    def falls(fault: Fault) -> Fault:
        outside = fault.topic == index and fault.partition >= left
        return fault._replace(partition=0) if outside else fault

    topics = list(plan.topics)
    topics[index] = replace(topic, partitions=left)
    return replace(
        plan,
        topics=tuple(topics),
        producers=tuple(fits(producer) for producer in plan.producers),
        faults=tuple(falls(fault) for fault in plan.faults),
    )


_PASSES: Final[tuple[Callable[[_Search], None], ...]] = (
    _fewer_faults,
    _sooner,
    _shorter_tail,
    _fewer_clients,
    _less_coordination,
    _fewer_topics,
    _fewer_brokers,
    _plainer_knobs,
)
