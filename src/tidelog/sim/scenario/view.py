"""The stage as data: what `show` prints, and what a screen may draw."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.core.replication.follower import FollowerReplica
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.types import NO_LEADER, NO_OFFSET
from tidelog.sim.scenario.broker import StageBroker
from tidelog.sim.scenario.disks import TOPIC, StoredReplica, batches_of
from tidelog.sim.scenario.stage import Stage
from tidelog.sim.scenario.words import StoryBatch

LEADER = "leader"
FOLLOWER = "follower"
DOWN = "down"
IDLE = "none"


class ReplicaPicture(NamedTuple):
    broker: str
    role: str
    leader_epoch: int
    """As this broker knows it."""
    change_in_flight: bool
    """It leads, and an ISR proposal of its own is undecided."""
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    acknowledged: int | None
    """Its log end as the leader knows it from fetches; NO_OFFSET unknown, None not asked for."""
    epochs: tuple[tuple[int, int], ...]
    batches: tuple[StoryBatch, ...]

    def differs_from(self, leader: ReplicaPicture | None) -> int | None:
        """The first offset at which this log holds something else than the leader's."""
        if leader is None or self is leader:
            return None
        others = {batch.base_offset: batch for batch in leader.batches}
        for batch in self.batches:
            if others.get(batch.base_offset) != batch:
                return batch.base_offset
        return None


class PartitionPicture(NamedTuple):
    """The partition as the controller has committed it, and every replica of it."""

    leader: str
    leader_epoch: int
    partition_epoch: int
    assignment: tuple[str, ...]
    isr: tuple[str, ...]
    elr: tuple[str, ...]
    state: str
    """under-replicated, under-min-isr, offline, or empty."""
    replicas: tuple[ReplicaPicture, ...]

    def leading(self) -> ReplicaPicture | None:
        """The replica that takes itself for the leader."""
        return next((r for r in self.replicas if r.role == LEADER), None)


def look(stage: Stage) -> PartitionPicture:
    partition, name_of = stage.partition, stage.cast.name_of
    return PartitionPicture(
        name_of(partition.leader),
        partition.leader_epoch,
        partition.partition_epoch,
        tuple(map(name_of, partition.replicas)),
        tuple(map(name_of, partition.isr)),
        tuple(map(name_of, partition.elr)),
        _state(stage),
        tuple(
            picture
            for broker in stage.brokers.values()
            if (picture := _look_at(stage, broker)) is not None
        ),
    )


def _state(stage: Stage) -> str:
    """The glossary's words for a partition that is not whole."""
    partition = stage.partition
    if partition.leader == NO_LEADER:
        return "offline"
    minimum = stage.control.committed.topic_config(TOPIC, "min.insync.replicas")
    if len(partition.isr) < min(int(minimum or "1"), len(partition.replicas)):
        return "under-min-isr"
    wanted = len(partition.replicas) - len(partition.adding_replicas)
    return "under-replicated" if len(partition.isr) < wanted else ""


def _look_at(stage: Stage, broker: StageBroker) -> ReplicaPicture | None:
    """None if it has no log of the partition."""
    hosted = broker.hosted
    stored = StoredReplica(broker.server) if hosted is None and broker.has_log() else None
    if hosted is None and stored is None:
        return None
    role = None if hosted is None else hosted.replica.role
    seen = stored if hosted is None else hosted
    assert seen is not None, "neither hosted nor stored"
    replica = stored if hosted is None else hosted.replica
    assert replica is not None, "neither hosted nor stored"
    return ReplicaPicture(
        broker.name,
        _role(broker, role),
        stage.partition.leader_epoch if hosted is None else hosted.replica.leader_epoch,
        isinstance(role, LeaderReplica) and role.has_change_in_flight(),
        seen.log.log_start_offset,
        seen.log.log_end_offset,
        replica.high_watermark,
        _acknowledged(stage, broker),
        tuple(seen.log.epochs.entries),
        tuple(batches_of(seen.log)),
    )


def _role(broker: StageBroker, role: LeaderReplica | FollowerReplica | None) -> str:
    if not broker.running:
        return DOWN
    if isinstance(role, LeaderReplica):
        return LEADER
    return FOLLOWER if isinstance(role, FollowerReplica) else IDLE


def _acknowledged(stage: Stage, broker: StageBroker) -> int | None:
    leader = stage.leading_broker()
    hosted = leader.hosted if leader is not None else None
    role = hosted.leader if hosted is not None else None
    if role is None or broker.id not in role.progress:
        return None
    offset = role.progress[broker.id].log_end_offset
    assert offset >= NO_OFFSET, f"{broker.name} acknowledged {offset}"
    return offset
