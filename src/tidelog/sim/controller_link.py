"""A broker's conversation with the active controller: its lifecycle and its ISR proposals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.metadata.lifecycle import (
    SHUTTING_DOWN,
    STARTING,
    BrokerLifecycle,
    LifecycleSettings,
)
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.proposals import IsrProposals
from tidelog.core.requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControllerRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    IsrProposal,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from tidelog.core.types import NO_LEADER
from tidelog.sim import messages as m
from tidelog.sim.kernel import WORLD

if TYPE_CHECKING:
    from tidelog.sim.node import SimNode


class ControllerLink:
    __slots__ = ("_armed_ms", "_next_voter", "_node", "_waiting", "lifecycle", "proposals")

    def __init__(self, node: SimNode, previous_broker_epoch: int) -> None:
        timings = node.plan.timings
        self._node = node
        self.lifecycle = BrokerLifecycle(
            node.id,
            node.cluster_id,
            node.draw_uuid(),
            previous_broker_epoch,
            LifecycleSettings(
                heartbeat_interval_ms=timings.heartbeat_interval_ms,
                session_timeout_ms=timings.session_timeout_ms,
                retry_backoff_ms=min(100, timings.heartbeat_interval_ms),
                request_timeout_ms=timings.request_timeout_ms,
            ),
            rack=node.rack,
            log_dirs=(b"data-%d" % node.id,),
            draw=node.draw,
        )
        self.proposals = IsrProposals()
        self._waiting: dict[int, ControllerRequest] = {}
        self._next_voter = node.draw(len(node.voters))
        self._armed_ms = 0

    @property
    def broker_epoch(self) -> int:
        return self.lifecycle.broker_epoch

    def propose(self, proposal: IsrProposal) -> None:
        self.proposals.add(proposal)
        self._send_proposals()

    def poke(self) -> None:
        """Say what is due, and come back when the next thing is."""
        now = self._node.now_ms()
        request = self.lifecycle.next_request(now, self._node.applied_offset - 1, ready=True)
        if request is not None:
            self._call(request)
        self._send_proposals()
        if self.lifecycle.state == SHUTTING_DOWN:
            self._node.finish_clean_stop()
            return
        self._arm(self.lifecycle.next_deadline_ms)

    def _arm(self, at_ms: int) -> None:
        now = self._node.now_ms()
        if now < self._armed_ms <= at_ms:
            return
        self._armed_ms = max(at_ms, now + 1)
        self._node.at_ms(self._armed_ms, self._timer, self._armed_ms)

    def _timer(self, at_ms: int) -> None:
        if at_ms == self._armed_ms:
            self._armed_ms = 0
            self.poke()

    def _send_proposals(self) -> None:
        now = self._node.now_ms()
        if self.lifecycle.registered:
            request = self.proposals.next_request(self._node.id, self.broker_epoch, now)
            if request is not None:
                self._call(request)

    def _call(self, request: ControllerRequest) -> None:
        node = self._node
        request_id = node.next_request_id()
        self._waiting[request_id] = request
        call = (self._controller(), m.ControllerCall(request_id, request))
        late = node.proposals_late_ms and self._may_be_late(request)
        if late:
            # The network's doing, not the node's: it arrives even if the node crashes first.
            late_us = node.proposals_late_ms * 1000
            node.kernel.call_in(late_us, WORLD, self._arrives_late, call)
        if not late or node.proposals_copied:
            node.send(*call)
        node.after_ms(node.plan.timings.request_timeout_ms, self._timed_out, request_id)

    def _may_be_late(self, request: ControllerRequest) -> bool:
        copied_too = self._node.proposals_copied and isinstance(request, HeartbeatRequest)
        return copied_too or isinstance(request, AlterPartitionRequest)

    def _arrives_late(self, call: tuple[int, m.ControllerCall]) -> None:
        if isinstance(call[1].request, AlterPartitionRequest):
            self._node.marks.add("isr_proposal_late")
        self._node.send(*call)

    def _controller(self) -> int:
        """The quorum's leader if we know it, else one voter after the other."""
        leader = self._node.quorum.leader_id
        if leader != NO_LEADER:
            return leader
        self._next_voter = (self._next_voter + 1) % len(self._node.voters)
        return self._node.voters[self._next_voter].node_id

    def _timed_out(self, request_id: int) -> None:
        request = self._waiting.pop(request_id, None)
        if request is None:
            return
        if isinstance(request, AlterPartitionRequest):
            self._node.marks.add("isr_proposal_repeated")
            self.proposals.on_failure(request, self._node.now_ms())
            self._retry_proposals()
        self.poke()

    def _retry_proposals(self) -> None:
        if self.proposals.retry_at_ms > self._node.now_ms():
            self._node.at_ms(self.proposals.retry_at_ms, self._proposal_timer, None)

    def _proposal_timer(self, _: None) -> None:
        self._send_proposals()

    def on_reply(self, reply: m.ControllerReply) -> None:
        request = self._waiting.pop(reply.request_id, None)
        if request is None:
            return
        if isinstance(request, AlterPartitionRequest):
            assert isinstance(reply.response, AlterPartitionResponse)
            self._on_isr_results(request, reply.response)
        else:
            assert isinstance(request, RegisterBrokerRequest | HeartbeatRequest)
            assert isinstance(reply.response, RegisterBrokerResponse | HeartbeatResponse)
            self._on_lifecycle_reply(request, reply.response)
        self.poke()

    def _on_lifecycle_reply(
        self,
        request: RegisterBrokerRequest | HeartbeatRequest,
        response: RegisterBrokerResponse | HeartbeatResponse,
    ) -> None:
        lifecycle = self.lifecycle
        was_starting = lifecycle.state == STARTING
        lifecycle.on_response(request, response, self._node.now_ms())
        if isinstance(request, RegisterBrokerRequest) and lifecycle.registered:
            self._node.disk.on_registered(lifecycle.broker_epoch)
        if was_starting and lifecycle.state != STARTING:
            self._node.broker.begin_serving()

    def _on_isr_results(
        self, request: AlterPartitionRequest, response: AlterPartitionResponse
    ) -> None:
        now = self._node.now_ms()
        broker = self._node.broker
        for result in self.proposals.on_response(request, response, now):
            replica = broker.replicas.get(result.partition)
            if replica is not None and isinstance(replica.role, LeaderReplica):
                role, isr_before = replica.role, replica.role.isr
                if not role.has_change_in_flight():
                    self._node.marks.add("isr_answer_overtaken")
                broker.perform(replica, role.on_isr_result(result, now))
                if role.isr != isr_before:
                    self._node.judge.isr_adopted(replica, isr_before)
                elif result.error and not role.has_change_in_flight():
                    self._node.marks.add("isr_change_taken_back")
        self._retry_proposals()
