"""The metadata image: the state after replaying a prefix of the metadata log.

Only `replay` changes an image, and it knows nothing but the record and the image, so equal
prefixes give equal images on every node.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidelog.core.metadata import records as r
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


@dataclass(slots=True)
class TopicState:
    name: str
    topic_id: bytes
    partitions: dict[int, PartitionState]


@dataclass(slots=True)
class MetadataImage:
    """One owner per image; publish a `copy()` when somebody else needs to keep one."""

    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    topics: dict[bytes, TopicState] = field(default_factory=dict)
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0

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


__all__ = [
    "NO_LEADER",
    "BrokerRegistration",
    "MetadataImage",
    "PartitionState",
    "TopicState",
]
