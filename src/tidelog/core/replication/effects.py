"""What a replica wants done. The shell performs effects in the order they are listed.

Ordering duties: AssignEpoch is performed before a record of that epoch is appended or anything
is answered (its checkpoint may be written later, ADR 0028); TruncateLog, RestartLog and
AppendBatches are reported back to the follower before its next fetch is requested.
"""

from typing import NamedTuple

from tidelog.core.errors import Error
from tidelog.core.events import Event
from tidelog.core.requests import IsrProposal
from tidelog.core.types import BatchHeader, PartitionId


class AnswerProduce(NamedTuple):
    """A parked acks=all produce is decided: NONE, 6, 7 or 20."""

    partition: PartitionId
    token: object
    error: Error


class ProposeIsr(NamedTuple):
    """Ask the controller for this in-sync set. Never a second one before the first is decided."""

    proposal: IsrProposal


class AssignEpoch(NamedTuple):
    """Enter the new leader's epoch into the history, even though it has written nothing yet."""

    partition: PartitionId
    leader_epoch: int
    start_offset: int


class TruncateLog(NamedTuple):
    """`truncate_to(offset)`, then `follower.on_truncated(now_ms)`."""

    partition: PartitionId
    offset: int


class AppendBatches(NamedTuple):
    """`append_as_follower(batches)`, then `follower.on_appended(effect, now_ms)`."""

    partition: PartitionId
    batches: tuple[BatchHeader, ...]
    leader_high_watermark: int
    leader_log_start: int


class RestartLog(NamedTuple):
    """`truncate_fully_and_start_at(offset)`, then `follower.on_truncated(now_ms)`."""

    partition: PartitionId
    offset: int


class RaiseLogStart(NamedTuple):
    """The leader deleted records up to here."""

    partition: PartitionId
    offset: int


class AskLeaderOffsets(NamedTuple):
    """Ask the leader for its log start and end; answer with `follower.on_leader_offsets`."""

    partition: PartitionId
    leader: int
    leader_epoch: int


Effect = (
    AnswerProduce
    | ProposeIsr
    | AssignEpoch
    | TruncateLog
    | AppendBatches
    | RestartLog
    | RaiseLogStart
    | AskLeaderOffsets
    | Event
)
