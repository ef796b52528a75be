"""Rules about the in-sync replicas (replication.md §12, rules 5, 10, 14, 20 and 21)."""

from collections.abc import Iterator

from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.replication.inputs import FetchDecision, FollowerFetch
from tidelog.core.requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControllerRequest,
    ControllerResponse,
    IsrProposal,
    IsrResult,
)
from tidelog.core.types import NO_EPOCH, NO_LEADER, PartitionId
from tidelog.sim.rules.chronicle import Chronicle, PartitionFacts, witness
from tidelog.sim.rules.plain_image import Committed
from tidelog.sim.rules.rule import Rule
from tidelog.sim.rules.view import ReplicaFace, Report, WorldView, label, leads


class CommittedAgreement(Rule):
    """Everybody in the committed ISR, and everybody eligible to lead after it, holds the
    committed records unchanged; and no replica's high watermark covers anything else."""

    name = "R05 committed agreement"

    def high_watermark_moved(self, replica: ReplicaFace, _previous: int) -> None:
        facts = self.chronicle.facts(replica.partition)
        if facts.extended_by is replica and replica.high_watermark == facts.committed_end:
            return  # C(p) has just been taken from this very log
        self._check_readable(facts, replica)

    def truncated(self, replica: ReplicaFace, _previous_end: int) -> None:
        facts = self.chronicle.facts(replica.partition)
        self._check_member(facts, replica.broker_id)

    def sweep(self) -> None:
        for facts in self.chronicle.partitions.values():
            if facts.removed or not facts.committed_end:
                continue
            for member in facts.state.isr:
                self._check_member(facts, member)
            for member in facts.state.elr:
                self._check_member(facts, member)
            for replica in facts.replicas.values():
                self._check_readable(facts, replica)

    def finish(self) -> None:
        self.sweep()

    def _check_readable(self, facts: PartitionFacts, replica: ReplicaFace) -> None:
        """Whatever a replica lets consumers read is committed."""
        end = replica.high_watermark
        if end > facts.committed_end or not facts.holds(replica.log, end):
            self._disagrees(facts, replica, end)

    def _check_member(self, facts: PartitionFacts, member: int) -> None:
        replica = facts.replicas.get(member)
        if replica is None or member in self.chronicle.away:
            return
        if member not in facts.state.isr and member not in facts.state.elr:
            return
        if not facts.holds_committed(replica.log):
            self._disagrees(facts, replica, facts.committed_end)

    def _disagrees(self, facts: PartitionFacts, replica: ReplicaFace, end: int) -> None:
        role = "leader" if leads(replica) else "follower"
        self.broken_if_durable(
            facts.id,
            f"{role} {replica.broker_id} (epoch {replica.leader_epoch}, high watermark"
            f" {replica.high_watermark}, log end {replica.log.log_end_offset}) does not agree up"
            f" to {end} with what is committed up to {facts.committed_end};"
            f" ISR {facts.state.isr}, ELR {facts.state.elr}",
        )


class ProgressIsReal(Rule):
    """What a leader believes a follower to hold, the follower holds, record for record."""

    name = "R10 follower progress is real"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        # Per leader and follower: the follower's replica, and up to where both logs were found
        # equal. They stay so until one of them is cut: most fetches bring no progress.
        self._found_equal: dict[ReplicaFace, dict[int, tuple[ReplicaFace, int]]] = {}

    def follower_fetched(
        self, replica: ReplicaFace, fetch: FollowerFetch, _decision: FetchDecision
    ) -> None:
        if replica.leader != replica.broker_id:
            return
        facts = self.chronicle.facts(replica.partition)
        broker = fetch.replica_id
        follower, progress = facts.replicas.get(broker), replica.role.progress.get(broker)
        if follower is None or progress is None:
            return
        known = self._found_equal.setdefault(replica, {})
        now = (follower, progress.log_end_offset)
        if known.get(broker) != now and self._check(facts, replica, broker):
            known[broker] = now

    def truncated(self, replica: ReplicaFace, _previous_end: int) -> None:
        for each in self.chronicle.facts(replica.partition).replicas.values():
            self._found_equal.pop(each, None)

    def node_stopped(self, _node: int, _kind: str) -> None:
        self._found_equal.clear()

    def became_leader(self, replica: ReplicaFace, unclean: bool) -> None:
        self._check_all(self.chronicle.facts(replica.partition), replica)

    def sweep(self) -> None:
        for facts in self.chronicle.partitions.values():
            leader = facts.top_replica
            if leader is None or facts.replicas.get(leader.broker_id) is not leader:
                continue
            if leads(leader):
                self._check_all(facts, leader)

    def _check_all(self, facts: PartitionFacts, leader: ReplicaFace) -> None:
        for follower in leader.role.progress:
            self._check(facts, leader, follower)

    def _check(self, facts: PartitionFacts, leader: ReplicaFace, broker: int) -> bool:
        """True if both logs were compared and are equal as far as the leader believes."""
        progress = leader.role.progress.get(broker)
        if progress is None or progress.log_end_offset <= 0 or broker == leader.broker_id:
            return False
        follower = facts.replicas.get(broker)
        # A follower that has not heard of this epoch yet will reconcile before it is counted.
        if follower is None or follower.leader_epoch != leader.leader_epoch:
            return False
        if not witness(self.chronicle, leader, facts, broker):
            return False
        is_same = facts.same(leader.log, follower.log, progress.log_end_offset)
        if not is_same:
            self.broken(
                f"{label(facts.id)}: leader {leader.broker_id} of epoch {leader.leader_epoch}"
                f" believes {broker} to hold its log up to {progress.log_end_offset}; that log"
                f" ends at {follower.log.log_end_offset} or differs before"
            )
        return is_same


class IsrMembersEligible(Rule):
    """The ISR is part of the assignment and disjoint from the ELR, the leader is in it, and no
    fenced, departing or restarted broker is added to it."""

    name = "R14 ISR members are eligible"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        # Partition → partition epoch → who joined the ISR then, with its broker epoch.
        self._joined: dict[PartitionId, dict[int, dict[int, int]]] = {}

    def partition_changed(
        self,
        facts: PartitionFacts,
        before: Committed,
        record: r.PartitionChange | r.Partition,
    ) -> None:
        after = facts.state
        if not set(after.isr) <= set(after.replicas):
            self._wrong(facts, f"ISR {after.isr} is not part of {after.replicas}")
        if after.leader != NO_LEADER and after.leader not in after.isr:
            self._wrong(facts, f"leader {after.leader} is not in the ISR {after.isr}")
        if set(after.isr) & set(after.elr):
            self._wrong(facts, f"ISR {after.isr} and ELR {after.elr} overlap")
        if isinstance(record, r.Partition):
            return
        joined = [member for member in after.isr if member not in before.isr]
        for member in joined:
            registration = self.chronicle.image.brokers.get(member)
            if registration is None or not registration.active:
                self._wrong(facts, f"broker {member} joins the ISR as {registration}")
        if joined:
            epochs = {member: self.chronicle.registered_epoch(member) for member in joined}
            self._joined.setdefault(facts.id, {})[after.partition_epoch] = epochs

    def controller_answered(
        self, _node: int, request: ControllerRequest, response: ControllerResponse
    ) -> None:
        """KIP-903: it was the present incarnation that the leader saw catching up."""
        if not isinstance(request, AlterPartitionRequest):
            return
        assert isinstance(response, AlterPartitionResponse), f"{request} answered by {response}"
        for proposal, result in accepted(request, response):
            joined = self._joined.get(proposal.partition, {}).get(result.partition_epoch, {})
            for member in proposal.isr:
                registered = joined.get(member.broker_id, NO_EPOCH)
                if NO_EPOCH not in (registered, member.broker_epoch) and (
                    member.broker_epoch != registered
                ):
                    facts = self.chronicle.facts(proposal.partition)
                    self._wrong(facts, f"{member} joined the ISR and is registered as {registered}")

    def _wrong(self, facts: PartitionFacts, text: str) -> None:
        self.broken(f"{label(facts.id)} at partition epoch {facts.state.partition_epoch}: {text}")


class ProposalsAreCompared(Rule):
    """An ISR change is accepted only from the leader of the present leader epoch and only on top
    of the partition epoch it was made for; one that was certainly refused is never accepted
    later, because its leader has stopped waiting for the replica."""

    name = "R15 proposals are compared"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        self._refused: dict[IsrProposal, None] = {}

    def controller_answered(
        self, node: int, request: ControllerRequest, response: ControllerResponse
    ) -> None:
        if not isinstance(request, AlterPartitionRequest):
            return
        assert isinstance(response, AlterPartitionResponse), f"{request} answered by {response}"
        for proposal, result in answered(request, response):
            if result.error in _CERTAINLY_REFUSED:
                self._refused[proposal] = None
        for proposal, result in accepted(request, response):
            if proposal in self._refused:
                self.broken(
                    f"{label(proposal.partition)}: controller {node} accepted the proposal of"
                    f" {request.broker_id} for partition epoch {proposal.partition_epoch} that"
                    f" had been refused before; the ISR is now {result.isr}, partition epoch"
                    f" {result.partition_epoch}"
                )
            changes = result.partition_epoch - proposal.partition_epoch
            elections = result.leader_epoch - proposal.leader_epoch
            # It may complete a reassignment, and dropping a replica is a new leader epoch.
            if not 0 <= elections <= changes <= 1:
                self.broken(
                    f"{label(proposal.partition)}: controller {node} accepted the proposal of"
                    f" {request.broker_id} for leader epoch {proposal.leader_epoch}, partition"
                    f" epoch {proposal.partition_epoch}; the ISR is now {result.isr}, leader epoch"
                    f" {result.leader_epoch}, partition epoch {result.partition_epoch}"
                )


_CERTAINLY_REFUSED = (Error.INELIGIBLE_REPLICA, Error.OPERATION_NOT_ATTEMPTED)


def answered(
    request: AlterPartitionRequest, response: AlterPartitionResponse
) -> Iterator[tuple[IsrProposal, IsrResult]]:
    results = {result.partition: result for result in response.results}
    for proposal in request.proposals:
        result = results.get(proposal.partition)
        if result is not None:
            yield proposal, result


def accepted(
    request: AlterPartitionRequest, response: AlterPartitionResponse
) -> Iterator[tuple[IsrProposal, IsrResult]]:
    """Those that a leader made: an answer to a replica that leaves names no state."""
    return (
        pair
        for pair in answered(request, response)
        if pair[1].error is Error.NONE and not leaves(request.broker_id, pair[0])
    )


def leaves(broker: int, proposal: IsrProposal) -> bool:
    """A replica asks to be left out of the ISR, and nothing else (ADR 0035)."""
    return all(member.broker_id != broker for member in proposal.isr)


class OnlyAssignedReplicasCount(Rule):
    """A replica outside the assignment neither fetches with effect nor enters an ISR."""

    name = "R20 only assigned replicas count"

    def follower_fetched(
        self, replica: ReplicaFace, fetch: FollowerFetch, decision: FetchDecision
    ) -> None:
        if decision.error is not Error.NONE:
            return
        committed = self.chronicle.facts(replica.partition).history.get(replica.partition_epoch)
        if committed is not None and fetch.replica_id not in committed.replicas:
            self.broken(
                f"{label(replica.partition)}: leader {replica.broker_id} served"
                f" {fetch.replica_id}, which is not one of {committed.replicas}"
            )

    def isr_proposed(self, replica: ReplicaFace, proposal: IsrProposal) -> None:
        committed = self.chronicle.facts(replica.partition).history.get(replica.partition_epoch)
        if committed is None:
            return
        for member in proposal.isr:
            if member.broker_id not in committed.replicas:
                self.broken(
                    f"{label(replica.partition)}: leader {replica.broker_id} proposed"
                    f" {member.broker_id} for the ISR, which is not one of {committed.replicas}"
                )


class OneIsrChangeInFlight(Rule):
    """A leader asks for one ISR change at a time: none is given up before the controller has
    certainly decided it, because it may have been committed and the answer lost."""

    name = "R21 one ISR change in flight"

    def isr_proposed(self, replica: ReplicaFace, proposal: IsrProposal) -> None:
        outstanding = self.chronicle.facts(replica.partition).outstanding(replica)
        if len(outstanding) > 1:
            members = [[m.broker_id for m in each.isr] for each in outstanding]
            self.broken(
                f"{label(replica.partition)}: leader {replica.broker_id} has {len(outstanding)}"
                f" undecided proposals at partition epoch {proposal.partition_epoch}: {members}"
            )
