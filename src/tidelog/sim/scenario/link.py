"""A broker's conversation with the controller: its lifecycle and its ISR proposals."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tidelog.core.errors import Error
from tidelog.core.metadata.lifecycle import SHUTTING_DOWN, BrokerLifecycle, LifecycleSettings
from tidelog.core.replication.proposals import IsrProposals
from tidelog.core.requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControllerRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    IsrProposal,
    IsrResult,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from tidelog.core.types import NEVER_MS
from tidelog.sim.scenario import wire
from tidelog.sim.scenario.control import CLUSTER_ID, Call

if TYPE_CHECKING:
    from tidelog.sim.scenario.broker import StageBroker


class ControllerLink:
    """One per start of a broker."""

    def __init__(self, broker: StageBroker, incarnation: bytes, previous_broker_epoch: int) -> None:
        self._broker = broker
        self._stage = broker.stage
        self.lifecycle = BrokerLifecycle(
            broker.id,
            CLUSTER_ID,
            incarnation,
            previous_broker_epoch,
            LifecycleSettings(),
            rack=broker.rack,
        )
        self.proposals = IsrProposals()
        self._retry_ms = NEVER_MS
        self._refused: Error | None = None

    @property
    def next_deadline_ms(self) -> int:
        return min(self.lifecycle.next_deadline_ms, self._retry_ms)

    def poke(self) -> None:
        """Say what is due."""
        broker = self._broker
        if not broker.awake or broker.link is not self:
            return
        now_ms = self._stage.now_ms
        request = self.lifecycle.next_request(now_ms, broker.applied_offset - 1, ready=True)
        if request is not None:
            self._call(request)
        self.send_proposals()
        if self.lifecycle.state == SHUTTING_DOWN:
            broker.finish_clean_stop()

    def propose(self, proposal: IsrProposal) -> None:
        self.proposals.add(proposal)
        self._stage.later(self.send_proposals)

    def send_proposals(self) -> None:
        broker, now_ms = self._broker, self._stage.now_ms
        if now_ms >= self._retry_ms:
            self._retry_ms = NEVER_MS
        if broker.awake and broker.link is self and self.lifecycle.registered:
            epoch = self.lifecycle.broker_epoch
            request = self.proposals.next_request(broker.id, epoch, now_ms)
            if request is not None:
                self._call(request)

    # -- messages

    def _call(self, request: ControllerRequest) -> None:
        broker, stage = self._broker, self._stage
        call = Call(broker.id, request)
        if not stage.wire.connects(broker.id, wire.CONTROLLER):
            stage.later(lambda: self.on_lost(call))
        elif stage.wire.catches(_kind(request), broker.id, call):
            stage.narrator.line(f"{broker.name} -> controller {self._text(request)} | held")
        else:
            stage.control.handle(call)

    def on_lost(self, call: Call) -> None:
        """No answer will come."""
        now_ms = self._stage.now_ms
        if isinstance(call.request, AlterPartitionRequest):
            self.proposals.on_failure(call.request, now_ms)
            self._retry_later()
        else:
            self.lifecycle.on_failure(now_ms)

    def on_response(self, call: Call) -> None:
        broker, stage = self._broker, self._stage
        if broker.link is not self or not broker.running:
            return  # the process that asked is gone
        is_result = isinstance(call.request, AlterPartitionRequest)
        if not stage.wire.connects(broker.id, wire.CONTROLLER):
            if is_result:
                self._tell_result(call, " | no connection")
            self.on_lost(call)
        elif is_result and stage.wire.catches(wire.RESULT, broker.id, call):
            self._tell_result(call, " | held")
        else:
            self.receive(call)

    def receive(self, call: Call) -> None:
        """The answer has arrived."""
        now_ms = self._stage.now_ms
        response = call.response
        if isinstance(call.request, AlterPartitionRequest):
            assert isinstance(response, AlterPartitionResponse), response
            results = self.proposals.on_response(call.request, response, now_ms)
            self._retry_later()
            self._tell_refusal(call)
            for result in results:
                self._broker.on_isr_result(result)
            return
        assert isinstance(response, (RegisterBrokerResponse, HeartbeatResponse)), response
        request = cast("RegisterBrokerRequest | HeartbeatRequest", call.request)
        if response.error is not Error.NONE and response.error is not self._refused:
            # A refusal is repeated many times and told once.
            self._stage.narrator.line(
                f"{self._broker.name} -> controller {self._text(request)} | {response.error.name}"
            )
        self._refused = response.error
        self.lifecycle.on_response(request, response, now_ms)
        self._stage.later(self.poke)

    def _retry_later(self) -> None:
        if len(self.proposals):
            self._retry_ms = self.proposals.retry_at_ms

    # -- telling

    def _tell_refusal(self, call: Call) -> None:
        response = call.response
        assert isinstance(response, AlterPartitionResponse), response
        errors = [result.error for result in response.results] or [response.error]
        if any(error is not Error.NONE for error in errors):
            self._tell_result(call)

    def _tell_result(self, call: Call, suffix: str = "") -> None:
        told = f"controller -> {self._broker.name} {self._result_text(call)}{suffix}"
        self._stage.narrator.line(told)

    def _text(self, request: ControllerRequest) -> str:
        if isinstance(request, AlterPartitionRequest):
            return f"proposes {self._members_text(request)}"
        if isinstance(request, RegisterBrokerRequest):
            return "registers"
        return "heartbeat"

    def _members_text(self, request: AlterPartitionRequest) -> str:
        (proposal,) = request.proposals
        members = (member.broker_id for member in proposal.isr)
        return f"isr={self._stage.cast.names_of(members)}"

    def _result_text(self, call: Call) -> str:
        response = call.response
        assert isinstance(response, AlterPartitionResponse), response
        assert isinstance(call.request, AlterPartitionRequest), call.request
        result = response.results[0] if response.results else None
        error = response.error if result is None else result.error
        proposed = self._members_text(call.request)
        if error is Error.NEW_LEADER_ELECTED:
            return f"{proposed} answered {error.name}"  # carried out, and it cost the leadership
        if error is not Error.NONE:
            return f"{proposed} refused {error.name}"
        return f"{proposed} committed {_epoch_text(result)}"


def _epoch_text(result: IsrResult | None) -> str:
    assert result is not None, "a committed proposal has a result"
    return f"partition-epoch={result.partition_epoch}"


def _kind(request: ControllerRequest) -> str:
    if isinstance(request, AlterPartitionRequest):
        return wire.PROPOSAL
    return wire.REGISTRATION if isinstance(request, RegisterBrokerRequest) else wire.HEARTBEAT
