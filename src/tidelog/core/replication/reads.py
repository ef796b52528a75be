"""Rules about reading that leader and follower share (replication.md §6, §8.2, §9).

Call them through this module: each is one rule, and a rule is proved by replacing it.
"""

from typing import NamedTuple

from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.replication.inputs import FetchDecision
from tidelog.core.replication.log_view import LogView
from tidelog.core.replication.state import ReplicaState
from tidelog.core.types import NO_EPOCH, NO_OFFSET, EpochEnd


class Position(NamedTuple):
    """Is a fetch position part of this log? Diverging is not an error: it says where to cut."""

    error: Error
    diverging: EpochEnd | None

    @property
    def is_sound(self) -> bool:
        return self.error is NO_ERROR and self.diverging is None


_SOUND = Position(NO_ERROR, None)
_OUT_OF_RANGE = Position(Error.OFFSET_OUT_OF_RANGE, None)


def fence(request_epoch: int, local_epoch: int) -> Error:
    """KIP-320: both sides must speak of the same leader epoch. A peer that is behind must learn
    of the new leader first; when we are behind, we cannot judge the request yet."""
    if request_epoch in (local_epoch, NO_EPOCH):
        return NO_ERROR
    if request_epoch < local_epoch:
        return Error.FENCED_LEADER_EPOCH
    return Error.UNKNOWN_LEADER_EPOCH


def diverges(end: EpochEnd, last_fetched_epoch: int, fetch_offset: int) -> bool:
    """The reader's last record is not in this log: its epoch is unknown here, or ended earlier."""
    return end.leader_epoch < last_fetched_epoch or end.end_offset < fetch_offset


def check_position(log: LogView, fetch_offset: int, last_fetched_epoch: int) -> Position:
    """Rows 6 to 8 of replication.md §6."""
    log_end_offset = log.log_end_offset
    if fetch_offset < log.log_start_offset:
        return _OUT_OF_RANGE
    epochs = log.epochs
    if last_fetched_epoch == epochs.latest_epoch and fetch_offset <= log_end_offset:
        return _SOUND  # nearly every fetch: both ends are in the same epoch
    if last_fetched_epoch != NO_EPOCH:
        end = epochs.end_offset_for(last_fetched_epoch, log_end_offset)
        if end.leader_epoch == NO_EPOCH:
            return _OUT_OF_RANGE
        if diverges(end, last_fetched_epoch, fetch_offset):
            return Position(NO_ERROR, end)
    if fetch_offset > log_end_offset:
        return _OUT_OF_RANGE
    return _SOUND


def consumer_limit(state: ReplicaState, read_committed: bool) -> int:
    """Consumers never see an offset that could still disappear."""
    return state.last_stable_offset if read_committed else state.high_watermark


def is_awaiting_high_watermark(
    fetch_offset: int, *, high_watermark: int, leader_epoch_start_offset: int
) -> bool:
    """Source documents, "Temporary decreased high watermark" (KIP-207): a new leader may not
    know yet that the offset is committed. The reader has to ask again, never to reset."""
    return high_watermark < fetch_offset <= leader_epoch_start_offset


def refused(state: ReplicaState, error: Error) -> FetchDecision:
    assert error is not NO_ERROR, "refused without an error"
    return FetchDecision(
        error,
        None,
        NO_OFFSET,
        NO_OFFSET,
        state.high_watermark,
        state.last_stable_offset,
        state.log.log_start_offset,
    )


def told_to_truncate(state: ReplicaState, diverging: EpochEnd) -> FetchDecision:
    return FetchDecision(
        NO_ERROR,
        diverging,
        NO_OFFSET,
        NO_OFFSET,
        state.high_watermark,
        state.last_stable_offset,
        state.log.log_start_offset,
    )


def served(state: ReplicaState, read_from: int, read_to: int) -> FetchDecision:
    return FetchDecision(
        NO_ERROR,
        None,
        read_from,
        read_to,
        state.high_watermark,
        state.last_stable_offset,
        state.log.log_start_offset,
    )
