"""Recognises the marks of coordinators: groups and transactions in rare states."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tidelog.core import events
from tidelog.core.coordination import CoordinatorMachine
from tidelog.core.errors import Error
from tidelog.core.groups.classic_rebalance import CONNECTION_LOST, SESSION_EXPIRED
from tidelog.core.groups.requests import CommitOffsets, CommitTransactionalOffsets, FetchOffsets
from tidelog.core.transactions.machine import TIMED_OUT, TransactionMachine
from tidelog.core.transactions.records import TransactionState
from tidelog.core.transactions.requests import AddPartitions, EndTransaction
from tidelog.core.types import PartitionId
from tidelog.sim.rules.chronicle import Chronicle
from tidelog.sim.rules.view import ReplicaFace

if TYPE_CHECKING:
    from tidelog.sim.nodes.marks import Surroundings

AT_REST: Final = ("Stable", "Empty", "Dead")
OVER: Final = (Error.ILLEGAL_GENERATION, Error.STALE_MEMBER_EPOCH, Error.UNKNOWN_MEMBER_ID)


class CoordinationMarks:
    """A witness of the judge; `events` is what else it wants to see."""

    __slots__ = ("_chronicle", "_marks", "_states", "_world", "events")

    def __init__(self, world: Surroundings) -> None:
        self._world = world
        self._marks = world.marks
        self._states: dict[str, str] = {}
        self.events: dict[type, Callable[[Any], None]] = {
            events.GroupStateChanged: self._on_state,
            events.MemberLeft: self._on_left,
            events.TransactionAborted: self._on_aborted,
        }

    def attend(self, chronicle: Chronicle) -> None:
        self._chronicle = chronicle

    # -- events

    def _on_state(self, event: events.GroupStateChanged) -> None:
        self._states[event.group_id] = event.state

    def _on_left(self, event: events.MemberLeft) -> None:
        if event.reason == SESSION_EXPIRED:
            self._marks.add("member_expired")
        elif event.reason == CONNECTION_LOST:
            self._marks.add("member_missed")

    def _on_aborted(self, event: events.TransactionAborted) -> None:
        if event.reason == TIMED_OUT:
            self._marks.add("transaction_timed_out")

    # -- hooks of the judge

    def coordinator_answered(
        self, _partition: PartitionId, request: object, response: Any, _floor: int
    ) -> None:
        error = response.error
        if isinstance(request, FetchOffsets):
            if any(each.error == Error.UNSTABLE_OFFSET_COMMIT for each in response.offsets):
                self._marks.add("offsets_told_unstable")
        elif error == Error.NONE:
            return
        elif isinstance(request, EndTransaction) and error == Error.PRODUCER_FENCED:
            self._marks.add("end_txn_refused_old_epoch")
        elif isinstance(request, AddPartitions) and error == Error.PRODUCER_FENCED:
            self._marks.add("producer_fenced")
        elif isinstance(request, CommitOffsets) and error in OVER:
            self._marks.add("commit_refused_old_generation")
        elif isinstance(request, CommitTransactionalOffsets) and error in OVER:
            self._marks.add("transactional_commit_refused_old_generation")

    def produce_refused(self, _replica: ReplicaFace, error: Error, _end: int) -> None:
        if error == Error.INVALID_PRODUCER_EPOCH:
            self._marks.add("late_batch_refused")

    # -- what the shell tells, where it happens

    def took_office(self, partition: PartitionId, machine: CoordinatorMachine) -> None:
        """A coordinator has read the log of its predecessor."""
        if isinstance(machine, TransactionMachine):
            for value in machine.transactions.values():
                if value.state is TransactionState.PREPARE_COMMIT:
                    self._marks.add("prepare_commit_at_coordinator_move")
        elif self._chronicle.groups.has_pending(partition):
            self._marks.add("pending_offsets_at_coordinator_move")

    def resigning(self, partition: PartitionId) -> None:
        """Somebody else coordinates."""
        books = self._world.books
        for group_id, state in self._states.items():
            if state not in AT_REST and books.group_partition(group_id) == partition:
                self._marks.add("coordinator_moved_while_rebalancing")

    def marker_refused(self, error: Error) -> None:
        if error == Error.TRANSACTION_COORDINATOR_FENCED:
            self._marks.add("marker_from_stale_coordinator")
        elif error == Error.INVALID_PRODUCER_EPOCH:
            self._marks.add("marker_refused_old_epoch")
