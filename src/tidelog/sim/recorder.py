"""Writes down what the clients of a run saw, per partition, for the history checks."""

from tidelog.core.replication.inputs import ACKS_ALL
from tidelog.core.types import PartitionId
from tidelog.sim import history as h
from tidelog.sim.plan import ProducerPlan
from tidelog.sim.transaction_book import ABORT, COMMIT, SimTransaction


class Sending:
    """A send whose outcome may still come; without one it stays unknown."""

    __slots__ = ("acks_all", "base_offset", "idempotent", "partition", "process", "values")

    def __init__(
        self, process: int, plan: ProducerPlan, partition: PartitionId, values: tuple[int, ...]
    ) -> None:
        self.process = process
        self.partition = partition
        self.values = values
        self.acks_all = plan.acks == ACKS_ALL
        self.idempotent = plan.idempotent
        self.base_offset: int | None = None

    def operation(self) -> h.Operation:
        base = self.base_offset
        steps = tuple(
            h.Send(self.partition, value, None if base is None else base + index)
            for index, value in enumerate(self.values)
        )
        outcome = h.INFO if base is None else h.OK
        return h.Operation(
            self.process, outcome, steps, acks_all=self.acks_all, idempotent=self.idempotent
        )


class TransactionalSending:
    """What a transaction sent to one partition; its outcome is that of the transaction."""

    __slots__ = ("base_offset", "partition", "process", "transaction", "values")

    def __init__(
        self,
        transaction: SimTransaction,
        process: int,
        partition: PartitionId,
        values: tuple[int, ...],
    ) -> None:
        self.transaction = transaction
        self.process = process
        self.partition = partition
        self.values = values
        self.base_offset: int | None = None

    def operation(self) -> h.Operation:
        base = self.base_offset
        steps = tuple(
            h.Send(self.partition, value, None if base is None else base + index)
            for index, value in enumerate(self.values)
        )
        outcome = _OUTCOMES.get(self.transaction.told, h.INFO)
        return h.Operation(self.process, outcome, steps, transactional=True)


_OUTCOMES = {COMMIT: h.OK, ABORT: h.FAIL}


class Recorder:
    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[PartitionId, list[Sending | TransactionalSending | h.Operation]] = {}

    def sent(
        self, process: int, plan: ProducerPlan, partition: PartitionId, values: tuple[int, ...]
    ) -> Sending:
        sending = Sending(process, plan, partition, values)
        self._entries.setdefault(partition, []).append(sending)
        return sending

    def sent_in(
        self,
        transaction: SimTransaction,
        process: int,
        partition: PartitionId,
        values: tuple[int, ...],
    ) -> TransactionalSending:
        sending = TransactionalSending(transaction, process, partition, values)
        self._entries.setdefault(partition, []).append(sending)
        return sending

    def polled(self, process: int, partition: PartitionId, reads: list[h.Read]) -> None:
        operation = h.Operation(process, h.OK, (h.Poll(tuple(reads)),))
        self._entries.setdefault(partition, []).append(operation)

    def assigned(self, process: int, partition: PartitionId) -> None:
        operation = h.Operation(process, h.OK, (h.Assign(),))
        self._entries.setdefault(partition, []).append(operation)

    def of(self, partition: PartitionId) -> list[h.Operation]:
        return [
            entry if isinstance(entry, h.Operation) else entry.operation()
            for entry in self._entries.get(partition, ())
        ]
