"""Rules about what producers were promised (replication.md §12, rules 6 and 13)."""

from tidelog.core.errors import Error
from tidelog.core.replication.producers import AppendedBatch
from tidelog.core.types import PartitionId
from tidelog.sim.rules.chronicle import Chronicle, PartitionFacts, has_batch
from tidelog.sim.rules.rule import Rule
from tidelog.sim.rules.view import (
    ACKS_ALL,
    LogFace,
    RecordBatch,
    ReplicaFace,
    Report,
    WorldView,
    label,
    leads,
)

_NOTHING_APPENDED = (
    Error.NOT_ENOUGH_REPLICAS,
    Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
    Error.INVALID_PRODUCER_EPOCH,
    Error.INVALID_TXN_STATE,
    Error.INVALID_REQUIRED_ACKS,
    Error.KAFKA_STORAGE_ERROR,
)


class AcknowledgedIsKept(Rule):
    """A record acknowledged with acks=all never disappears while the damage stays within what
    the promise covers: every clean leader has it, and so has the last one."""

    name = "R06 acknowledged records are kept"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        self.lost = 0
        self.forfeited = 0
        self._acked: dict[PartitionId, list[RecordBatch]] = {}
        # Per partition: leader epoch → the furthest batch acknowledged under it, its digest.
        self._furthest: dict[PartitionId, dict[int, tuple[RecordBatch, int | None]]] = {}

    def produce_acked(self, replica: ReplicaFace, batch: RecordBatch, acks: int) -> None:
        if acks != ACKS_ALL:
            return
        acked = self._acked.get(replica.partition)
        if acked is None:
            acked = self._acked[replica.partition] = []
            self._furthest[replica.partition] = {}
        acked.append(batch)
        furthest = self._furthest[replica.partition]
        before = furthest.get(replica.leader_epoch)
        if before is None or batch.last_offset > before[0].last_offset:
            digest = replica.log.chain_at(batch.last_offset + 1)
            furthest[replica.leader_epoch] = (batch, digest)

    def duplicate_answered(
        self, replica: ReplicaFace, original: AppendedBatch, _batch: RecordBatch, acks: int
    ) -> None:
        kept = replica.log.batch_at(original.first_offset)
        if kept is not None:
            self.produce_acked(replica, kept, acks)

    def became_leader(self, replica: ReplicaFace, unclean: bool) -> None:
        if unclean:
            return
        facts = self.chronicle.facts(replica.partition)
        for epoch, (batch, digest) in self._furthest.get(replica.partition, {}).items():
            if epoch < replica.leader_epoch and not _has_up_to(facts, replica.log, batch, digest):
                missing = self._missing(replica.partition, [replica.log])
                self.broken_if_durable(
                    replica.partition,
                    f"broker {replica.broker_id} leads epoch {replica.leader_epoch} without"
                    f" {len(missing)} acknowledged batches, the first at offset"
                    f" {missing[0].base_offset if missing else batch.base_offset}",
                )
                return

    def finish(self) -> None:
        self.lost = self.forfeited = 0
        for partition in self.world.partitions():
            logs = self._surviving_logs(partition)
            missing = self._missing(partition, logs)
            records = sum(batch.record_count for batch in missing)
            if self.world.expected_durable(partition):
                self.lost += records
            else:
                self.forfeited += records
            if missing:
                self.broken_if_durable(
                    partition,
                    f"{len(missing)} acknowledged batches are lost, the first at offset"
                    f" {missing[0].base_offset} of leader epoch {missing[0].leader_epoch}",
                )

    def _surviving_logs(self, partition: PartitionId) -> list[LogFace]:
        """The leader's log; without a leader those that may become it."""
        facts = self.chronicle.facts(partition)
        leading = [each for each in self.world.replicas(partition) if leads(each)]
        if leading:
            return [max(leading, key=lambda each: each.leader_epoch).log]
        eligible = (*facts.state.isr, *facts.state.elr)
        return [log for broker, log in self.world.all_logs(partition) if broker in eligible]

    def _missing(self, partition: PartitionId, logs: list[LogFace]) -> list[RecordBatch]:
        return [
            batch
            for batch in self._acked.get(partition, ())
            if not any(_has(log, batch) for log in logs)
        ]


def _has(log: LogFace, batch: RecordBatch) -> bool:
    if batch.last_offset < log.log_start_offset:
        return True  # deleted by retention, not lost
    return has_batch(log, batch)


def _has_up_to(facts: PartitionFacts, log: LogFace, batch: RecordBatch, digest: int | None) -> bool:
    if facts.chained and not log.log_start_offset:
        return log.chain_at(batch.last_offset + 1) == digest
    return _has(log, batch)


class AcknowledgedIsCommitted(Rule):
    """acks=all is answered only when the high watermark has passed the records, under the same
    uninterrupted leadership that appended them, and with enough replicas in sync; a refusal
    for too few replicas or a wrong sequence appends nothing."""

    name = "R13 acknowledged means committed"

    def produce_acked(self, replica: ReplicaFace, batch: RecordBatch, acks: int) -> None:
        if acks != ACKS_ALL:
            return
        facts = self.chronicle.facts(replica.partition)
        self._check_committed(replica, batch.last_offset + 1)
        began = facts.tenure_start.get(replica.broker_id)
        if began is None or batch.base_offset < began:
            self.broken(
                f"{label(facts.id)}: broker {replica.broker_id} acknowledged offset"
                f" {batch.base_offset}, its present leadership began at {began}"
            )
        kept = replica.log.batch_at(batch.base_offset)
        if kept is not batch and kept != batch:
            self.broken(
                f"{label(facts.id)}: broker {replica.broker_id} acknowledged {batch}, its log has"
                f" {kept} there"
            )
        self._check_enough(facts, replica)

    def duplicate_answered(
        self, replica: ReplicaFace, original: AppendedBatch, _batch: RecordBatch, acks: int
    ) -> None:
        if acks == ACKS_ALL:
            self._check_committed(replica, original.last_offset + 1)

    def produce_refused(self, replica: ReplicaFace, error: Error, end_before: int) -> None:
        end = replica.log.log_end_offset
        if error in _NOTHING_APPENDED and end != end_before:
            self.broken(
                f"{label(replica.partition)}: broker {replica.broker_id} refused a produce with"
                f" {error.name} and appended {end - end_before} records"
            )

    def _check_committed(self, replica: ReplicaFace, required: int) -> None:
        if replica.high_watermark < required:
            self.broken(
                f"{label(replica.partition)}: broker {replica.broker_id} acknowledged up to"
                f" {required} at high watermark {replica.high_watermark}"
            )

    def _check_enough(self, facts: PartitionFacts, replica: ReplicaFace) -> None:
        committed = facts.history.get(replica.partition_epoch)
        if committed is None:
            return
        effective = min(replica.settings.min_insync_replicas, len(committed.replicas))
        if len(committed.isr) >= effective:
            return
        maximal = set(committed.isr)
        for proposal in facts.outstanding(replica):
            maximal.update(member.broker_id for member in proposal.isr)
        if len(maximal) < effective:
            self.broken(
                f"{label(facts.id)}: broker {replica.broker_id} acknowledged with"
                f" {len(maximal)} replicas in sync, min ISR is {effective}"
            )
