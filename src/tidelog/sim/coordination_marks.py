"""Recognises the marks of coordinators: groups and transactions in rare states."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidelog.core.coordination import CoordinatorMachine, Marker
from tidelog.core.errors import Error
from tidelog.core.transactions.machine import TransactionMachine
from tidelog.core.transactions.records import TransactionState
from tidelog.core.transactions.requests import AddPartitions, EndTransaction
from tidelog.core.types import PartitionId
from tidelog.sim.rules.chronicle import Chronicle
from tidelog.sim.rules.view import ReplicaFace

if TYPE_CHECKING:
    from tidelog.coordinators.shard import Shard
    from tidelog.sim.world import World


class CoordinationMarks:
    """A witness of the judge; `events` is what else it wants to see."""

    __slots__ = ("_marks", "events")

    def __init__(self, world: World) -> None:
        self._marks = world.marks
        self.events: dict[type, Callable[[Any], None]] = {}

    def attend(self, chronicle: Chronicle) -> None:
        """All it has to know comes with what it is told."""

    # -- hooks of the judge

    def coordinator_answered(
        self, _partition: PartitionId, request: object, response: Any, _floor: int
    ) -> None:
        error = response.error
        if error == Error.NONE:
            return
        if isinstance(request, EndTransaction) and error == Error.PRODUCER_FENCED:
            self._marks.add("end_txn_refused_old_epoch")
        elif isinstance(request, AddPartitions) and error == Error.PRODUCER_FENCED:
            self._marks.add("producer_fenced")

    def produce_refused(self, replica: ReplicaFace, error: Error, _end: int) -> None:
        if error == Error.INVALID_PRODUCER_EPOCH:
            self._marks.add("late_batch_refused")

    # -- what the shell tells, where it happens

    def took_office(self, machine: CoordinatorMachine) -> None:
        """A coordinator has read the log of its predecessor."""
        if isinstance(machine, TransactionMachine):
            for value in machine.transactions.values():
                if value.state is TransactionState.PREPARE_COMMIT:
                    self._marks.add("prepare_commit_at_coordinator_move")

    def resigning(self, shard: Shard) -> None:
        """Somebody else coordinates."""

    def marker(self, shard: Shard, marker: Marker) -> None:
        """A transaction has ended in the log of a group coordinator."""

    def marker_refused(self, error: Error) -> None:
        if error == Error.TRANSACTION_COORDINATOR_FENCED:
            self._marks.add("marker_from_stale_coordinator")
        elif error == Error.INVALID_PRODUCER_EPOCH:
            self._marks.add("marker_refused_old_epoch")

    def batch_refused(self, error: Error) -> None:
        """The coordinator does not know the transaction of a batch."""
        if error in (
            Error.INVALID_PRODUCER_EPOCH,
            Error.PRODUCER_FENCED,
            Error.TRANSACTION_ABORTABLE,
            Error.INVALID_TXN_STATE,
        ):
            self._marks.add("late_batch_refused")
