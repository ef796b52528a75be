"""The coordinators of this broker: one shard per partition of an internal topic that it leads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.coordination.internal_log import InternalLog
from tidelog.broker.coordination.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidelog.broker.groups.topics_view import ImageTopics
from tidelog.coordinators.group_records import GROUP_RECORDS
from tidelog.coordinators.shards import RecordCodec, Shards, Surroundings
from tidelog.coordinators.transaction_records import TRANSACTION_RECORDS
from tidelog.core.coordination import Instant, Outcome
from tidelog.core.groups.machine import GroupMachine
from tidelog.core.groups.requests import ForgetPartitions
from tidelog.core.groups.settings import Rhythm
from tidelog.core.metadata.group_configs import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS
from tidelog.core.metadata.records import RESOURCE_GROUP
from tidelog.core.transactions.machine import TransactionMachine
from tidelog.core.types import NO_LEADER, PartitionId
from tidelog.host import tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.logs.mending import Mending
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.config.node_config import NodeConfig
    from tidelog.core.replication.leader import LeaderReplica
    from tidelog.host.node_host import NodeHost


class Coordination:
    """Owner of all shards. `groups` and `transactions` are asked by the index of a partition."""

    __slots__ = (
        "_codecs",
        "_host",
        "_mending",
        "_metadata",
        "_moved",
        "_replicas",
        "_shards",
        "_usual_rhythm",
        "groups",
        "on_order",
        "transactions",
    )

    def __init__(
        self,
        metadata: LocalMetadata,
        replicas: Replicas,
        mending: Mending,
        config: NodeConfig,
        host: NodeHost,
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._mending = mending
        self._host = host
        self.on_order: Callable[[int, object], None] | None = None
        """Who carries out what transactions order."""
        topics = ImageTopics(metadata)
        limits = config.group_limits()
        self._usual_rhythm = Rhythm(limits.heartbeat_interval_ms, limits.session_timeout_ms)
        self.groups = Shards(
            lambda _epoch: GroupMachine(config.group_settings(), topics, self._rhythm_of),
            self._surroundings(CONSUMER_OFFSETS, GROUP_RECORDS),
        )
        self.transactions = Shards(
            lambda epoch: TransactionMachine(config.transaction_settings(), epoch),
            self._surroundings(TRANSACTION_STATE, TRANSACTION_RECORDS),
        )
        self._shards = {CONSUMER_OFFSETS: self.groups, TRANSACTION_STATE: self.transactions}
        self._codecs = {CONSUMER_OFFSETS: GROUP_RECORDS, TRANSACTION_STATE: TRANSACTION_RECORDS}
        self._moved: dict[Hosted, None] = {}

    def _rhythm_of(self, group_id: str) -> Rhythm:
        """As it is set for this group now; a member learns it with its next heartbeat."""
        usual = self._usual_rhythm
        own = self._metadata.image.configs.get((RESOURCE_GROUP, group_id))
        if own is None:
            return usual
        return Rhythm(
            int(own.get(HEARTBEAT_INTERVAL_MS, usual.heartbeat_interval_ms)),
            int(own.get(SESSION_TIMEOUT_MS, usual.session_timeout_ms)),
        )

    # -- where a group or a transaction belongs

    def group_partition(self, group_id: str) -> int | None:
        """None while the internal topic does not exist."""
        return self._partition_of(CONSUMER_OFFSETS, group_id)

    def transaction_partition(self, transactional_id: str) -> int | None:
        return self._partition_of(TRANSACTION_STATE, transactional_id)

    def coordinator_of(self, topic: str, key: str) -> int:
        """The broker that coordinates; NO_LEADER while nobody does."""
        index = self._partition_of(topic, key)
        if index is None:
            return NO_LEADER
        image = self._metadata.image
        state = image.partition(PartitionId(image.topic_ids[topic], index))
        return NO_LEADER if state is None else state.leader

    def _partition_of(self, topic: str, key: str) -> int | None:
        image = self._metadata.image
        topic_id = image.topic_ids.get(topic)
        if topic_id is None:
            return None
        return java_hash(key) % len(image.topics[topic_id].partitions)

    # -- what replicas report

    def adopted(self, hosted: Hosted) -> None:
        """A partition is hosted from now on."""
        hosted.shards = self._shards.get(hosted.topic)

    def follow(self, hosted: Hosted) -> None:
        """Metadata was applied to an internal partition: take office, stay, or leave."""
        shards, index = hosted.shards, hosted.index
        if shards is None:
            return
        role = hosted.leader
        if role is None:
            shards.resigned(index)
        elif shards.leader_epoch(index) != hosted.replica.leader_epoch:
            shards.elected(index, self._log_of(hosted, role))
        else:
            shards.moved(index)

    def _log_of(self, hosted: Hosted, role: LeaderReplica) -> InternalLog:
        codec = self._codecs[hosted.topic]
        return InternalLog(
            hosted, role, codec, self._replicas, self._mending, clock=self._host.clock
        )

    def moved(self, hosted: Hosted) -> None:
        """The high watermark or the in-sync set of an internal partition changed. Its shard hears
        of it in the next turn of the loop: it may append to other logs then, and whoever moved
        this one may be in the middle of looking at them."""
        if not self._moved:
            tasks.soon(self._tell_moved)
        self._moved[hosted] = None

    def _tell_moved(self) -> None:
        moved, self._moved = self._moved, {}
        for hosted in moved:
            assert hosted.shards is not None, hosted
            hosted.shards.moved(hosted.index)

    def topics_changed(self) -> None:
        self.groups.each(_on_topics_changed)

    def topic_deleted(self, topic: str) -> None:
        for index in self.groups.indexes():
            self.groups.tell(index, ForgetPartitions(topic))

    def close(self) -> None:
        self.groups.close()
        self.transactions.close()

    def _surroundings(self, topic: str, codec: RecordCodec) -> Surroundings:
        host = self._host
        is_coming = partial(self._is_coming, topic)
        return Surroundings(codec, host.clock, host.timers, host.emit, self._order, is_coming)

    def _is_coming(self, topic: str, index: int) -> bool:
        topic_id = self._metadata.image.topic_ids.get(topic)
        return topic_id is not None and self._replicas.is_coming(PartitionId(topic_id, index))

    def _order(self, index: int, order: object) -> None:
        assert self.on_order is not None, f"nobody carries out {order}"
        self.on_order(index, order)


def _on_topics_changed(machine: object, now: Instant) -> Outcome:
    assert isinstance(machine, GroupMachine), machine
    return machine.on_topics_changed(now)


def java_hash(text: str) -> int:
    """The absolute `String.hashCode` by which Kafka spreads groups and transactional ids over the
    partitions of their topics. One that has no absolute value in Java counts as 0."""
    code = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(encoded), 2):
        code = (31 * code + int.from_bytes(encoded[position : position + 2], "big")) & 0xFFFFFFFF
    return (1 << 32) - code if code > 1 << 31 else code & 0x7FFFFFFF
