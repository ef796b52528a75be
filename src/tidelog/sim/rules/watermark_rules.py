"""Rules about the high watermark (replication.md §12, rules 7, 8, 9, 12 and 18)."""

from tidelog.core.requests import IsrProposal
from tidelog.core.types import PartitionId
from tidelog.sim.rules.chronicle import Chronicle, PartitionFacts, witness
from tidelog.sim.rules.rule import Rule
from tidelog.sim.rules.view import LogFace, ReplicaFace, Report, WorldView, known_end, label, leads


class OffsetsInOrder(Rule):
    """On every replica: log start ≤ last stable offset ≤ high watermark ≤ log end."""

    name = "R07 offsets in order"

    def high_watermark_moved(self, replica: ReplicaFace, _previous: int) -> None:
        log = replica.log
        if not log.log_start_offset <= replica.high_watermark <= log.log_end_offset:
            self._out_of_order(replica, "")

    def sweep(self) -> None:
        for facts in self.chronicle.partitions.values():
            for replica in facts.replicas.values():
                log, stable = replica.log, replica.last_stable_offset
                if not (
                    log.log_start_offset <= stable <= replica.high_watermark <= log.log_end_offset
                ):
                    self._out_of_order(replica, f", last stable offset {stable}")

    def _out_of_order(self, replica: ReplicaFace, stable: str) -> None:
        log = replica.log
        self.broken(
            f"{label(replica.partition)}: broker {replica.broker_id} has log start"
            f" {log.log_start_offset}{stable}, high watermark {replica.high_watermark}, log end"
            f" {log.log_end_offset}"
        )


class HighWatermarkNeverFalls(Rule):
    """A leader never lowers its high watermark, and the latest offset clients are told never
    moves back from one leader to its successors."""

    name = "R08 high watermark never falls"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        # Per partition: leader epoch → highest latest offset it answered.
        self._answered: dict[PartitionId, dict[int, int]] = {}

    def high_watermark_moved(self, replica: ReplicaFace, previous: int) -> None:
        if replica.high_watermark < previous and leads(replica):
            self.broken(
                f"{label(replica.partition)}: leader {replica.broker_id} of epoch"
                f" {replica.leader_epoch} lowered its high watermark from {previous} to"
                f" {replica.high_watermark}"
            )

    def latest_answered(self, replica: ReplicaFace, offset: int) -> None:
        """A deposed leader may answer with less: it is asked by clients that know no better."""
        answered = self._answered.setdefault(replica.partition, {})
        epoch = replica.leader_epoch
        before = max((o for e, o in answered.items() if e <= epoch), default=0)
        if offset < before:
            self.broken_if_durable(
                replica.partition,
                f"leader {replica.broker_id} of epoch {epoch} answered {offset} as latest offset,"
                f" clients were told {before} before",
            )
        answered[epoch] = max(before, offset)


class CommittedOnAllInSync(Rule):
    """When a leader's high watermark moves, every member of the maximal ISR really holds the
    leader's records below it, and the committed ISR has at least min ISR members."""

    name = "R09 committed on all in-sync replicas"

    def high_watermark_moved(self, replica: ReplicaFace, _previous: int) -> None:
        if replica.leader != replica.broker_id:
            return
        facts = self.chronicle.facts(replica.partition)
        self._check_min_isr(facts, replica)
        high_watermark = replica.high_watermark
        leader_log = replica.log
        digest = leader_log.chain_at(high_watermark) if facts.chained else None
        for member in replica.role.maximal_isr():
            if member == replica.broker_id or not witness(self.chronicle, replica, facts, member):
                continue
            log = facts.replicas[member].log
            if log.durable_offset >= high_watermark:
                if digest is not None and log.chain_at(high_watermark) == digest:
                    continue
                if facts.same(log, leader_log, high_watermark):
                    continue
            self._lacks(replica, member, log)

    def _lacks(self, replica: ReplicaFace, member: int, log: LogFace) -> None:
        self.broken(
            f"{label(replica.partition)}: leader {replica.broker_id} moved its high watermark to"
            f" {replica.high_watermark}, in-sync replica {member} does not hold that (its log:"
            f" durable to {log.durable_offset}, ends at {log.log_end_offset})"
        )

    def _check_min_isr(self, facts: PartitionFacts, replica: ReplicaFace) -> None:
        committed = facts.history.get(replica.partition_epoch)
        if committed is None:
            return
        effective = min(replica.settings.min_insync_replicas, len(committed.replicas))
        if len(committed.isr) < effective:
            self.broken(
                f"{label(facts.id)}: leader {replica.broker_id} moved its high watermark to"
                f" {replica.high_watermark} with ISR {committed.isr}, min ISR is {effective}"
            )


class PendingIsrCounts(Rule):
    """While an ISR change is undecided the high watermark waits for everybody who may be in the
    ISR: a leaving replica until its removal is committed, a joining one from the proposal on."""

    name = "R12 a pending ISR change counts"

    def isr_proposed(self, replica: ReplicaFace, proposal: IsrProposal) -> None:
        maximal = replica.role.maximal_isr()
        missing = [m for m in replica.role.isr if m not in maximal]
        missing += [m.broker_id for m in proposal.isr if m.broker_id not in maximal]
        if missing:
            self.broken(
                f"{label(replica.partition)}: leader {replica.broker_id} proposed"
                f" {[m.broker_id for m in proposal.isr]} over ISR {replica.role.isr}, but its"
                f" high watermark no longer waits for {missing}"
            )

    def high_watermark_moved(self, replica: ReplicaFace, _previous: int) -> None:
        if replica.leader != replica.broker_id:
            return
        facts = self.chronicle.facts(replica.partition)
        state = facts.state
        if state.leader_epoch == replica.leader_epoch:
            for member in state.isr:
                if known_end(replica, member) < replica.high_watermark:
                    self._outran(replica, member, f"a member of the committed ISR {state.isr}")
        for proposal in facts.outstanding(replica):
            for joining in proposal.isr:
                if known_end(replica, joining.broker_id) < replica.high_watermark:
                    self._outran(replica, joining.broker_id, "which it has proposed for the ISR")

    def _outran(self, replica: ReplicaFace, member: int, why: str) -> None:
        self.broken(
            f"{label(replica.partition)}: leader {replica.broker_id} moved its high watermark to"
            f" {replica.high_watermark} and knows only {known_end(replica, member)} to be on"
            f" {member}, {why}"
        )


class LastStableOffsetNeverFalls(Rule):
    """Within a leader epoch the last stable offset never falls. (That `read_committed` shows no
    aborted record is judged on client histories once there are transactions.)"""

    name = "R18 last stable offset never falls"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        self._stable: dict[PartitionId, tuple[int, int, int]] = {}

    def sweep(self) -> None:
        for facts in self.chronicle.partitions.values():
            leader = facts.top_replica
            if leader is None or facts.replicas.get(leader.broker_id) is not leader:
                continue
            if leads(leader):
                self._check(leader)

    def _check(self, leader: ReplicaFace) -> None:
        broker, epoch, before = self._stable.get(leader.partition, (-1, -1, 0))
        stable = leader.last_stable_offset
        same_tenure = (broker, epoch) == (leader.broker_id, leader.leader_epoch)
        if same_tenure and stable < before:
            self.broken(
                f"{label(leader.partition)}: leader {broker} of epoch {epoch} lowered its last"
                f" stable offset from {before} to {stable}"
            )
        self._stable[leader.partition] = (leader.broker_id, leader.leader_epoch, stable)
