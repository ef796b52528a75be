"""What transactional clients of a run did and were told, for the rules to compare with the logs."""

from typing import Final

from tidelog.core.coordination import ProducerStamp
from tidelog.core.types import PartitionId

NOT_YET: Final = ""
COMMIT: Final = "commit"
ABORT: Final = "abort"


class SimTransaction:
    """One transaction as its client knows it."""

    __slots__ = ("acknowledged", "asked", "number", "stamp", "told", "transactional_id", "values")

    def __init__(self, number: int, transactional_id: str, stamp: ProducerStamp) -> None:
        self.number = number
        self.transactional_id = transactional_id
        self.stamp = stamp
        self.values: dict[int, PartitionId] = {}
        """Everything it sent, whether or not it arrived."""
        self.acknowledged: dict[int, PartitionId] = {}
        self.asked = NOT_YET
        """What its client asked for; from then on it may happen."""
        self.told = NOT_YET
        """What its client was told has happened."""

    def __str__(self) -> str:
        return (
            f"transaction {self.number} of {self.transactional_id}"
            f" (producer {self.stamp.producer_id} epoch {self.stamp.producer_epoch})"
        )


class TransactionBook:
    """All transactions of a run. Records and offsets name the one they belong to."""

    __slots__ = ("_by_number", "_by_value")

    def __init__(self) -> None:
        self._by_number: dict[int, SimTransaction] = {}
        self._by_value: dict[int, SimTransaction] = {}

    def begin(self, transactional_id: str, stamp: ProducerStamp) -> SimTransaction:
        number = len(self._by_number) + 1
        transaction = SimTransaction(number, transactional_id, stamp)
        self._by_number[number] = transaction
        return transaction

    def sends(
        self, transaction: SimTransaction, partition: PartitionId, values: tuple[int, ...]
    ) -> None:
        for value in values:
            transaction.values[value] = partition
            self._by_value[value] = transaction

    def of_value(self, value: int) -> SimTransaction | None:
        return self._by_value.get(value)

    def numbered(self, number: int) -> SimTransaction | None:
        return self._by_number.get(number)

    def all(self) -> list[SimTransaction]:
        return list(self._by_number.values())
