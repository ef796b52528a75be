"""Rules about what consumers see (replication.md §12, rules 8 and 22)."""

from collections.abc import Sequence

from tidelog.core.types import PartitionId
from tidelog.sim.rules.chronicle import Chronicle, PartitionFacts
from tidelog.sim.rules.rule import Rule
from tidelog.sim.rules.view import LogFace, RecordBatch, ReplicaFace, Report, WorldView


class ReadsAreCommitted(Rule):
    """Whichever replica a consumer reads from, it sees only committed records, and never two
    different ones at one offset. Replicas compact for themselves: one may have fewer of them."""

    name = "R22 reads are committed and agree"

    def consumer_read(
        self,
        consumer: int,
        replica: ReplicaFace,
        batches: Sequence[RecordBatch],
        _read_from: int,
    ) -> None:
        facts = self.chronicle.facts(replica.partition)
        ends = facts.ends
        for batch in batches:
            known = ends.get(batch.last_offset + 1)
            if known is batch or known == batch:
                continue
            if not is_left_by_compaction(replica.log, batch, known):
                self._strange(consumer, replica, facts, batch)

    def _strange(
        self, consumer: int, replica: ReplicaFace, facts: PartitionFacts, batch: RecordBatch
    ) -> None:
        if batch.last_offset >= facts.committed_end:
            text = f"no leader's high watermark has passed {facts.committed_end}"
        else:
            text = f"committed there is {facts.ends.get(batch.last_offset + 1)}"
        self.broken_if_durable(
            facts.id,
            f"consumer {consumer} read offsets {batch.base_offset} to {batch.last_offset} of"
            f" leader epoch {batch.leader_epoch} from broker {replica.broker_id} at high"
            f" watermark {replica.high_watermark}; {text}",
        )


def is_left_by_compaction(log: LogFace, batch: RecordBatch, known: RecordBatch | None) -> bool:
    """Compaction keeps the place, the epoch and the producer of a batch, and never adds records.
    Where all of them stay, their delete horizon may be new."""
    return (
        log.may_have_gaps
        and known is not None
        and _place(batch) == _place(known)
        and batch.record_count <= known.record_count
    )


def _place(batch: RecordBatch) -> tuple[int, ...]:
    return (
        batch.base_offset,
        batch.last_offset,
        batch.leader_epoch,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
    )


class ReadsStay(Rule):
    """In clean history what a consumer has read is in the log of every later leader."""

    name = "R08 what was read stays"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        # Per partition: the furthest batch read, and the leader epoch its reader was served in.
        self._furthest: dict[PartitionId, tuple[RecordBatch, int]] = {}

    def consumer_read(
        self,
        _consumer: int,
        replica: ReplicaFace,
        batches: Sequence[RecordBatch],
        _read_from: int,
    ) -> None:
        if not batches:
            return
        last = batches[-1]
        before = self._furthest.get(replica.partition)
        if before is None or last.last_offset > before[0].last_offset:
            self._furthest[replica.partition] = (last, replica.leader_epoch)

    def became_leader(self, replica: ReplicaFace, unclean: bool) -> None:
        furthest = self._furthest.get(replica.partition)
        if furthest is not None and not unclean and furthest[1] < replica.leader_epoch:
            self._check(replica, furthest[0])

    def finish(self) -> None:
        for partition, (batch, epoch) in self._furthest.items():
            facts = self.chronicle.facts(partition)
            leader = facts.replicas.get(facts.state.leader)
            if leader is not None and not facts.removed and epoch <= leader.leader_epoch:
                self._check(leader, batch)

    def _check(self, leader: ReplicaFace, batch: RecordBatch) -> None:
        log = leader.log
        if batch.last_offset < log.log_start_offset:
            return
        kept = log.batch_at(batch.base_offset)
        if kept != batch and not is_left_by_compaction(log, batch, kept):
            self.broken_if_durable(
                leader.partition,
                f"a consumer read {batch}; leader {leader.broker_id} of epoch"
                f" {leader.leader_epoch} has {kept} there",
            )
