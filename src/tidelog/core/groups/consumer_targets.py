"""Subscriptions become topics, and topics become the target assignment of a group."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidelog.core.groups.assignors import ASSIGNORS, Assignee
from tidelog.core.groups.consumer_group import ConsumerGroup
from tidelog.core.groups.records import ConsumerMemberValue, TopicPartitions
from tidelog.core.groups.settings import InvalidRegex, TopicsView


class Found(NamedTuple):
    """Ids of the topics of one subscription that exist."""

    ordered: tuple[bytes, ...]
    members: frozenset[bytes]


class Subscriptions:
    """What members subscribe to at this moment. Every distinct subscription is looked up once,
    because thousands of members have the same."""

    __slots__ = ("_found", "_topics", "partitions")

    def __init__(self, topics: TopicsView) -> None:
        self._topics = topics
        self._found: dict[tuple[tuple[str, ...], str | None], Found] = {}
        self.partitions: dict[bytes, int] = {}
        """Topic id → how many partitions it has, of all topics found so far."""

    def find(self, member: ConsumerMemberValue) -> Found:
        key = (member.subscribed_topics, member.subscribed_regex)
        found = self._found.get(key)
        if found is None:
            counts = {}
            for name in names_of(member, self._topics):
                topic = self._topics.find(name)
                if topic is not None:
                    counts[topic.topic_id] = topic.partitions
            self.partitions.update(counts)
            found = self._found[key] = Found(tuple(sorted(counts)), frozenset(counts))
        return found


def names_of(member: ConsumerMemberValue, topics: TopicsView) -> tuple[str, ...]:
    """By name, or because the expression matches. An expression that this version cannot read,
    written by another one, matches nothing."""
    if member.subscribed_regex is None:
        return member.subscribed_topics
    try:
        matching = topics.matching(member.subscribed_regex)
    except InvalidRegex:
        matching = ()
    return (*member.subscribed_topics, *matching)


def preferred_assignor(members: Iterable[ConsumerMemberValue], supported: tuple[str, ...]) -> str:
    """What most members ask for; if they are divided, or ask for nothing, our first one."""
    votes = Counter(member.server_assignor for member in members)
    return max(supported, key=lambda name: (votes[name], -supported.index(name)))


def assign_targets(
    members: Mapping[str, ConsumerMemberValue],
    targets: Mapping[str, TopicPartitions],
    topics: TopicsView,
    supported: tuple[str, ...],
) -> dict[str, TopicPartitions]:
    """What everybody shall have, given what they were to have until now."""
    subscriptions = Subscriptions(topics)
    assignees = [
        Assignee(
            member_id,
            member.instance_id,
            subscriptions.find(member).ordered,
            targets.get(member_id, ()),
        )
        for member_id, member in members.items()
    ]
    assign = ASSIGNORS[preferred_assignor(members.values(), supported)]
    assigned = assign(assignees, subscriptions.partitions)
    assert assigned.keys() == members.keys(), f"{len(assigned)} shares, {len(members)} members"
    return assigned


def is_outdated(group: ConsumerGroup, topics: TopicsView) -> bool:
    """Have topics come, grown or gone since the targets were made? Targets give every subscribed
    partition to exactly one subscriber, so it is enough to check and count them: nothing about
    topics has to be written down for the next coordinator."""
    if not group.members:
        return False
    if group.assignment_epoch != group.epoch:
        return True
    subscriptions = Subscriptions(topics)
    found = {member_id: subscriptions.find(member) for member_id, member in group.members.items()}
    counts = subscriptions.partitions
    assigned = 0
    for member_id, topics_found in found.items():
        for topic, numbers in group.targets.get(member_id, ()):
            if topic not in topics_found.members or max(numbers, default=-1) >= counts[topic]:
                return True
            assigned += len(numbers)
    return assigned != sum(counts.values())
