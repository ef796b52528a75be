"""Rules about transactions (reliability.md §1.2, rows 38 to 40 of its fault matrix)."""

from collections.abc import Sequence

from tidelog.core.coordination import TopicPartition
from tidelog.core.types import PartitionId
from tidelog.sim.delivery_book import INPUTS, Input
from tidelog.sim.rules.chronicle import Chronicle, PartitionFacts
from tidelog.sim.rules.rule import Rule
from tidelog.sim.rules.transaction_facts import coordinator_kept
from tidelog.sim.rules.view import RecordBatch, Report, WorldView, label
from tidelog.sim.transaction_book import ABORT, COMMIT, SimTransaction


class TransactionRule(Rule):
    """Promises of a transaction hold while both its coordinator's log and its partition do."""

    def _broken_if_kept(
        self, transaction: SimTransaction, partition: PartitionId, text: str
    ) -> None:
        if coordinator_kept(self.world, transaction):
            self.broken_if_durable(partition, f"{transaction}: {text}")


class CommittedReadsOnly(TransactionRule):
    """A `read_committed` consumer is shown no record of a transaction that was aborted or is
    still open."""

    name = "X1 committed reads only"

    def committed_read(
        self, consumer: int, partition: PartitionId, batches: Sequence[RecordBatch]
    ) -> None:
        for batch in batches:
            if not batch.is_transactional:
                continue
            for value in batch.values:
                fate = self.chronicle.fates.fate(value)
                if fate != COMMIT:
                    self.broken_if_durable(
                        partition,
                        f"consumer {consumer} was shown {value} at offset {batch.base_offset},"
                        f" which is {'aborted' if fate == ABORT else 'not decided'}",
                    )


class AllOrNothing(TransactionRule):
    """When one record of a transaction is committed, all of them are, in every partition; and
    all of them are if its producer was told so."""

    name = "X2 all or nothing"

    def finish(self) -> None:
        fates = self.chronicle.fates
        for transaction in self.world.books.transactions.all():
            committed = [v for v in transaction.values if fates.fate(v) == COMMIT]
            if not committed and transaction.told != COMMIT:
                continue
            for value, partition in transaction.acknowledged.items():
                if fates.fate(value) != COMMIT:
                    self._broken_if_kept(
                        transaction,
                        partition,
                        f"{len(committed)} of its {len(transaction.values)} records are"
                        f" committed, {value} is {fates.fate(value) or 'not decided'}",
                    )


class DecidedOnce(TransactionRule):
    """A transaction is committed only if its producer asked for it, aborted only if its producer
    was not told that it is committed, and never both. One marker ends one transaction, and what
    has ended in a partition does not go on there."""

    name = "X3 decided once"

    def transaction_ended(
        self, facts: PartitionFacts, batch: RecordBatch, ended: Sequence[SimTransaction]
    ) -> None:
        decision = COMMIT if batch.values[0] & 1 else ABORT
        if len(ended) > 1:
            self._broken_if_kept(
                ended[0],
                facts.id,
                f"the marker at {batch.base_offset} ends it together with"
                f" {', '.join(map(str, ended[1:]))}",
            )
        for transaction in ended:
            self._check(facts, batch, transaction, decision)

    def _check(
        self, facts: PartitionFacts, batch: RecordBatch, transaction: SimTransaction, decision: str
    ) -> None:
        where = f"the marker at {batch.base_offset} in {label(facts.id)}"
        if decision == COMMIT and transaction.asked != COMMIT:
            asked = f"asked for {transaction.asked}" if transaction.asked else "asked for nothing"
            self._broken_if_kept(transaction, facts.id, f"{where} commits it, its producer {asked}")
        if decision == ABORT and transaction.told == COMMIT:
            self._broken_if_kept(
                transaction, facts.id, f"{where} aborts it, its producer was told it is committed"
            )
        known = self.chronicle.fates.decisions.get(transaction.number, {})
        if facts.id in known:
            self._broken_if_kept(
                transaction, facts.id, f"{where} ends it, though it had ended there before"
            )
        for partition, other in known.items():
            if other != decision and partition != facts.id:
                self._broken_if_kept(
                    transaction,
                    facts.id,
                    f"{where} says {decision}, in {label(partition)} it was {other}",
                )
        self.chronicle.fates.decided(transaction, facts.id, decision)


class ExactlyOnce(TransactionRule):
    """Of whatever a group processes in transactions, each input has at most one committed
    output, and in the end exactly one."""

    name = "X5 exactly once"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        self._outputs: dict[Input, int] = {}

    def transaction_ended(
        self, facts: PartitionFacts, _batch: RecordBatch, ended: Sequence[SimTransaction]
    ) -> None:
        deliveries, fates = self.world.books.deliveries, self.chronicle.fates
        for transaction in ended:
            for value, partition in transaction.values.items():
                source = deliveries.input_of(value)
                if source is None or partition != facts.id or fates.fate(value) != COMMIT:
                    continue
                first = self._outputs.setdefault(source, value)
                if first != value and self._is_kept(source):
                    self._broken_if_kept(
                        transaction,
                        partition,
                        f"{_told(source)} has the outputs {first} and {value}",
                    )

    def finish(self) -> None:
        books = self.world.books
        for group_id, count in books.deliveries.exactly_once.items():
            for index in range(count):
                name = TopicPartition(INPUTS, index)
                end = self.chronicle.facts(books.partition_named(name)).committed_end
                for offset in range(end):
                    source = Input(group_id, name, offset)
                    if source not in self._outputs and self._is_kept(source):
                        self.broken(f"{_told(source)} has no output")

    def _is_kept(self, source: Input) -> bool:
        """Neither the input nor what the group knows of it may be lost."""
        books = self.world.books
        return all(map(self.world.expected_durable, books.all_partitions()))


def _told(source: Input) -> str:
    name = source.partition
    return f"{source.group_id}: {name.topic}-{name.partition} offset {source.offset}"
