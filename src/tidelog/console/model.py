"""What is known of the partitions of a cluster: fed by events, and by looks at the nodes.

Counts are kept with every change, so nothing here walks over all partitions.
"""

from bisect import insort
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tidelog.client.view import PartitionView
from tidelog.console.messages import Message, add_message, messages_of, overheard
from tidelog.core.types import NO_LEADER
from tidelog.survey.partition_state import HEALTHY, judge

KEPT_MESSAGES = 12

Key = tuple[str, int]


class ReplicaLog:
    """One replica as it was last seen."""

    __slots__ = ("broker", "epochs", "high_watermark", "log_end", "log_start", "seen_ms")

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.log_start = 0
        self.high_watermark = 0
        self.log_end = 0
        self.epochs: list[tuple[int, int]] = []
        """(leader epoch, start offset), ascending."""
        self.seen_ms: int | None = None

    def append(self, base: int, end: int, epoch: int) -> None:
        self.log_end = end
        if epoch >= 0 and (not self.epochs or self.epochs[-1][0] < epoch):
            self.epochs.append((epoch, base))

    def truncate(self, end: int) -> None:
        self.log_end = end
        self.high_watermark = min(self.high_watermark, end)
        while self.epochs and self.epochs[-1][1] >= end:
            self.epochs.pop()


class Partition:
    """One partition: what its leader and the controller last said, and its replicas."""

    __slots__ = (
        "follower_ends",
        "heard",
        "is_overheard",
        "isr",
        "key",
        "leader",
        "leader_epoch",
        "logs",
        "messages",
        "min_isr",
        "parked_produces",
        "partition_epoch",
        "replicas",
        "since_ms",
    )

    def __init__(self, key: Key) -> None:
        self.key = key
        self.leader = NO_LEADER
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.min_isr = 0
        self.since_ms: int | None = None
        """When it ceased to be healthy."""
        self.parked_produces = 0
        self.logs: dict[int, ReplicaLog] = {}
        self.follower_ends: dict[int, int] = {}
        """How far followers are in the eyes of the leader."""
        self.messages: deque[Message] = deque(maxlen=KEPT_MESSAGES)
        self.is_overheard = False
        """Somebody looks at it, so its leader tells what it hears and answers."""
        self.heard: dict[int, int] = {}
        """The number of the last message that each node told."""

    @property
    def name(self) -> str:
        return f"{self.key[0]}-{self.key[1]}"

    def log(self, broker: int) -> ReplicaLog:
        if broker not in self.logs:
            self.logs[broker] = ReplicaLog(broker)
        return self.logs[broker]

    @property
    def view(self) -> PartitionView:
        leader = None if self.leader == NO_LEADER else self.leader
        return PartitionView(*self.key, leader, self.leader_epoch, self.replicas, self.isr)

    @property
    def state(self) -> str:
        return judge(self.view, (), self.min_isr).state

    @property
    def leader_log(self) -> ReplicaLog | None:
        return self.logs.get(self.leader)


class Unwell(NamedTuple):
    """Partitions that are unwell in the same way."""

    state: str
    out_of_sync: tuple[int, ...]


class Model:
    """Owner of all partitions."""

    __slots__ = ("_counted", "leaders", "partitions", "preferred", "replicas", "topics", "unwell")

    def __init__(self) -> None:
        self.partitions: dict[Key, Partition] = {}
        self.topics: dict[str, list[int]] = {}
        """The partitions of each topic, in order."""
        self.leaders: Counter[int] = Counter()
        self.preferred: Counter[int] = Counter()
        self.replicas: Counter[int] = Counter()
        self.unwell: dict[Unwell, dict[Key, int | None]] = {}
        """With since when."""
        self._counted: dict[Key, tuple[int, tuple[int, ...], Unwell | None]] = {}

    def of(self, key: Key) -> Partition:
        if key not in self.partitions:
            self.partitions[key] = Partition(key)
            insort(self.topics.setdefault(key[0], []), key[1])
        return self.partitions[key]

    def named(self, name: str) -> Partition | None:
        topic, _, index = name.rpartition("-")
        if not (index.isascii() and index.isdigit() and len(index) < 10):
            return None
        return self.partitions.get((topic, int(index)))

    def count_of(self, *states: str) -> int:
        return sum(len(keys) for unwell, keys in self.unwell.items() if unwell.state in states)

    def forget(self, keys: Iterable[Key]) -> None:
        """Partitions that no node has any more."""
        for key in keys:
            if self.partitions.pop(key, None) is None:
                continue
            self._uncount(key)
            indexes = self.topics[key[0]]
            indexes.remove(key[1])
            if not indexes:
                del self.topics[key[0]]

    # -- looks

    def look(self, node: int, told: Mapping[str, Any], now_ms: int) -> Partition:
        """What a node says of a partition that it hosts."""
        partition = self.of((str(told["topic"]), int(told["partition"])))
        if told["role"] == "leader" or (
            told["leader_epoch"] > partition.leader_epoch
            or told["partition_epoch"] > partition.partition_epoch
            or not partition.replicas
        ):
            self._learn(partition, told)
        if told["role"] != "offline":
            log = partition.log(node)
            log.log_start = told["log_start_offset"]
            log.high_watermark = told["high_watermark"]
            log.log_end = told["log_end_offset"]
            log.seen_ms = now_ms
            if "epochs" in told:
                log.epochs = [(each[0], each[1]) for each in told["epochs"]]
        if told["role"] == "leader" and told["leader_epoch"] >= partition.leader_epoch:
            self._see_followers(partition, told)
            _hear(partition, node, told.get("overheard", ()))
        self._count(partition)
        return partition

    def _learn(self, partition: Partition, told: Mapping[str, Any]) -> None:
        if told["leader_epoch"] < partition.leader_epoch:
            return  # of somebody who has not heard of the newer leader yet
        partition.leader = told["leader"]
        partition.leader_epoch = told["leader_epoch"]
        partition.replicas = tuple(told["replicas"])
        partition.min_isr = told["min_isr"] or partition.min_isr
        if told["partition_epoch"] >= partition.partition_epoch:
            partition.partition_epoch = told["partition_epoch"]
            partition.isr = tuple(told["isr"])
        if told["role"] == "leader":
            partition.since_ms = told["under_replicated_since_ms"] or partition.since_ms

    def _see_followers(self, partition: Partition, told: Mapping[str, Any]) -> None:
        partition.parked_produces = told["parked_produces"]
        for each in told["followers"]:
            if each["log_end_offset"] >= 0:
                partition.follower_ends[each["broker"]] = each["log_end_offset"]

    # -- events

    def apply(self, event: Mapping[str, Any]) -> Partition | None:
        """An event of a partition; None if it is of none."""
        topic, index = event.get("topic"), event.get("index")
        if not isinstance(topic, str) or not isinstance(index, int):
            return None
        partition = self.of((topic, index))
        handler = _HANDLERS.get(event["kind"])
        if handler is not None:
            handler(partition, event)
        for message in messages_of(partition, event):
            add_message(partition.messages, message)
        self._count(partition, event["wall_ms"])
        return partition

    # -- counts

    def _count(self, partition: Partition, now_ms: int | None = None) -> None:
        key, state = partition.key, partition.state
        if state == HEALTHY:
            partition.since_ms = None
        elif partition.since_ms is None:
            partition.since_ms = now_ms
        self._uncount(key)
        unwell = None if state == HEALTHY else Unwell(state, partition.view.out_of_sync)
        self._counted[key] = (partition.leader, partition.replicas, unwell)
        self._add(partition.leader, partition.replicas, 1)
        if unwell is not None:
            self.unwell.setdefault(unwell, {})[key] = partition.since_ms

    def _uncount(self, key: Key) -> None:
        known = self._counted.pop(key, None)
        if known is None:
            return
        leader, replicas, unwell = known
        self._add(leader, replicas, -1)
        if unwell is not None:
            self.unwell[unwell].pop(key, None)
            if not self.unwell[unwell]:
                del self.unwell[unwell]

    def _add(self, leader: int, replicas: tuple[int, ...], change: int) -> None:
        self.leaders[leader] += change
        if replicas:
            self.preferred[replicas[0]] += change
        for broker in replicas:
            self.replicas[broker] += change


def _hear(partition: Partition, node: int, told: Sequence[Mapping[str, Any]]) -> None:
    """The messages that a leader had not told before. A process that is new counts from 1."""
    if not told:
        return
    last = told[-1]["number"]
    known = partition.heard.get(node, 0)
    partition.heard[node] = last
    for each in told:
        if each["number"] > known or last < known:
            add_message(partition.messages, overheard(node, each))


def _appended(partition: Partition, event: Mapping[str, Any]) -> None:
    log = partition.log(event["broker"])
    log.append(event["base_offset"], event["next_offset"], event["leader_epoch"])
    log.seen_ms = event["wall_ms"]


def _watermark(partition: Partition, event: Mapping[str, Any]) -> None:
    log = partition.log(event["broker"])
    log.high_watermark = event["high_watermark"]
    log.seen_ms = event["wall_ms"]


def _truncated(partition: Partition, event: Mapping[str, Any]) -> None:
    log = partition.log(event["broker"])
    log.truncate(event["log_end_offset"])
    log.seen_ms = event["wall_ms"]


def _became_leader(partition: Partition, event: Mapping[str, Any]) -> None:
    if event["leader_epoch"] >= partition.leader_epoch:
        partition.leader, partition.leader_epoch = event["broker"], event["leader_epoch"]
        partition.follower_ends.clear()
    log = partition.log(event["broker"])
    log.log_end, log.high_watermark = event["start_offset"], event["high_watermark"]
    log.seen_ms = event["wall_ms"]


def _elected(partition: Partition, event: Mapping[str, Any]) -> None:
    if event["leader_epoch"] >= partition.leader_epoch:
        partition.leader, partition.leader_epoch = event["leader"], event["leader_epoch"]
    _isr(partition, event)


def _isr(partition: Partition, event: Mapping[str, Any]) -> None:
    if event["partition_epoch"] >= partition.partition_epoch:
        partition.partition_epoch = event["partition_epoch"]
        partition.isr = tuple(event["isr"])


def _deleted(partition: Partition, event: Mapping[str, Any]) -> None:
    partition.logs.pop(event["broker"], None)


_HANDLERS = {
    "RecordsAppended": _appended,
    "HighWatermarkAdvanced": _watermark,
    "HighWatermarkLowered": _watermark,
    "LogTruncated": _truncated,
    "BecameLeader": _became_leader,
    "LeaderElected": _elected,
    "IsrChanged": _isr,
    "IsrCommitted": _isr,
    "LogDeleted": _deleted,
}
