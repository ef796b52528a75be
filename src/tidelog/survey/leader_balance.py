"""Leaderships that are not with the preferred replica, and what giving them back would change."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from tidelog.client.view import ClusterView, PartitionView


class Share(NamedTuple):
    """How many partitions a broker leads."""

    broker: int
    before: int
    after: int
    preferred: int


class BalancePlan(NamedTuple):
    away: tuple[PartitionView, ...]
    """Led by somebody else, or by nobody."""
    shares: tuple[Share, ...]

    @property
    def moving(self) -> list[tuple[str, int]]:
        return [(each.topic, each.partition) for each in self.away if can_move(each)]


def can_move(partition: PartitionView) -> bool:
    return partition.preferred in partition.isr


def obstacle(partition: PartitionView) -> str | None:
    """Why it stays where it is."""
    return None if can_move(partition) else f"{partition.preferred} is not in sync"


def plan(view: ClusterView) -> BalancePlan:
    partitions = [each for topic in view.topics.values() for each in topic.partitions]
    away = tuple(each for each in partitions if each.leader != each.preferred)
    return BalancePlan(away, shares(partitions, view.brokers))


def shares(partitions: Iterable[PartitionView], brokers: Iterable[int]) -> tuple[Share, ...]:
    before: Counter[int | None] = Counter()
    after: Counter[int | None] = Counter()
    preferred: Counter[int | None] = Counter()
    for each in partitions:
        before[each.leader] += 1
        after[each.preferred if can_move(each) else each.leader] += 1
        preferred[each.preferred] += 1
    named = {each for each in (*brokers, *preferred, *before) if each is not None}
    return tuple(Share(each, before[each], after[each], preferred[each]) for each in sorted(named))
