"""What a rule may look at: the world, its replicas and their logs, by their narrowest face.

Rules only look. They are written against these faces and not against the classes of `core`, so
that a rule can be tested with a stand-in of a few lines and never borrows the very function
whose mistake it is there to find.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

from tidelog.core.coordination import TopicPartition
from tidelog.core.types import BatchHeader, PartitionId
from tidelog.sim.delivery_book import DeliveryBook
from tidelog.sim.transaction_book import TransactionBook

Report = Callable[[str, str], None]
"""(name of the rule, what is wrong in one sentence)."""

Hook = Callable[..., None]

ACKS_ALL = -1


class RecordBatch(BatchHeader, Protocol):
    """A batch of the simulator: each record is one number that is unique in the run."""

    @property
    def values(self) -> tuple[int, ...]: ...


class Epochs(Protocol):
    @property
    def entries(self) -> Sequence[tuple[int, int]]: ...
    def epoch_at(self, offset: int) -> int: ...


class LogFace(Protocol):
    """A replica's log with its prefix digests: equal digests mean equal prefixes."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def durable_offset(self) -> int: ...
    @property
    def epochs(self) -> Epochs: ...
    @property
    def may_have_gaps(self) -> bool:
        """Compaction may have taken batches away."""
        ...

    @property
    def batches(self) -> Sequence[RecordBatch]: ...
    def batch_at(self, offset: int) -> RecordBatch | None: ...
    def chain_at(self, offset: int) -> int | None: ...


class Settings(Protocol):
    @property
    def min_insync_replicas(self) -> int: ...


class ReplicaFace(Protocol):
    @property
    def partition(self) -> PartitionId: ...
    @property
    def broker_id(self) -> int: ...
    @property
    def log(self) -> LogFace: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def leader(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def partition_epoch(self) -> int: ...
    @property
    def role(self) -> Any: ...


class BooksFace(Protocol):
    """What groups and transactions of a run did, and the records behind the numbers."""

    @property
    def transactions(self) -> TransactionBook: ...
    @property
    def deliveries(self) -> DeliveryBook: ...
    def interned(self, number: int) -> tuple[object, ...]:
        """The records of an internal topic that it stands for; none if it is data."""
        ...

    def read_assignment(self, assignment: bytes) -> Sequence[Hashable]:
        """What a member of the classic protocol was given."""
        ...

    def partition_named(self, name: TopicPartition) -> PartitionId: ...
    def all_partitions(self) -> Sequence[PartitionId]:
        """Those of the topics that groups and transactions use."""
        ...

    def transaction_partition(self, transactional_id: str) -> PartitionId:
        """Where the coordinator of this id lives."""
        ...


class WorldView(Protocol):
    """What the simulated world tells about itself."""

    @property
    def now_ms(self) -> int: ...
    @property
    def check_quorum_ms(self) -> int:
        """How long a leader of the quorum may go on without a majority fetching from it."""
        ...

    def replicas(self, partition: PartitionId) -> Sequence[ReplicaFace]:
        """Those of running brokers."""
        ...

    def all_logs(self, partition: PartitionId) -> Sequence[tuple[int, LogFace]]:
        """Also those of stopped brokers: what is on their disks."""
        ...

    def partitions(self) -> Sequence[PartitionId]: ...
    def expected_durable(self, partition: PartitionId) -> bool:
        """False once more damage was done than the promises cover, or a loss was asked for."""
        ...

    def quorum_nodes(self) -> Sequence[tuple[int, Any]]:
        """Running members of the quorum: (node id, QuorumNode)."""
        ...

    def incarnation_of(self, node_id: int) -> bytes | None:
        """Under which incarnation id its process runs; None when it is down."""
        ...

    @property
    def books(self) -> BooksFace: ...

    def controllers(self) -> Sequence[tuple[int, Any]]:
        """Running controllers, active and standing by: (node id, Controller)."""
        ...


def leads(replica: ReplicaFace) -> bool:
    return replica.leader == replica.broker_id


def known_end(replica: ReplicaFace, broker: int) -> int:
    """What the leader knows a replica to hold durably, -1 when it knows nothing yet."""
    if broker == replica.broker_id:
        return replica.log.durable_offset
    progress = replica.role.progress.get(broker)
    return -1 if progress is None else int(progress.log_end_offset)


def label(partition: PartitionId) -> str:
    return f"{partition.topic_id.hex()[:8] or 'topic'}-{partition.partition}"
