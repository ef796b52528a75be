"""Rules about who leads and what it must hold (replication.md §12, rules 3, 4, 15 and 16), and
about whom a follower believes (ADR 0030)."""

from tidelog.core.errors import Error
from tidelog.core.replication.inputs import FetchDecision, FollowerFetch
from tidelog.core.types import PartitionId
from tidelog.sim.rules.chronicle import Chronicle
from tidelog.sim.rules.rule import Rule
from tidelog.sim.rules.view import RecordBatch, ReplicaFace, Report, WorldView, label, leads


class OneWriterPerEpoch(Rule):
    """In a leader epoch at most one broker ever appends as leader, the one the metadata names,
    and no offset of that epoch is written twice."""

    name = "R03 one writer per leader epoch"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        # Per partition: leader epoch → [who writes, next offset it may write].
        self._writers: dict[PartitionId, dict[int, list[int]]] = {}

    def leader_appended(self, replica: ReplicaFace, batch: RecordBatch) -> None:
        writers = self._writers.get(replica.partition)
        if writers is None:
            writers = self._writers[replica.partition] = {}
        writer = writers.get(batch.leader_epoch)
        if writer is None:
            self._check_elected(replica, batch.leader_epoch)
            writers[batch.leader_epoch] = [replica.broker_id, batch.last_offset + 1]
            return
        if writer[0] != replica.broker_id:
            self.broken(
                f"{label(replica.partition)}: brokers {writer[0]} and {replica.broker_id} both"
                f" append in leader epoch {batch.leader_epoch}"
            )
        elif batch.base_offset < writer[1]:
            self.broken(
                f"{label(replica.partition)}: broker {replica.broker_id} wrote offset"
                f" {batch.base_offset} of leader epoch {batch.leader_epoch} a second time"
            )
        writer[1] = batch.last_offset + 1

    def _check_elected(self, replica: ReplicaFace, epoch: int) -> None:
        elected = self.chronicle.facts(replica.partition).leader_of_epoch.get(epoch)
        if elected is not None and elected != replica.broker_id:
            self.broken(
                f"{label(replica.partition)}: broker {replica.broker_id} appends in leader epoch"
                f" {epoch}, whose leader is {elected}"
            )


class LeaderCompleteness(Rule):
    """A cleanly elected leader holds everything that leaders before it committed; and what a
    deposed leader still commits unknowingly is in its successor's log."""

    name = "R04 leader completeness"

    def became_leader(self, replica: ReplicaFace, unclean: bool) -> None:
        if unclean:
            return
        facts = self.chronicle.facts(replica.partition)
        # Not all of C(p): a leader may take up office after its successor did.
        due = facts.committed_before(replica.leader_epoch)
        if not facts.holds(replica.log, due):
            self._incomplete(replica, due)

    def high_watermark_moved(self, replica: ReplicaFace, _previous: int) -> None:
        facts = self.chronicle.facts(replica.partition)
        successor = facts.top_replica
        if successor is None or replica.leader_epoch >= facts.top_epoch or not leads(replica):
            return
        in_office = leads(successor) and successor.leader_epoch == facts.top_epoch
        if not in_office or facts.replicas.get(successor.broker_id) is not successor:
            return
        due = min(replica.high_watermark, facts.committed_end)
        if not facts.holds(successor.log, due):
            self._incomplete(successor, due)

    def _incomplete(self, replica: ReplicaFace, due: int) -> None:
        self.broken_if_durable(
            replica.partition,
            f"broker {replica.broker_id} leads epoch {replica.leader_epoch} without what was"
            f" committed before it up to offset {due}; its log ends at"
            f" {replica.log.log_end_offset}",
        )


class EpochsRise(Rule):
    """A broker takes up partition metadata in order: the partition epoch rises, the leader
    epoch never falls, and what it took up is what was committed."""

    name = "R15 epochs rise"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        self._seen: dict[int, dict[PartitionId, tuple[int, int]]] = {}

    def became_leader(self, replica: ReplicaFace, unclean: bool) -> None:
        self._check(replica)

    def became_follower(self, replica: ReplicaFace) -> None:
        self._check(replica)

    def isr_adopted(self, replica: ReplicaFace, _previous: tuple[int, ...]) -> None:
        self._check(replica)
        facts = self.chronicle.facts(replica.partition)
        committed = facts.history.get(replica.partition_epoch)
        if committed is not None and sorted(committed.isr) != sorted(replica.role.isr):
            self.broken(
                f"{label(replica.partition)}: broker {replica.broker_id} took up the ISR"
                f" {replica.role.isr} for partition epoch {replica.partition_epoch},"
                f" committed is {committed.isr}"
            )

    def node_stopped(self, node: int, _kind: str) -> None:
        self._seen.pop(node, None)

    def _check(self, replica: ReplicaFace) -> None:
        seen = self._seen.setdefault(replica.broker_id, {})
        now = (replica.partition_epoch, replica.leader_epoch)
        before = seen.get(replica.partition, (-1, -1))
        if now[0] < before[0] or now[1] < before[1]:
            self.broken(
                f"{label(replica.partition)}: broker {replica.broker_id} went back from (partition"
                f" epoch, leader epoch) {before} to {now}"
            )
        seen[replica.partition] = now
        history = self.chronicle.facts(replica.partition).history
        if not history:
            return
        committed = history.get(replica.partition_epoch)
        if committed is None:
            self.broken(
                f"{label(replica.partition)}: broker {replica.broker_id} is at partition epoch"
                f" {replica.partition_epoch}, which is not committed"
            )
        elif (committed.leader, committed.leader_epoch) != (replica.leader, replica.leader_epoch):
            self.broken(
                f"{label(replica.partition)}: broker {replica.broker_id} believes in leader"
                f" {replica.leader} of epoch {replica.leader_epoch}, committed is"
                f" {committed.leader} of epoch {committed.leader_epoch}"
            )


class OldEpochsRefused(Rule):
    """Once a broker knows a leader epoch it serves no fetch and no produce of an older one, and
    a broker that no longer leads acknowledges nothing."""

    name = "R16 old epochs are refused"

    def follower_fetched(
        self, replica: ReplicaFace, fetch: FollowerFetch, decision: FetchDecision
    ) -> None:
        if decision.error is not Error.NONE:
            return
        if fetch.leader_epoch != replica.leader_epoch or replica.leader != replica.broker_id:
            self.broken(
                f"{label(replica.partition)}: broker {replica.broker_id} in leader epoch"
                f" {replica.leader_epoch} of leader {replica.leader} served a fetch of"
                f" {fetch.replica_id} for epoch {fetch.leader_epoch}"
            )

    def leader_appended(self, replica: ReplicaFace, batch: RecordBatch) -> None:
        if batch.leader_epoch != replica.leader_epoch or replica.leader != replica.broker_id:
            self.broken(
                f"{label(replica.partition)}: broker {replica.broker_id} in leader epoch"
                f" {replica.leader_epoch} of leader {replica.leader} appended a batch of epoch"
                f" {batch.leader_epoch}"
            )

    def produce_acked(self, replica: ReplicaFace, batch: RecordBatch, acks: int) -> None:
        if replica.leader != replica.broker_id:
            self.broken(
                f"{label(replica.partition)}: broker {replica.broker_id} acknowledged offset"
                f" {batch.last_offset} with acks={acks} although {replica.leader} leads epoch"
                f" {replica.leader_epoch}"
            )


class AnswersFitTheirRequest(Rule):
    """A follower judges an answer by the position that the answered request stood for, not by
    one that a later request has told."""

    name = "R23 answers fit their request"

    def answer_heard(
        self, partition: PartitionId, asked: FollowerFetch, judged_by: FollowerFetch | None
    ) -> None:
        if asked != judged_by:
            self.broken(f"{label(partition)}: the answer to {asked} was judged by {judged_by}")
