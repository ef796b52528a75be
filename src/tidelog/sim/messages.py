"""What travels between simulated nodes and clients, besides the quorum's own messages.

Requests carry a number that their reply repeats; a late or doubled reply finds nobody waiting.
"""

from typing import NamedTuple

from tidelog.core.errors import Error
from tidelog.core.replication.inputs import ConsumerFetch, FetchAnswer, FollowerFetch
from tidelog.core.requests import ControllerRequest, ControllerResponse
from tidelog.core.types import EpochEnd, PartitionId
from tidelog.sim.sim_log import SimBatch


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
