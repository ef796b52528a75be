"""What the nodes of the metadata quorum say to each other (kraft.md §2).

Every message names the sender's epoch; every response names the leader its sender knows.
"""

from typing import NamedTuple

from tidelog.core.errors import Error
from tidelog.core.types import NO_EPOCH, EpochEnd, LogEntry


class VoterKey(NamedTuple):
    """A voter is a node together with the disk it votes with."""

    node_id: int
    directory_id: bytes


class VoteRequest(NamedTuple):
    cluster_id: str
    epoch: int
    candidate: VoterKey
    voter: VoterKey
    last_epoch: int
    last_offset: int
    pre_vote: bool


class VoteResponse(NamedTuple):
    error: Error
    epoch: int
    leader_id: int
    granted: bool
    pre_vote: bool


class BeginEpochRequest(NamedTuple):
    cluster_id: str
    epoch: int
    leader_id: int


class BeginEpochResponse(NamedTuple):
    error: Error
    epoch: int
    leader_id: int


class EndEpochRequest(NamedTuple):
    cluster_id: str
    epoch: int
    leader_id: int
    preferred_candidates: tuple[int, ...]


class EndEpochResponse(NamedTuple):
    error: Error
    epoch: int
    leader_id: int


class SnapshotId(NamedTuple):
    end_offset: int
    epoch: int


class FetchRequest(NamedTuple):
    """`high_watermark` lets the leader answer at once when the follower's is old (KIP-1166)."""

    cluster_id: str
    epoch: int
    replica: VoterKey
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int
    max_wait_ms: int


class FetchResponse(NamedTuple):
    """`fetch_offset` and `last_fetched_epoch` repeat the request: a late copy of a diverging
    answer would otherwise cut a log that has been reconciled since."""

    error: Error
    epoch: int
    leader_id: int
    fetch_offset: int
    high_watermark: int
    entries: tuple[LogEntry, ...] = ()
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    last_fetched_epoch: int = NO_EPOCH


class FetchSnapshotRequest(NamedTuple):
    cluster_id: str
    epoch: int
    replica: VoterKey
    snapshot: SnapshotId
    position: int
    max_bytes: int


class FetchSnapshotResponse(NamedTuple):
    """A chunk of an opaque snapshot: `position .. position + len(chunk)` of `size`."""

    error: Error
    epoch: int
    leader_id: int
    snapshot: SnapshotId
    size: int
    position: int
    chunk: tuple[object, ...] | bytes


class LeaderChange(NamedTuple):
    """Control record a new leader writes first, so that something of its epoch can commit."""

    leader_id: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]


class VotersRecord(NamedTuple):
    """Control record of a voter set (KIP-853). In force as soon as it is in the log."""

    voters: tuple[VoterKey, ...]


QuorumRequest = (
    VoteRequest | BeginEpochRequest | EndEpochRequest | FetchRequest | FetchSnapshotRequest
)
QuorumResponse = (
    VoteResponse | BeginEpochResponse | EndEpochResponse | FetchResponse | FetchSnapshotResponse
)
QuorumMessage = QuorumRequest | QuorumResponse
