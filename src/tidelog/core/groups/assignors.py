"""Who shall read what: the assignors of the consumer protocol (KIP-848).

An assignor is a pure function from members, with what they have so far, to the partitions each
of them shall have. Every partition of a subscribed topic goes to exactly one member that
subscribes to it. Members and topics are taken in sorted order, so the same input gives the same
assignment on every broker.

- `uniform` gives everybody the same number, and moves as little as it can.
- `range` gives neighbouring partitions of every topic, so that equally large topics are
  partitioned alike and can be joined.
"""

import heapq
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from tidelog.core.groups.records import TopicPartitions

Partition = tuple[bytes, int]
"""Topic id and number. A plain tuple: a large group has very many."""


class Assignee(NamedTuple):
    member_id: str
    instance_id: str | None
    topics: tuple[bytes, ...]
    """Ids of the topics it subscribes to that exist, sorted."""
    held: TopicPartitions
    """What it was to have before."""


PartitionCounts = Mapping[bytes, int]
Assignor = Callable[[Sequence[Assignee], PartitionCounts], dict[str, TopicPartitions]]


def flatten(partitions: TopicPartitions) -> list[Partition]:
    return [(topic, number) for topic, numbers in partitions for number in numbers]


def fold(partitions: Iterable[Partition]) -> TopicPartitions:
    """Sorted, as records and responses have it."""
    by_topic: dict[bytes, list[int]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(number)
    return tuple((topic, tuple(numbers)) for topic, numbers in by_topic.items())


# -- range


def assign_range(
    members: Sequence[Assignee], partitions: PartitionCounts
) -> dict[str, TopicPartitions]:
    """Per topic, every subscriber gets one run of partitions; the first ones get one more."""
    shares: dict[str, list[tuple[bytes, tuple[int, ...]]]] = {m.member_id: [] for m in members}
    ordered = sorted(members, key=lambda m: (m.instance_id or m.member_id, m.member_id))
    for topic, subscribers in sorted(_subscribers(ordered).items()):
        quota, larger = divmod(partitions[topic], len(subscribers))
        start = 0
        for position, member in enumerate(subscribers):
            end = start + quota + (position < larger)
            if end > start:
                shares[member.member_id].append((topic, tuple(range(start, end))))
            start = end
        assert start == partitions[topic], f"{start} of {partitions[topic]} partitions assigned"
    return {member_id: tuple(share) for member_id, share in shares.items()}


def _subscribers(members: Iterable[Assignee]) -> dict[bytes, list[Assignee]]:
    found: dict[bytes, list[Assignee]] = {}
    for member in members:
        for topic in member.topics:
            found.setdefault(topic, []).append(member)
    return found


# -- uniform


def assign_uniform(
    members: Sequence[Assignee], partitions: PartitionCounts
) -> dict[str, TopicPartitions]:
    """As even as subscriptions allow; whoever has a partition keeps it if that is fair."""
    if not members:
        return {}
    ordered = sorted(members, key=lambda m: m.member_id)
    topics = ordered[0].topics
    if all(member.topics is topics or member.topics == topics for member in ordered):
        return _assign_equal(ordered, partitions)
    return _Balance(ordered, partitions).assign()


class _Claims:
    """Which partitions are taken. A partition that two members say they hold goes to the first."""

    __slots__ = ("_partitions", "taken")

    def __init__(self, topics: Iterable[bytes], partitions: PartitionCounts) -> None:
        self._partitions = partitions
        self.taken: dict[bytes, set[int]] = {topic: set() for topic in topics}

    def keep(self, member: Assignee, topics: Container[bytes]) -> TopicPartitions:
        """What the member held of these topics and may hold still."""
        kept = []
        for topic, held in member.held:
            if not held or topic not in topics:
                continue
            taken, count = self.taken[topic], self._partitions[topic]
            numbers = held
            if max(held) >= count or not taken.isdisjoint(held):
                numbers = tuple(n for n in held if n < count and n not in taken)
            if numbers:
                taken.update(numbers)
                kept.append((topic, numbers))
        return tuple(kept)

    def free(self) -> list[Partition]:
        return [
            (topic, number)
            for topic, taken in self.taken.items()
            if len(taken) < self._partitions[topic]
            for number in range(self._partitions[topic])
            if number not in taken
        ]


def _size(partitions: TopicPartitions) -> int:
    return sum(len(numbers) for _, numbers in partitions)


def _assign_equal(
    members: Sequence[Assignee], partitions: PartitionCounts
) -> dict[str, TopicPartitions]:
    """All subscribe to the same: sizes are known beforehand, and only what is too much moves."""
    topics = members[0].topics
    quota, larger = divmod(sum(partitions[topic] for topic in topics), len(members))
    claims = _Claims(topics, partitions)
    result = {member.member_id: claims.keep(member, claims.taken) for member in members}
    spare: list[Partition] = []
    sizes: dict[str, int] = {}
    for member_id, kept in result.items():
        size = _size(kept)
        if size > quota:
            allowed = quota + (larger > 0)
            larger -= larger > 0  # those who have one more already are the ones to have it
            if size > allowed:
                each = flatten(kept)
                spare += each[allowed:]
                result[member_id] = fold(each[:allowed])
                size = allowed
        sizes[member_id] = size
    spare = sorted([*spare, *claims.free()])
    for member_id, gained in _deal(spare, sizes, quota, larger).items():
        result[member_id] = fold([*flatten(result[member_id]), *gained])
    return result


def _deal(
    spare: list[Partition], sizes: dict[str, int], quota: int, larger: int
) -> dict[str, list[Partition]]:
    """One each in turn, so that the partitions of one topic spread over many members."""
    room: dict[str, int] = {}
    for member_id, size in sizes.items():
        allowed = quota
        if size <= quota and larger > 0:
            allowed += 1
            larger -= 1
        if allowed > size:
            room[member_id] = allowed - size
    assert sum(room.values()) == len(spare), f"{len(spare)} partitions, room for {room}"
    gained: dict[str, list[Partition]] = {member_id: [] for member_id in room}
    turns = deque(room)
    for partition in spare:
        member_id = turns.popleft()
        gained[member_id].append(partition)
        if len(gained[member_id]) < room[member_id]:
            turns.append(member_id)
    return gained


class _Balance:
    """Members with different subscriptions, balanced as well as these allow.

    Everybody keeps what they have, what is free goes to the subscriber with the least, and then
    partitions are passed on: from the fullest member along a chain of members, each of which
    subscribes to what it is handed and hands on another one, to somebody who has at least two
    less. When there is no such chain for anybody, no assignment is more even (this is an optimal
    semi-matching). Shortest chains are taken, so few partitions move.

    Everybody whom the fullest member can reach in vain is finished together with it: they reach
    no further than it does, and none of them has more.
    """

    __slots__ = (
        "_finished",
        "_held_before",
        "_holding",
        "_load",
        "_members",
        "_partitions",
        "_subs",
    )

    def __init__(self, members: Sequence[Assignee], partitions: PartitionCounts) -> None:
        self._members = members
        self._partitions = partitions
        self._subs = {
            topic: [member.member_id for member in subscribers]
            for topic, subscribers in sorted(_subscribers(members).items())
        }
        self._holding: dict[str, dict[bytes, list[int]]] = {m.member_id: {} for m in members}
        self._held_before: dict[Partition, str] = {}
        self._load: dict[str, int] = {}
        self._finished: set[str] = set()

    def assign(self) -> dict[str, TopicPartitions]:
        claims = _Claims(self._subs, self._partitions)
        subscribed: dict[tuple[bytes, ...], Container[bytes]] = {}
        for member in self._members:
            kept = claims.keep(
                member, subscribed.setdefault(member.topics, frozenset(member.topics))
            )
            self._load[member.member_id] = _size(kept)
            for topic, numbers in kept:
                self._holding[member.member_id][topic] = list(numbers)
                for number in numbers:
                    self._held_before[topic, number] = member.member_id
        self._hand_out(claims.free())
        self._pass_on()
        return {
            member_id: tuple(
                (topic, tuple(sorted(numbers)))
                for topic, numbers in sorted(held.items())
                if numbers
            )
            for member_id, held in self._holding.items()
        }

    def _hand_out(self, free: list[Partition]) -> None:
        """Topics with few subscribers first: they have the least choice."""
        waiting: dict[bytes, list[tuple[int, str]]] = {}
        for topic, number in sorted(free, key=lambda p: (len(self._subs[p[0]]), p)):
            if topic not in waiting:
                waiting[topic] = [(self._load[each], each) for each in self._subs[topic]]
                heapq.heapify(waiting[topic])
            queue = waiting[topic]
            # Loads only grow here, so an entry that is out of date stands too far in front.
            while queue[0][0] != self._load[queue[0][1]]:
                heapq.heapreplace(queue, (self._load[queue[0][1]], queue[0][1]))
            member_id = queue[0][1]
            self._holding[member_id].setdefault(topic, []).append(number)
            self._load[member_id] += 1

    def _pass_on(self) -> None:
        fullest = [(-load, member_id) for member_id, load in self._load.items()]
        heapq.heapify(fullest)
        while fullest:
            load, member_id = heapq.heappop(fullest)
            if member_id in self._finished:
                continue
            if -load != self._load[member_id]:
                heapq.heappush(fullest, (-self._load[member_id], member_id))
                continue
            chain = self._chain_from(member_id)
            for giver, topic, taker in chain:
                self._move(giver, topic, taker)
            # Of a chain only the two ends have more or less than before. An entry that is too
            # low would let somebody emptier finish those who can still give.
            for changed in (chain[-1][0], chain[0][2]) if chain else ():
                heapq.heappush(fullest, (-self._load[changed], changed))

    def _chain_from(self, start: str) -> list[tuple[str, bytes, str]]:
        """The shortest chain from here to somebody with two less; finishes all it can reach if
        there is none."""
        reached: dict[str, tuple[str, bytes] | None] = {start: None}
        offered: set[bytes] = set()
        queue = deque([start])
        while queue:
            giver = queue.popleft()
            for topic, numbers in self._holding[giver].items():
                if not numbers or topic in offered:
                    continue
                offered.add(topic)
                for taker in self._subs[topic]:
                    if taker in reached or taker in self._finished:
                        continue
                    reached[taker] = (giver, topic)
                    if self._load[taker] <= self._load[start] - 2:
                        return _walk_back(reached, taker)
                    queue.append(taker)
        self._finished.update(reached)
        return []

    def _move(self, giver: str, topic: bytes, taker: str) -> None:
        """One partition of the topic; one that goes back to where it was before, or one that the
        giver has not begun to read, if there is any."""
        numbers = self._holding[giver][topic]
        chosen = max(numbers, key=lambda n: self._cost_free(giver, (topic, n), taker))
        numbers.remove(chosen)
        self._holding[taker].setdefault(topic, []).append(chosen)
        self._load[giver] -= 1
        self._load[taker] += 1

    def _cost_free(self, giver: str, partition: Partition, taker: str) -> tuple[int, int]:
        before = self._held_before.get(partition)
        return (2 if before == taker else 1 if before != giver else 0, partition[1])


def _walk_back(
    reached: Mapping[str, tuple[str, bytes] | None], end: str
) -> list[tuple[str, bytes, str]]:
    """Last link first: everybody hands on one of their own before they are handed another."""
    chain = []
    taker, link = end, reached[end]
    while link is not None:
        giver, topic = link
        chain.append((giver, topic, taker))
        taker, link = giver, reached[giver]
    return chain


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
