"""What became of every transaction, read from the committed prefixes of the logs.

Markers decide what is open of their producer in their partition. This replay is the simulator's
own: it must not share the mistakes it is there to find.
"""

from tidelog.core.groups.records import OffsetCommit
from tidelog.core.types import PartitionId
from tidelog.sim.rules.view import RecordBatch, WorldView
from tidelog.sim.transaction_book import ABORT, COMMIT, SimTransaction

TAG = "t"
"""Before the number of the transaction, in the metadata of the offsets it commits."""


class Fates:
    """Per record: committed, aborted, or open."""

    __slots__ = ("_fates", "_open", "_world", "decisions")

    def __init__(self, world: WorldView) -> None:
        self._world = world
        self._open: dict[tuple[PartitionId, int], dict[int, SimTransaction]] = {}
        """By partition and producer: value → transaction."""
        self._fates: dict[int, str] = {}
        self.decisions: dict[int, dict[PartitionId, str]] = {}
        """Transaction → partition → what its marker there says."""

    def fate(self, value: int) -> str | None:
        """COMMIT or ABORT; None while no committed marker has decided it."""
        return self._fates.get(value)

    def follow(self, partition: PartitionId, batch: RecordBatch) -> list[SimTransaction]:
        """A committed batch of a transaction, or its end; the transactions that it ends here."""
        key = (partition, batch.producer_id)
        if not batch.is_control:
            for value in batch.values:
                transaction = self._transaction_of(value)
                if transaction is not None:
                    self._open.setdefault(key, {})[value] = transaction
            return []
        decision = COMMIT if batch.values[0] & 1 else ABORT
        ended: dict[int, SimTransaction] = {}
        for value, transaction in self._open.pop(key, {}).items():
            self._fates[value] = decision
            ended[transaction.number] = transaction
        return list(ended.values())

    def decided(self, transaction: SimTransaction, partition: PartitionId, decision: str) -> None:
        self.decisions.setdefault(transaction.number, {})[partition] = decision

    def _transaction_of(self, value: int) -> SimTransaction | None:
        book = self._world.books.transactions
        found = book.of_value(value)
        if found is not None:
            return found
        for record in self._world.books.interned(value):
            if isinstance(record, OffsetCommit) and record.value is not None:
                return transaction_named(self._world, record.value.metadata)
        return None


def transaction_named(world: WorldView, metadata: str) -> SimTransaction | None:
    if not metadata.startswith(TAG) or not metadata.removeprefix(TAG).isdigit():
        return None
    return world.books.transactions.numbered(int(metadata.removeprefix(TAG)))


def coordinator_kept(world: WorldView, transaction: SimTransaction) -> bool:
    """Is the log that its coordinator decided in expected to be whole?"""
    partition = world.books.transaction_partition(transaction.transactional_id)
    return world.expected_durable(partition)
