"""The rule about idempotent producers (replication.md §12, rule 17)."""

from tidelog.core.replication.producers import LARGEST_SEQUENCE, AppendedBatch
from tidelog.core.types import PartitionId
from tidelog.sim.rules.chronicle import Chronicle, PartitionFacts
from tidelog.sim.rules.rule import Rule
from tidelog.sim.rules.transaction_facts import coordinator_kept
from tidelog.sim.rules.view import RecordBatch, ReplicaFace, Report, WorldView, label


class OnceAndInOrder(Rule):
    """Each sequence of an idempotent producer is committed at most once and in order, and a
    retry that is recognised is answered with the offsets of the first append."""

    name = "R17 once and in order"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        # Per partition: producer id → (producer epoch, next sequence); value → offset.
        self._next: dict[PartitionId, dict[int, tuple[int, int]]] = {}
        self._offsets: dict[PartitionId, dict[int, int]] = {}

    def batch_committed(self, facts: PartitionFacts, batch: RecordBatch) -> None:
        if batch.producer_id < 0 or (batch.base_sequence < 0 and not batch.is_control):
            return  # offsets in a transaction have no sequence: their coordinator writes them
        sequences = self._next.get(facts.id)
        if sequences is None:
            sequences = self._next[facts.id] = {}
            self._offsets[facts.id] = {}
        if batch.is_control:
            self._end_transaction(facts, batch, sequences)
            return
        self._check_sequence(facts, batch, sequences)
        after = batch.base_sequence + batch.record_count
        if after > LARGEST_SEQUENCE:
            after -= LARGEST_SEQUENCE + 1
        sequences[batch.producer_id] = (batch.producer_epoch, after)
        self._check_values(facts, batch)

    def _end_transaction(
        self, facts: PartitionFacts, marker: RecordBatch, sequences: dict[int, tuple[int, int]]
    ) -> None:
        """A marker with a new epoch begins it (KIP-890): nothing older may come after it."""
        epoch, due = sequences.get(marker.producer_id, (marker.producer_epoch, 0))
        sequences[marker.producer_id] = (
            max(epoch, marker.producer_epoch),
            due if marker.producer_epoch == epoch else 0,
        )
        if marker.producer_epoch < epoch:
            self.broken_if_durable(
                facts.id,
                f"the marker at {marker.base_offset} is of producer {marker.producer_id} epoch"
                f" {marker.producer_epoch}, after records of epoch {epoch}",
            )

    def _check_sequence(
        self, facts: PartitionFacts, batch: RecordBatch, sequences: dict[int, tuple[int, int]]
    ) -> None:
        before = sequences.get(batch.producer_id)
        if before is None:
            return  # a leader accepts any first sequence of a producer it does not know
        epoch, due = before
        if batch.producer_epoch > epoch:
            due = 0
        if batch.producer_epoch < epoch or batch.base_sequence != due:
            self.broken_if_durable(
                facts.id,
                f"offset {batch.base_offset} holds sequence {batch.base_sequence} of producer"
                f" {batch.producer_id} epoch {batch.producer_epoch}; due was {due} of epoch"
                f" {max(epoch, batch.producer_epoch)}",
            )

    def _has_one_owner(self, batch: RecordBatch) -> bool:
        """A coordinator that has lost its log may give the same producer epoch out again."""
        if not batch.is_transactional:
            return True
        transaction = self.world.books.transactions.of_value(batch.values[0])
        return transaction is None or coordinator_kept(self.world, transaction)

    def _check_values(self, facts: PartitionFacts, batch: RecordBatch) -> None:
        offsets = self._offsets[facts.id]
        offset = batch.base_offset
        for value in batch.values:
            first = offsets.setdefault(value, offset)
            if first != offset:
                self.broken_if_durable(
                    facts.id,
                    f"value {value} of producer {batch.producer_id} is committed at offset"
                    f" {first} and again at {offset}",
                )
            offset += 1

    def duplicate_answered(
        self, replica: ReplicaFace, original: AppendedBatch, batch: RecordBatch, _acks: int
    ) -> None:
        if not self._has_one_owner(batch):
            return
        kept = replica.log.batch_at(original.first_offset)
        same = kept is not None and (
            (kept.base_offset, kept.last_offset) == (original.first_offset, original.last_offset)
            and (kept.producer_id, kept.producer_epoch) == (batch.producer_id, batch.producer_epoch)
            and kept.base_sequence == batch.base_sequence
            and kept.values == batch.values
        )
        if not same:
            self.broken(
                f"{label(replica.partition)}: broker {replica.broker_id} took sequence"
                f" {batch.base_sequence} of producer {batch.producer_id} for a repetition of"
                f" {original}, its log has {kept} there"
            )
