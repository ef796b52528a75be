"""The metadata image: the state after replaying a prefix of the metadata log.

Only `replay` changes an image, and it knows nothing but the record and the image, so equal
prefixes give equal images on every node.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidelog.core.metadata import records as r
from tidelog.core.metadata.partition_index import PartitionIndex, PartitionSet
from tidelog.core.security.acls import Acl
from tidelog.core.security.quota_keys import Entity
from tidelog.core.security.scram import ScramCredential
from tidelog.core.types import NO_LEADER, PartitionId


@dataclass(slots=True)
class BrokerRegistration:
    broker_id: int
    incarnation_id: bytes
    broker_epoch: int
    endpoints: tuple[r.Endpoint, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[bytes, ...]

    @property
    def active(self) -> bool:
        """May lead partitions and join an ISR."""
        return not self.fenced and not self.in_controlled_shutdown

    def copy(self) -> "BrokerRegistration":
        return BrokerRegistration(
            self.broker_id,
            self.incarnation_id,
            self.broker_epoch,
            self.endpoints,
            self.rack,
            self.fenced,
            self.in_controlled_shutdown,
            self.log_dirs,
        )


@dataclass(slots=True)
class PartitionState:
    id: PartitionId
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0]

    def copy(self) -> "PartitionState":
        return PartitionState(
            self.id,
            self.replicas,
            self.isr,
            self.removing_replicas,
            self.adding_replicas,
            self.leader,
            self.leader_recovery_state,
            self.leader_epoch,
            self.partition_epoch,
            self.elr,
            self.last_known_elr,
        )


@dataclass(slots=True)
class TopicState:
    name: str
    topic_id: bytes
    partitions: dict[int, PartitionState]

    def copy(self) -> "TopicState":
        partitions = {number: state.copy() for number, state in self.partitions.items()}
        return TopicState(self.name, self.topic_id, partitions)


@dataclass(slots=True)
class MetadataImage:
    """One owner per image; publish a `copy()` when somebody else needs to keep one."""

    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    topics: dict[bytes, TopicState] = field(default_factory=dict)
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    index: PartitionIndex = field(default_factory=PartitionIndex)
    foreign: dict[tuple[str, str], bytes] = field(default_factory=dict)
    """What Kafka left here and only Kafka uses, by kind and name."""
    scram_credentials: dict[tuple[int, str], ScramCredential] = field(default_factory=dict)
    """By mechanism and user."""
    acls: dict[bytes, Acl] = field(default_factory=dict)
    client_quotas: dict[Entity, dict[str, float]] = field(default_factory=dict)

    def partition(self, partition: PartitionId) -> PartitionState | None:
        topic = self.topics.get(partition.topic_id)
        return topic.partitions.get(partition.partition) if topic is not None else None

    def partitions(self) -> Iterator[PartitionState]:
        """Every partition, in creation order of topics: the order is the same on every node."""
        for topic in self.topics.values():
            yield from topic.partitions.values()

    def topic_config(self, topic: str, name: str) -> str | None:
        """Topic override, else the cluster-wide default set with an empty broker name."""
        own = self.configs.get((r.RESOURCE_TOPIC, topic), {}).get(name)
        return own if own is not None else self.configs.get((r.RESOURCE_BROKER, ""), {}).get(name)

    def is_active(self, broker: int) -> bool:
        registration = self.brokers.get(broker)
        return registration is not None and registration.active

    def leads_any(self, broker: int) -> bool:
        return self.index.leads_any(broker)

    def partitions_led_by(self, broker: int) -> list[PartitionState]:
        return self._in_order(self.index.led_by.get(broker))

    def partitions_replicated_by(self, broker: int) -> list[PartitionState]:
        return self._in_order(self.index.replicated_by.get(broker))

    def partitions_in_sync_on(self, broker: int) -> list[PartitionState]:
        return self._in_order(self.index.in_sync_on.get(broker))

    def partitions_eligible_on(self, broker: int) -> list[PartitionState]:
        """Partitions whose ELR holds this broker."""
        return self._in_order(self.index.eligible_on.get(broker))

    def partitions_without_leader(self) -> list[PartitionState]:
        return self._in_order(self.index.led_by.get(NO_LEADER))

    def partitions_displaced_from(self, broker: int) -> list[PartitionState]:
        """Partitions that prefer this broker as their leader and do not have it."""
        return self._in_order(self.index.displaced_from.get(broker))

    def copy(self) -> "MetadataImage":
        return MetadataImage(
            {broker: registration.copy() for broker, registration in self.brokers.items()},
            {topic_id: topic.copy() for topic_id, topic in self.topics.items()},
            dict(self.topic_ids),
            {resource: dict(values) for resource, values in self.configs.items()},
            dict(self.features),
            self.next_producer_id,
            self.index.copy(),
            dict(self.foreign),
            dict(self.scram_credentials),
            dict(self.acls),
            {entity: dict(values) for entity, values in self.client_quotas.items()},
        )

    def _in_order(self, partitions: PartitionSet | None) -> list[PartitionState]:
        """Sorted, because the order of an index tells how the image came about (log or
        snapshot) and a decision must not depend on that."""
        if not partitions:
            return []
        topics = self.topics
        return [topics[topic_id].partitions[number] for topic_id, number in sorted(partitions)]


__all__ = [
    "NO_LEADER",
    "BrokerRegistration",
    "MetadataImage",
    "PartitionState",
    "TopicState",
]
