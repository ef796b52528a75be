"""What travels between simulated nodes and clients, besides the quorum's own messages.

Requests carry a number that their reply repeats; a late or doubled reply finds nobody waiting.
"""

from typing import NamedTuple

from tidelog.core.coordination import Marker
from tidelog.core.errors import Error
from tidelog.core.groups.requests import CommitTransactionalOffsets, ConnectionLost
from tidelog.core.replication.inputs import ConsumerFetch, FetchAnswer, FollowerFetch
from tidelog.core.requests import ControllerRequest, ControllerResponse
from tidelog.core.types import EpochEnd, PartitionId
from tidelog.sim.sim_log import Aborted, SimBatch


class ControllerCall(NamedTuple):
    request_id: int
    request: ControllerRequest


class ControllerReply(NamedTuple):
    request_id: int
    response: ControllerResponse


class ReplicaFetch(NamedTuple):
    """One fetch for every partition that a broker follows on the target."""

    request_id: int
    fetches: tuple[tuple[PartitionId, FollowerFetch], ...]


class ReplicaFetchReply(NamedTuple):
    request_id: int
    answers: tuple[tuple[PartitionId, FollowerFetch, FetchAnswer], ...]


class OffsetsAsk(NamedTuple):
    """A follower out of range asks its leader where the log starts and ends."""

    partition: PartitionId
    leader_epoch: int


class OffsetsReply(NamedTuple):
    partition: PartitionId
    leader_epoch: int
    error: Error
    log_start_offset: int
    log_end_offset: int


class Produce(NamedTuple):
    request_id: int
    partition: PartitionId
    batch: SimBatch
    acks: int
    timeout_ms: int
    transactional_id: str = ""
    version: int = 0
    """Of the producer's transactions; 2 if the leader has to add the partition (KIP-890)."""


class ProduceReply(NamedTuple):
    request_id: int
    error: Error
    base_offset: int


class ConsumerRead(NamedTuple):
    request_id: int
    partition: PartitionId
    fetch: ConsumerFetch
    max_batches: int
    max_wait_ms: int


class ConsumerReadReply(NamedTuple):
    request_id: int
    error: Error
    batches: tuple[SimBatch, ...]
    log_start_offset: int
    diverging: EpochEnd | None
    preferred_replica: int
    aborted: tuple[Aborted, ...] = ()
    """For a `read_committed` consumer: what it has to leave out."""


class LatestAsk(NamedTuple):
    """ListOffsets(latest) by a client."""

    request_id: int
    partition: PartitionId
    leader_epoch: int


class LatestReply(NamedTuple):
    request_id: int
    error: Error
    offset: int


class WhoLeads(NamedTuple):
    request_id: int
    partition: PartitionId


class WhoLeadsReply(NamedTuple):
    request_id: int
    leader: int
    leader_epoch: int


# -- coordinators


class Connection:
    """What TCP forbids, for protocols that rely on it: on one connection nothing arrives twice,
    and what was sent is not read any more once whoever sent it has closed it."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open = True

    def close(self) -> None:
        self._open = False

    def delivers(self) -> bool:
        """Once, and only while nobody has closed it."""
        was_open, self._open = self._open, False
        return was_open


class CoordinatorCall(NamedTuple):
    """A request to the coordinator that lives on this partition of an internal topic."""

    request_id: int
    partition: PartitionId
    request: object
    connection: Connection | None = None
    """None where late and doubled requests must do no harm."""
    committed_end: int = 0
    """Of that partition when the client asked; for the rules alone."""


class ConnectionClosed(NamedTuple):
    """What the machine of a client does when its process ends, and networks at times: the
    coordinator on this partition gets to know that a connection is gone."""

    partition: PartitionId
    hint: ConnectionLost


class CoordinatorReply(NamedTuple):
    request_id: int
    error: Error
    """NONE if the machine itself has answered."""
    response: object = None


class OffsetsOfTransaction(NamedTuple):
    """TxnOffsetCommit: as `CoordinatorCall`, but the transaction is looked at first."""

    request_id: int
    partition: PartitionId
    request: CommitTransactionalOffsets
    transactional_id: str
    version: int
    connection: Connection | None = None


class WriteMarkers(NamedTuple):
    """WriteTxnMarkers: a transaction coordinator has the end of a transaction written."""

    request_id: int
    marker: Marker
    version: int
    partitions: tuple[PartitionId, ...]
    connection: Connection | None = None


class WriteMarkersReply(NamedTuple):
    request_id: int
    results: tuple[tuple[PartitionId, Error], ...]
