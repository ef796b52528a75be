"""What goes into a replica: settings, metadata, requests, and the decisions that answer them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.core.errors import Error
from tidelog.core.metadata.records import RECOVERED
from tidelog.core.replication.producers import AppendedBatch
from tidelog.core.types import NO_EPOCH, NO_OFFSET, BatchHeader, EpochEnd

ACKS_NONE = 0
ACKS_LEADER = 1
ACKS_ALL = -1

LATEST = -1
EARLIEST = -2

NO_REPLICA = -1


class ReplicaView(NamedTuple):
    """A replica as a selector sees it."""

    broker_id: int
    rack: str | None
    log_start_offset: int
    log_end_offset: int
    last_caught_up_ms: int


ReplicaSelector = Callable[[str | None, ReplicaView, Sequence[ReplicaView]], int]
"""(the consumer's rack, the leader, other candidates) → the broker to read from."""


@dataclass(slots=True)
class ReplicaSettings:
    """Shared with the shell, which may change a value live and then tells the replica."""

    replica_lag_time_max_ms: int = 30_000
    replica_fetch_backoff_ms: int = 1_000
    min_insync_replicas: int = 1
    replica_selector: ReplicaSelector | None = None


class BrokerStatus(NamedTuple):
    """A broker per local metadata. `active`: unfenced and not in controlled shutdown."""

    broker_epoch: int
    active: bool
    rack: str | None = None


class PartitionMetadata(NamedTuple):
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = RECOVERED


class FollowerFetch(NamedTuple):
    """ "I hold everything below `fetch_offset`." `replica_epoch` is the follower's broker epoch;
    -1 stands for unknown there and for absent in `last_fetched_epoch`."""

    replica_id: int
    replica_epoch: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class ConsumerFetch(NamedTuple):
    """`leader_only`: the request is too old to carry a rack, so only the leader may answer."""

    fetch_offset: int
    leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    read_committed: bool = False
    rack: str | None = None
    understands_offset_not_available: bool = True
    leader_only: bool = False


class FetchDecision(NamedTuple):
    """How to answer a fetch. Read whole batches from `read_from` that end before `read_to`."""

    error: Error
    diverging: EpochEnd | None
    read_from: int
    read_to: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    preferred_replica: int = NO_REPLICA


class FetchAnswer(NamedTuple):
    """What a follower receives. A batch is anything with a header; its bytes are the shell's."""

    error: Error
    diverging: EpochEnd | None
    high_watermark: int
    log_start_offset: int
    batches: tuple[BatchHeader, ...] = ()


class ProduceCheck(NamedTuple):
    """NONE without a duplicate: append. NONE with one: answer its offsets, after the same wait
    for the high watermark that the first append owed."""

    error: Error
    duplicate: AppendedBatch | None


class OffsetAnswer(NamedTuple):
    error: Error
    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH
