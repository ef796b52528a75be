"""Rules about single logs and pairs of logs (replication.md §12, rules 1, 2 and 11)."""

from collections.abc import Sequence
from itertools import pairwise

from tidelog.core.types import PartitionId
from tidelog.sim.rules.chronicle import Chronicle
from tidelog.sim.rules.plain_image import Committed
from tidelog.sim.rules.rule import Rule
from tidelog.sim.rules.view import LogFace, RecordBatch, ReplicaFace, Report, WorldView, label


class LogMatching(Rule):
    """Two replicas that hold the same offset from the same leader epoch hold the same log up to
    there; and whatever a follower holds, a leader of this very partition has written."""

    name = "R01 log matching"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        # Per partition and leader epoch: end of each batch → digest of the log up to it.
        self._written: dict[PartitionId, dict[int, dict[int, int | None]]] = {}

    def leader_appended(self, replica: ReplicaFace, batch: RecordBatch) -> None:
        by_epoch = self._written.get(replica.partition)
        if by_epoch is None:
            by_epoch = self._written[replica.partition] = {}
        by_end = by_epoch.get(batch.leader_epoch)
        if by_end is None:
            by_end = by_epoch[batch.leader_epoch] = {}
        end = batch.last_offset + 1
        by_end[end] = replica.log.chain_at(end)

    def follower_appended(self, replica: ReplicaFace, batches: Sequence[RecordBatch]) -> None:
        last = batches[-1]
        by_end = self._written.get(replica.partition, _NOTHING).get(last.leader_epoch, _EMPTY)
        end = last.last_offset + 1
        if end not in by_end:
            self.broken(
                f"{label(replica.partition)}: broker {replica.broker_id} appended up to offset"
                f" {end} of leader epoch {last.leader_epoch}, which no leader of it ever wrote"
            )
        elif by_end[end] != replica.log.chain_at(end) and self._comparable(replica):
            self.broken(
                f"{label(replica.partition)}: broker {replica.broker_id} has offset {end - 1} of"
                f" leader epoch {last.leader_epoch} after another history than its leader had"
            )

    def _comparable(self, replica: ReplicaFace) -> bool:
        return self.chronicle.facts(replica.partition).chained


class LogOrder(Rule):
    """Within a log offsets continue without a gap, leader epochs never fall, and the epoch
    history says of every record the epoch that is stamped on it."""

    name = "R02 log order"

    def follower_appended(self, replica: ReplicaFace, batches: Sequence[RecordBatch]) -> None:
        first = batches[0]
        before = replica.log.batch_at(first.base_offset - 1)
        epoch = before.leader_epoch if before is not None else -1
        expected = first.base_offset
        for batch in batches:
            if not follows(replica.log, expected, batch) or batch.leader_epoch < epoch:
                self._out_of_order(replica, expected, epoch, batch)
            expected = batch.last_offset + 1
            epoch = batch.leader_epoch
        if epoch > replica.leader_epoch:  # KAFKA-18723: bytes changed under a late response
            self.broken(
                f"{label(replica.partition)}: broker {replica.broker_id} in leader epoch"
                f" {replica.leader_epoch} took a batch of epoch {epoch}"
            )

    def leader_appended(self, replica: ReplicaFace, batch: RecordBatch) -> None:
        if batch.base_offset == 0:
            return
        before = replica.log.batch_at(batch.base_offset - 1)
        if before is not None and before.leader_epoch > batch.leader_epoch:
            self._out_of_order(replica, batch.base_offset, before.leader_epoch, batch)

    def sweep(self) -> None:
        for facts in self.chronicle.partitions.values():
            for broker, replica in facts.replicas.items():
                self._check_history(facts.id, broker, replica.log, only_last=True)

    def finish(self) -> None:
        """Once, every batch of every log, also on the disks of stopped brokers."""
        for partition in self.world.partitions():
            for broker, log in self.world.all_logs(partition):
                self._check_history(partition, broker, log, only_last=False)
                self._check_batches(partition, broker, log)

    def _check_history(
        self, partition: PartitionId, broker: int, log: LogFace, *, only_last: bool
    ) -> None:
        batches = log.batches
        entries = log.epochs.entries
        if any(a[0] >= b[0] or a[1] >= b[1] for a, b in pairwise(entries)):
            self.broken(f"{label(partition)}: epoch history of broker {broker} is {entries}")
        for batch in batches[-1:] if only_last else batches:
            known = log.epochs.epoch_at(batch.last_offset)
            if known != batch.leader_epoch:
                self.broken(
                    f"{label(partition)}: broker {broker} has offset {batch.last_offset} of leader"
                    f" epoch {batch.leader_epoch}, its epoch history says {known}"
                )

    def _check_batches(self, partition: PartitionId, broker: int, log: LogFace) -> None:
        batches = log.batches
        for one, next_one in pairwise(batches):
            is_next = follows(log, one.last_offset + 1, next_one)
            if not is_next or next_one.leader_epoch < one.leader_epoch:
                self.broken(f"{label(partition)}: broker {broker} has {next_one} after {one}")

    def _out_of_order(
        self, replica: ReplicaFace, expected: int, epoch: int, batch: RecordBatch
    ) -> None:
        self.broken(
            f"{label(replica.partition)}: broker {replica.broker_id} appended offset"
            f" {batch.base_offset} of leader epoch {batch.leader_epoch}"
            f" where {expected} of epoch {epoch} or later was due"
        )


def follows(log: LogFace, expected: int, batch: RecordBatch) -> bool:
    """Without a gap, unless compaction may have left one."""
    return batch.base_offset == expected or (batch.base_offset > expected and log.may_have_gaps)


class NoTruncationBelowHighWatermark(Rule):
    """In clean history a replica never cuts below a high watermark it has held. One that cannot
    read its own records may, if nobody counts on them (ADR 0036)."""

    name = "R11 no truncation below the high watermark"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        # Replicas that dropped their whole log, and where it began again: as long as it ends
        # there it is empty, and beginning earlier (the leader's log may start inside a batch)
        # cuts nothing.
        self._restarted: dict[tuple[PartitionId, int], int] = {}

    def truncated(self, replica: ReplicaFace, previous_end: int) -> None:
        who = (replica.partition, replica.broker_id)
        was_empty = self._restarted.pop(who, -1) == previous_end
        if replica.log.log_start_offset == replica.log.log_end_offset:
            self._restarted[who] = replica.log.log_end_offset
        if was_empty:
            return
        facts = self.chronicle.facts(replica.partition)
        if self._may_cut_damage(replica, facts.state):
            facts.highest_held[replica.broker_id] = replica.log.log_end_offset
            return
        held = facts.highest_held.get(replica.broker_id, 0)
        held = max(held, replica.high_watermark)  # also one it took up a moment ago, unheard
        end = replica.log.log_end_offset
        if end < held and end < previous_end:
            self.broken_if_durable(
                replica.partition,
                f"broker {replica.broker_id} cut its log from {previous_end} to {end},"
                f" below the high watermark {held} it has held",
            )

    def _may_cut_damage(self, replica: ReplicaFace, state: Committed) -> bool:
        cuts_damage = getattr(replica.role, "cuts_damage", False)
        return cuts_damage and replica.broker_id not in (*state.isr, *state.elr)


_NOTHING: dict[int, dict[int, int | None]] = {}
_EMPTY: dict[int, int | None] = {}
