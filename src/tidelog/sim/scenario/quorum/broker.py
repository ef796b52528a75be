"""A broker as the controller sees it: it registers, sends heartbeats and follows the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tidelog.core.errors import Error
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.lifecycle import SHUTTING_DOWN, BrokerLifecycle, LifecycleSettings
from tidelog.core.metadata.records import MetadataRecord
from tidelog.core.metadata.replay import replay
from tidelog.core.requests import (
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from tidelog.core.types import NO_LEADER
from tidelog.sim.scenario.quorum.messages import Call

if TYPE_CHECKING:
    from tidelog.sim.scenario.quorum.machine import Machine

CLUSTER_ID = "story"


class BrokerProcess:
    """One start of a broker. It hosts no replicas: stories about those have their own stage."""

    def __init__(self, machine: Machine, incarnation: bytes, previous_broker_epoch: int) -> None:
        self._machine = machine
        self._stage = machine.stage
        self.image = MetadataImage()
        self._refused: Error | None = None
        self.lifecycle = BrokerLifecycle(
            machine.key.node_id,
            CLUSTER_ID,
            incarnation,
            previous_broker_epoch,
            LifecycleSettings(),
        )

    def apply(self, records: tuple[object, ...]) -> None:
        for record in records:
            replay(self.image, cast("MetadataRecord", record))

    @property
    def stopped(self) -> bool:
        return self.lifecycle.state == SHUTTING_DOWN

    def poke(self) -> None:
        """Say what is due to whoever leads the quorum, as far as this broker knows."""
        machine, now_ms = self._machine, self._stage.now_ms
        offset = machine.applied_offset - 1
        request = self.lifecycle.next_request(now_ms, offset, ready=True)
        if request is None:
            return
        registers = isinstance(request, RegisterBrokerRequest)
        kind = "registration" if registers else "heartbeat"
        target = machine.running.leader_id
        call = Call(machine.address, target, kind, request, kind)
        if target == NO_LEADER:
            self.on_lost(call)
        else:
            self._stage.post_call(call)

    def on_lost(self, call: Call) -> None:
        self.lifecycle.on_failure(self._stage.now_ms)

    def on_response(self, call: Call) -> None:
        response = call.response
        assert isinstance(response, (RegisterBrokerResponse, HeartbeatResponse)), response
        request = cast("RegisterBrokerRequest | HeartbeatRequest", call.request)
        if response.error not in (Error.NONE, self._refused):
            # A refusal is repeated many times and told once.
            self._machine.note(f"{call.kind} refused {response.error.name}")
        self._refused = response.error
        self.lifecycle.on_response(request, response, self._stage.now_ms)
        if self.stopped:
            self._machine.note("stops")
            self._machine.finish_clean_stop()
        else:
            self._stage.later(self._machine.poke)
