"""Controllers on real members of a quorum: real sockets, real files, one event loop."""

from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from support.live_quorum import CLUSTER_ID, HOST, LiveMember, LiveQuorum, until
from tidelog.controller.controller import ENVELOPE, ActiveController, ClusterFacts
from tidelog.controller.handlers import envelope
from tidelog.core.metadata.settings import ControllerSettings
from tidelog.host.entropy import SystemEntropy
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import CloseReason, PeerConnection
from tidelog.rpc import ApiTable, Call, Handler, Peer, serve
from tidelog.wire.protocol import Listener, Message
from tidelog.wire.protocol.schemas.broker_heartbeat_request import BrokerHeartbeatRequest
from tidelog.wire.protocol.schemas.broker_heartbeat_response import BrokerHeartbeatResponse
from tidelog.wire.protocol.schemas.broker_registration_request import (
    BrokerRegistrationRequest,
)
from tidelog.wire.protocol.schemas.broker_registration_request import Listener as Endpoint
from tidelog.wire.protocol.schemas.broker_registration_response import BrokerRegistrationResponse

WAIT_MS = 10_000
CAUGHT_UP = 1 << 40

Kind = TypeVar("Kind", bound=Message)


class ControllerMember(LiveMember):
    """A node that votes and may be active controller, and nothing else."""

    controller: ActiveController

    def __init__(self, quorum: LiveQuorum, node_id: int, directory: Path) -> None:
        super().__init__(quorum, node_id, directory)
        self._connections: dict[str, set[PeerConnection]] = {}
        self._cut_off: set[str] = set()

    def cut_off(self, *others: "ControllerMember") -> None:
        """Nothing the others ask as members of the quorum is heard here, nor answered any more."""
        for other in others:
            name = f"quorum-{other.node_id}"
            self._cut_off.add(name)
            for connection in self._connections.pop(name, ()):
                connection.close()

    def heal(self) -> None:
        self._cut_off.clear()

    def _unless_cut_off(self, handler: Handler) -> Handler:
        def handle(call: Call) -> None:
            if call.client_id in self._cut_off:
                call.close()
                return
            self._connections.setdefault(call.client_id, set()).add(call.connection)
            handler(call)

        return handle

    def prepare(self) -> None:
        super().prepare()
        network = self._network
        assert network is not None
        host = NodeHost(
            network.wheel.clock, network.wheel, network, SystemEntropy(), self.events.append
        )
        self.controller = ActiveController(
            self.node_id,
            self.member,
            ControllerSettings(CLUSTER_ID, max_idle_interval_ms=0),
            host,
            ClusterFacts(self.quorum.place(self.node_id).voters),
        )
        self.member.listeners.append(self.controller)
        self.member.snapshot_source = self.controller.core.snapshot_records
        of_quorum = {key: self._unless_cut_off(each) for key, each in self.member.handlers.items()}
        handlers = {**self.controller.handlers, **of_quorum}
        handlers[ENVELOPE] = partial(envelope.handle, dict(handlers))
        table = ApiTable(Listener.CLUSTER, handlers)
        self._accept = serve(table, "CONTROLLER", on_closed=self._on_closed)

    def _on_closed(self, connection: PeerConnection, reason: CloseReason) -> None:
        for connections in self._connections.values():
            connections.discard(connection)
        super()._on_closed(connection, reason)
        self.controller.on_closed(connection, reason)

    async def stop(self) -> None:
        if self.running:
            self.controller.stop()
        await super().stop()

    async def crash(self) -> None:
        self.controller.stop()
        await super().crash()

    async def ask(self, request: Message, version: int, kind: type[Kind]) -> Kind:
        """From outside, over a connection of its own."""
        assert self._network is not None
        peer = Peer(self._network, (HOST, self.port), "story", connect_timeout_ms=WAIT_MS)
        try:
            answer = await peer.ask(request, version, timeout_ms=WAIT_MS)
        finally:
            peer.close()
        assert isinstance(answer, kind), answer
        return answer

    async def take_in(self, broker_id: int, *ports: int) -> int:
        """Register a broker with these endpoints and unfence it. Its broker epoch."""
        registration = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=bytes([broker_id]) * 16,
            listeners=[Endpoint(name="PLAINTEXT", host=HOST, port=port) for port in ports],
        )
        registered = await self.ask(registration, 4, BrokerRegistrationResponse)
        assert registered.error_code == 0, registered
        beat = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=registered.broker_epoch,
            current_metadata_offset=CAUGHT_UP,
        )
        beaten = await self.ask(beat, 1, BrokerHeartbeatResponse)
        assert not beaten.is_fenced, beaten
        return registered.broker_epoch


class LiveControllers(LiveQuorum):
    nodes: dict[int, Any]

    def __init__(self, directory: Path, *, voters: int) -> None:
        super().__init__(directory, voters=0)
        self.voters = range(1, voters + 1)
        self.nodes = {
            node_id: ControllerMember(self, node_id, directory / f"node-{node_id}")
            for node_id in self.voters
        }

    async def active(self) -> ControllerMember:
        """The one that leads, has claimed, and has committed what a new cluster starts with."""
        leader = await self.leader()
        assert isinstance(leader, ControllerMember)
        await until(lambda: bool(leader.controller.core.committed.features))
        return leader
