"""Recognises the marks of the control plane: the quorum, the controller, brokers, elections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.core import events
from tidelog.core import requests as rq
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.effects import Answer, AppendRecords
from tidelog.core.quorum.messages import VoteResponse
from tidelog.core.quorum.state import QuorumState
from tidelog.core.types import NO_LEADER, LogEntry
from tidelog.sim.rules.chronicle import Chronicle, PartitionFacts
from tidelog.sim.rules.plain_image import Committed

if TYPE_CHECKING:
    from tidelog.sim.nodes.marks import Surroundings

PROPOSAL_REFUSALS: Final = {
    Error.FENCED_LEADER_EPOCH: "isr_proposal_old_leader_epoch",
    Error.INVALID_UPDATE_VERSION: "isr_proposal_old_partition_epoch",
    Error.INELIGIBLE_REPLICA: "isr_proposal_ineligible",
    Error.NEW_LEADER_ELECTED: "isr_proposal_hands_over",
    Error.UNKNOWN_TOPIC_ID: "isr_proposal_deleted_topic",
}
"""INVALID_REQUEST is for leaders that contradict their own epoch: none does."""

REQUEST_REFUSALS: Final = {
    Error.NOT_CONTROLLER: "isr_proposal_no_controller",
    Error.STALE_BROKER_EPOCH: "isr_proposal_former_incarnation",
}

ELECTIONS_ASKED: Final = {
    rq.ELECT_PREFERRED: "preferred_leader_by_operator",
    rq.ELECT_UNCLEAN: "unclean_election_by_operator",
}


class ControlMarks:
    """A witness of the judge; `events` is what else it wants to see."""

    __slots__ = ("_candidates", "_chronicle", "_marks", "_votes", "_wiped", "_world", "events")

    def __init__(self, world: Surroundings) -> None:
        self._world = world
        self._marks = world.marks
        # By quorum epoch: who campaigned, and who voted for whom.
        self._candidates: dict[int, int] = {}
        self._votes: dict[tuple[int, int], int] = {}
        # Brokers whose data disk was replaced, until they are in some ISR again.
        self._wiped: dict[int, None] = {}
        self.events: dict[type, Callable[[Any], None]] = {
            events.QuorumRoleChanged: self._on_quorum_role,
            events.BrokerFenced: self._on_fenced,
        }

    def attend(self, chronicle: Chronicle) -> None:
        self._chronicle = chronicle

    # -- the quorum

    def _on_quorum_role(self, event: events.QuorumRoleChanged) -> None:
        if event.role == "candidate":
            if self._candidates.setdefault(event.leader_epoch, event.node) != event.node:
                self._marks.add("split_vote")
        elif event.role == "resigned":
            stopping = self._world.nodes[event.node].stopping
            self._marks.add("quorum_handed_over" if stopping else "check_quorum_resigned")

    def vote_sent(self, node_id: int, epoch: int, candidate: int) -> None:
        if self._votes.get((node_id, epoch)) == candidate:
            self._marks.add("vote_granted_twice")
        self._votes[node_id, epoch] = candidate

    def voted(self, response: VoteResponse) -> None:
        """Any answer to a candidate, or to a node that only asks."""
        if not response.granted:
            self._marks.add("pre_vote_refused" if response.pre_vote else "vote_refused")

    def started_quorum(self, stored: QuorumState, role: str) -> None:
        """A node read its promises from disk and takes up the role they leave it."""
        if role == "candidate":
            self._marks.add("candidate_after_restart")
        elif role == "resigned":
            self._marks.add("quorum_leader_after_restart")
        elif stored.leader_id == NO_LEADER and stored.voted is not None:
            self._marks.add("vote_replayed_after_crash")

    def quorum_leader(self, node_id: int, _epoch: int, start_offset: int) -> None:
        if start_offset > self._world.nodes[node_id].applied_offset:
            self._marks.add("quorum_leader_with_open_entries")

    # -- the controller

    def controller_claimed(self, node_id: int, _epoch: int) -> None:
        if any(other != node_id and c.active for other, c in self._world.controllers()):
            self._marks.add("two_active_controllers")

    def controller_ticked(self, effects: Sequence[object]) -> None:
        """What a controller does by itself: only the balance elects without touching an ISR."""
        for effect in effects:
            if type(effect) is AppendRecords:
                for record in effect.records:
                    if type(record) is r.PartitionChange and record.isr is None:
                        self._marks.add("preferred_leader_by_balance")

    def controller_answered(
        self, _node: int, request: rq.ControllerRequest, response: rq.ControllerResponse
    ) -> None:
        error = response.error
        if isinstance(request, rq.HeartbeatRequest):
            if error == Error.STALE_BROKER_EPOCH:
                self._marks.add("heartbeat_of_former_incarnation")
            elif self._is_down(request.broker_id):
                self._on_heartbeat_of_the_dead(request, response)
        elif isinstance(response, rq.AlterPartitionResponse):
            self._on_proposals_answered(response)
        elif isinstance(request, rq.RegisterBrokerRequest):
            if error == Error.DUPLICATE_BROKER_REGISTRATION:
                self._marks.add("restart_refused_within_session")
        elif isinstance(request, rq.ElectLeadersRequest):
            assert isinstance(response, rq.ElectLeadersResponse), f"{response} to {request}"
            elected = [partition for partition, e in response.results if e == Error.NONE]
            if elected:
                self._marks.add(ELECTIONS_ASKED[request.election_type])

    def former_controller_told(self, effects: Sequence[object]) -> None:
        """What became of the records of a claim that was lost."""
        for effect in effects:
            if type(effect) is Answer:
                refused = effect.response.error is Error.NOT_CONTROLLER
                self._marks.add(
                    "refused_after_the_claim" if refused else "answered_after_the_claim"
                )

    def _on_proposals_answered(self, response: rq.AlterPartitionResponse) -> None:
        if (name := REQUEST_REFUSALS.get(response.error)) is not None:
            self._marks.add(name)
        for result in response.results:
            if (name := PROPOSAL_REFUSALS.get(result.error)) is not None:
                self._marks.add(name)

    # -- committed metadata: each fact once in a run

    def partition_changed(
        self, facts: PartitionFacts, before: Committed, record: r.Partition | r.PartitionChange
    ) -> None:
        if type(record) is r.PartitionChange:
            if record.leader != r.LEADER_UNCHANGED:
                self._on_election(facts, before)
            if record.replicas is not None or record.adding_replicas is not None:
                self._on_assignment(facts.state, before)
        for broker in facts.state.isr:
            if broker in self._wiped and broker not in before.isr and before.replicas:
                self._marks.add("wiped_replica_rejoined")
                del self._wiped[broker]

    def _on_election(self, facts: PartitionFacts, before: Committed) -> None:
        after = facts.state
        if after.leader == NO_LEADER:
            self._marks.add("partition_offline")
            return
        if after.recovery_state == r.RECOVERING:
            self._marks.add("unclean_election")
        elif not before.isr and after.leader in before.elr:
            self._marks.add("elr_elected")
        if len(after.isr) < self._world.min_isr(facts.id):
            self._marks.add("elected_below_min_isr")

    def _on_assignment(self, after: Committed, before: Committed) -> None:
        moving = before.adding or before.removing
        if moving and not after.adding and not after.removing:
            self._marks.add("reassignment_completed")
            if before.leader not in after.replicas:
                self._marks.add("reassignment_dropped_leader")
        elif moving and (after.adding, after.removing) != (before.adding, before.removing):
            self._marks.add("reassignment_replaced")
        for broker in after.adding:
            if broker not in before.replicas and self._is_down(broker):
                self._marks.add("reassignment_adds_crashed_broker")

    def record_committed(self, record: object, entry: LogEntry) -> None:
        """Before it is part of the chronicle's image."""
        if type(record) is r.RegisterBroker:
            self._on_registered(record, entry)
        elif type(record) is r.Config and record.name == "min.insync.replicas" and record.value:
            self._on_min_isr(record.resource_name, int(record.value))

    def _on_registered(self, record: r.RegisterBroker, entry: LogEntry) -> None:
        known = self._chronicle.image.brokers.get(record.broker_id)
        if known is None or known.broker_epoch == record.broker_epoch:
            return
        if any(type(other) is r.PartitionChange for other in entry.records):
            self._marks.add("restart_lost_seats")
        if any(record.broker_id in p.elr for p in self._chronicle.image.partitions.values()):
            self._marks.add("restart_kept_elr")

    def _on_min_isr(self, topic: str, value: int) -> None:
        image = self._chronicle.image
        for partition, state in image.partitions.items():
            too_few = len(state.isr) < min(value, len(state.replicas))
            if too_few and image.topics.get(partition.topic_id) == topic:
                self._marks.add("min_isr_raised_above_isr")

    # -- brokers

    def _is_down(self, broker: int) -> bool:
        """Clients make up brokers, too: those were never there."""
        node = self._world.nodes.get(broker)
        return node is not None and not node.running

    def _on_fenced(self, event: events.BrokerFenced) -> None:
        node = self._world.nodes.get(event.broker)
        if self._world.kernel.is_paused(event.broker):
            self._marks.add("fenced_while_paused")
        elif node is not None and node.running and not node.stopping:
            self._marks.add("fenced_though_alive")

    def fenced_by_hint(self, _node: int, _broker: int, _incarnation_id: bytes) -> None:
        self._marks.add("fenced_by_hint")

    def _on_heartbeat_of_the_dead(
        self, request: rq.HeartbeatRequest, response: rq.ControllerResponse
    ) -> None:
        """One that would have unfenced a living broker."""
        assert isinstance(response, rq.HeartbeatResponse), f"{response} to {request}"
        wants_nothing_else = not request.want_fence and not request.want_shut_down
        if wants_nothing_else and response.is_fenced:
            self._marks.add("heartbeat_of_dead_broker")

    def wiped(self, broker: int) -> None:
        self._wiped[broker] = None
