"""What a client knows of a cluster."""

from typing import NamedTuple

NOBODY = -1


class BrokerView(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port


class PartitionView(NamedTuple):
    topic: str
    partition: int
    leader: int | None
    """None: nobody leads it."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    error: int = 0

    @property
    def preferred(self) -> int | None:
        return self.replicas[0] if self.replicas else None

    @property
    def out_of_sync(self) -> tuple[int, ...]:
        return tuple(each for each in self.replicas if each not in self.isr)


class TopicView(NamedTuple):
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionView, ...]
    error: int = 0

    @property
    def replication_factor(self) -> int:
        return max((len(each.replicas) for each in self.partitions), default=0)


class ClusterView(NamedTuple):
    cluster_id: str | None
    controller: int
    brokers: dict[int, BrokerView]
    topics: dict[str, TopicView]
