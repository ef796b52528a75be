"""Which batch belongs to which transaction, found out from what brokers are asked and answer.

A transaction begins when its coordinator lets the producer add its first partition. It is over when
its producer was told so, or when the producer goes on in another epoch. A batch that a leader
appends later, before the next one begins, still belongs to it: producers of version 1 keep their
epoch, and nothing in the batch says that it is late.
"""

from collections.abc import Sequence
from typing import Any

from tidelog.core.coordination import ProducerStamp
from tidelog.core.errors import NO_ERROR
from tidelog.core.transactions.requests import AddPartitions, EndTransaction
from tidelog.sim.nodes.view import NodesView
from tidelog.sim.rules.view import ACKS_ALL, RecordBatch, ReplicaFace
from tidelog.sim.transaction_book import ABORT, COMMIT, NOT_YET, SimTransaction


class TransactionsSeen:
    """Fills the book of transactions. A witness of the judge."""

    __slots__ = ("_book", "_ids", "_newest")

    def __init__(self, view: NodesView) -> None:
        self._book = view.books.transactions
        self._ids: dict[int, str] = {}
        """Producer id → transactional id, as its coordinator was told."""
        self._newest: dict[ProducerStamp, SimTransaction] = {}
        """The newest transaction of every epoch of a producer."""

    # -- what coordinators are asked and answer

    def on_asked(self, request: object) -> None:
        if isinstance(request, AddPartitions | EndTransaction):
            self._ids[request.producer_id] = request.transactional_id
        if isinstance(request, EndTransaction):
            transaction = self._meant_by(request)
            if transaction is not None and transaction.asked == NOT_YET:
                transaction.asked = COMMIT if request.commit else ABORT

    def on_answered(self, request: object, response: Any) -> None:
        if response.error is not NO_ERROR:
            return
        if isinstance(request, EndTransaction):
            transaction = self._meant_by(request)
            if transaction is not None and transaction.told == NOT_YET:
                transaction.told = COMMIT if request.commit else ABORT
        elif isinstance(request, AddPartitions) and not request.verify_only:
            newest = self._meant_by(request)
            if newest is None or newest.told != NOT_YET:
                self._begin(ProducerStamp(request.producer_id, request.producer_epoch))

    def _meant_by(self, request: AddPartitions | EndTransaction) -> SimTransaction | None:
        return self._newest.get(ProducerStamp(request.producer_id, request.producer_epoch))

    # -- hooks of the judge

    def leader_appended(self, replica: ReplicaFace, batch: RecordBatch) -> None:
        if not batch.is_transactional or batch.is_control:
            return
        transaction = self._transaction_of(batch)
        self._book.sends(transaction, replica.partition, batch.values)

    def produce_acked(self, replica: ReplicaFace, batch: RecordBatch, acks: int) -> None:
        if acks == ACKS_ALL and batch.is_transactional and not batch.is_control:
            self._acknowledge(replica, batch.values)

    def _acknowledge(self, replica: ReplicaFace, values: Sequence[int]) -> None:
        for value in values:
            transaction = self._book.of_value(value)
            if transaction is not None:
                transaction.acknowledged[value] = replica.partition

    def _transaction_of(self, batch: RecordBatch) -> SimTransaction:
        stamp = ProducerStamp(batch.producer_id, batch.producer_epoch)
        return self._newest.get(stamp) or self._begin(stamp)

    def _begin(self, stamp: ProducerStamp) -> SimTransaction:
        transactional_id = self._ids.get(stamp.producer_id, "")
        transaction = self._newest[stamp] = self._book.begin(transactional_id, stamp)
        return transaction
