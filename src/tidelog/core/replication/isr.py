"""The in-sync set of a led partition and the one change that may be in flight (§8.3 to §8.5).

        expand proposed             adopted, certainly refused, or overridden by metadata
    Committed ─────────→ PendingExpand ─────────────────────────────────────→ Committed
        shrink proposed
    Committed ─────────→ PendingShrink ─────────────────────────────────────→ Committed

While a change is in flight nobody here knows whether the controller has committed it, so the
high watermark waits for the *maximal* set: every replica that may be in the ISR. A joining
replica counts from the moment it is proposed, a leaving one until its removal is committed.
"""

from typing import NamedTuple

from tidelog.core.errors import Error
from tidelog.core.requests import IsrProposal, IsrResult


class CommittedIsr(NamedTuple):
    isr: tuple[int, ...]

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return self.isr

    @property
    def proposed_isr(self) -> tuple[int, ...]:
        return self.isr


class PendingExpand(NamedTuple):
    isr: tuple[int, ...]
    maximal_isr: tuple[int, ...]
    proposal: IsrProposal

    @property
    def proposed_isr(self) -> tuple[int, ...]:
        return self.maximal_isr


class PendingShrink(NamedTuple):
    isr: tuple[int, ...]
    proposed_isr: tuple[int, ...]
    proposal: IsrProposal

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return self.isr


IsrState = CommittedIsr | PendingExpand | PendingShrink

ADOPT = 0
REVERT = 1
STAY_PENDING = 2


def outcome(
    pending: PendingExpand | PendingShrink, result: IsrResult, *, partition_epoch: int
) -> int:
    """What the controller's answer means for the change it answers (replication.md §8.5)."""
    if result.error is not Error.NONE:
        return REVERT if certainly_not_applied(result.error) else STAY_PENDING
    if result.leader_epoch != pending.proposal.leader_epoch:
        return STAY_PENDING
    if result.partition_epoch > partition_epoch:
        return ADOPT
    if result.partition_epoch == partition_epoch and same_members(result.isr, pending.proposed_isr):
        return ADOPT  # it was so already
    return STAY_PENDING


def certainly_not_applied(error: Error) -> bool:
    """Only these two prove that the change is not in the metadata log and never will be.
    After any other error it may have been committed and its answer lost, and a leader that
    forgot a joining replica would acknowledge records the replica does not hold."""
    return error in (Error.INELIGIBLE_REPLICA, Error.OPERATION_NOT_ATTEMPTED)


def same_members(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return sorted(one) == sorted(other)


def is_retried(error: Error) -> bool:
    """Errors that say nothing about the change: the same proposal is sent again."""
    return error not in _DECIDED


_DECIDED = (
    Error.NONE,
    Error.INELIGIBLE_REPLICA,
    Error.OPERATION_NOT_ATTEMPTED,
    Error.FENCED_LEADER_EPOCH,
    Error.INVALID_UPDATE_VERSION,
    Error.INVALID_REQUEST,
    Error.UNKNOWN_TOPIC_ID,
    Error.UNKNOWN_TOPIC_OR_PARTITION,
    Error.NEW_LEADER_ELECTED,
)
