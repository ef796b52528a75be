"""A controller on a real listener, with a quorum that is one list and commits when it should."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from support.loopback import loopback, pass_time, until
from tidelog.config.live_keys import check_live_config
from tidelog.controller.controller import ActiveController, ClusterFacts
from tidelog.core.errors import Error
from tidelog.core.events import Event
from tidelog.core.metadata.image import BrokerRegistration, MetadataImage
from tidelog.core.metadata.records import MetadataRecord
from tidelog.core.metadata.settings import ControllerSettings
from tidelog.core.quorum.messages import LeaderChange
from tidelog.core.types import NO_LEADER, LogEntry
from tidelog.host.entropy import SystemEntropy
from tidelog.host.network import TcpNetwork
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import CloseReason, PeerConnection
from tidelog.host.ports import Listener as OpenListener
from tidelog.rpc import ApiTable, Call, Handler, Peer, serve
from tidelog.wire.protocol import Listener, Message
from tidelog.wire.protocol.schemas.api_versions_response import ApiVersionsResponse
from tidelog.wire.protocol.schemas.broker_heartbeat_request import BrokerHeartbeatRequest
from tidelog.wire.protocol.schemas.broker_heartbeat_response import BrokerHeartbeatResponse
from tidelog.wire.protocol.schemas.broker_registration_request import (
    BrokerRegistrationRequest,
)
from tidelog.wire.protocol.schemas.broker_registration_request import Listener as Endpoint
from tidelog.wire.protocol.schemas.broker_registration_response import BrokerRegistrationResponse

CLUSTER_ID = "cluster"
NODE_ID = 7
WAIT_MS = 30_000
CAUGHT_UP = 1 << 40
HOST = "127.0.0.1"

Kind = TypeVar("Kind", bound=Message)


class OneVoter:
    """A metadata log in memory. Entries are committed at the next turn of the loop, unless they
    are held; `elect` and `depose` say who leads."""

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self.leader_id = NO_LEADER
        self.epoch = 0
        self.log: list[LogEntry] = []
        self.committed = 0
        self.held = False
        self.listener: ActiveController | None = None

    @property
    def end_offset(self) -> int:
        return self.log[-1].next_offset if self.log else 0

    def append(self, records: tuple[MetadataRecord, ...]) -> int:
        assert self.leader_id == NODE_ID, self.leader_id
        offset = self.end_offset
        self.log.append(LogEntry(offset, self.epoch, records))
        if not self.held:
            asyncio.get_running_loop().call_soon(self.commit)
        return offset

    def commit(self) -> None:
        assert self.listener is not None
        while self.committed < len(self.log):
            entry = self.log[self.committed]
            self.committed += 1
            self.listener.on_committed(entry)
        self.listener.on_applied(self.end_offset)

    def elect(self) -> None:
        assert self.listener is not None
        self.epoch += 1
        self.leader_id = NODE_ID
        change = LeaderChange(NODE_ID, (), ())
        self.log.append(LogEntry(self.end_offset, self.epoch, (change,), control=True))
        self.commit()
        self.listener.on_claimable(self.epoch, self.end_offset)

    def depose(self) -> None:
        """What is not committed is gone, though nobody here knows it yet."""
        self.resign()
        del self.log[self.committed :]

    def resign(self) -> None:
        """What is not committed waits for the next leader."""
        assert self.listener is not None
        self.leader_id = NO_LEADER
        self.listener.on_lost(self.epoch)


class ControllerNode:
    """One controller, its listener, and a clock that the story moves."""

    def __init__(self, network: TcpNetwork, *, authorizer: bool = False, **settings: Any) -> None:
        self.network = network
        self.wrap: Callable[[dict[int, Handler]], dict[int, Handler]] = dict
        """Puts something before the handlers."""
        self.quorum = OneVoter()
        self.events: list[Event] = []
        host = NodeHost(
            network.wheel.clock, network.wheel, network, SystemEntropy(), self.events.append
        )
        usual = {"max_idle_interval_ms": 0, "check_broker_config": check_live_config}
        self.controller = ActiveController(
            NODE_ID,
            self.quorum,
            ControllerSettings(CLUSTER_ID, **{**usual, **settings}),
            host,
            ClusterFacts({NODE_ID: (HOST, 9093)}, {"retention.bytes": "77"}, authorizer),
        )
        self.quorum.listener = self.controller
        self.port = 0
        self.closed = 0
        """Connections to it that have ended."""
        self._opened: list[OpenListener] = []
        self._peers: list[Peer] = []

    async def open(self) -> None:
        table = ApiTable(Listener.CLUSTER, self.wrap(self.controller.handlers))
        served = serve(table, "CONTROLLER", on_closed=self._on_closed)
        self.port = (await self.listen(served)).port

    async def close(self) -> None:
        for peer in self._peers:
            peer.close()
        self.controller.stop()
        for opened in list(self._opened):
            await self.stop_listening(opened)

    def _on_closed(self, connection: PeerConnection, reason: CloseReason) -> None:
        self.controller.on_closed(connection, reason)
        self.closed += 1

    @property
    def image(self) -> MetadataImage:
        return self.controller.core.committed

    def broker(self, broker_id: int) -> BrokerRegistration:
        return self.image.brokers[broker_id]

    def peer(self) -> Peer:
        peer = Peer(self.network, (HOST, self.port), "story", connect_timeout_ms=WAIT_MS)
        self._peers.append(peer)
        return peer

    async def listen(self, served: Any = None) -> OpenListener:
        """A listener of a broker, if nothing else is said: it accepts, and that is all."""
        opened = await self.network.listen(HOST, 0, served or serve(NOTHING, "PLAINTEXT"))
        self._opened.append(opened)
        return opened

    async def stop_listening(self, opened: OpenListener) -> None:
        self._opened.remove(opened)
        await opened.stop(timeout_ms=WAIT_MS)

    async def ask(self, request: Message, version: int, kind: type[Kind]) -> Kind:
        """Over a connection of its own."""
        peer = self.peer()
        answer = await peer.ask(request, version, timeout_ms=WAIT_MS)
        peer.close()
        assert isinstance(answer, kind), answer
        return answer

    def pass_time(self, by_ms: int) -> None:
        pass_time(self.network, by_ms)

    async def start_brokers(self, *broker_ids: int) -> "list[StoryBroker]":
        brokers = [StoryBroker(self, broker_id) for broker_id in broker_ids]
        for broker in brokers:
            await broker.start()
        return brokers


def nothing(call: Call) -> None:
    call.answer(ApiVersionsResponse())


NOTHING = ApiTable(Listener.CLIENT, {18: nothing})


class StoryBroker:
    """What a controller sees of a broker: its requests, and whether somebody listens there."""

    def __init__(self, node: ControllerNode, broker_id: int) -> None:
        self.node = node
        self.id = broker_id
        self.broker_epoch = -1
        self.peer = node.peer()
        self.listeners: list[OpenListener] = []

    async def start(self, *, listeners: int = 1) -> None:
        """Listens, registers, and sends heartbeats until it is unfenced."""
        self.listeners = [await self.node.listen() for _ in range(listeners)]
        answer = await self.register(*(listener.port for listener in self.listeners))
        assert answer.error_code == Error.NONE, answer
        self.broker_epoch = answer.broker_epoch
        assert not (await self.beat()).is_fenced

    async def register(self, *ports: int, **changes: Any) -> BrokerRegistrationResponse:
        wish: dict[str, Any] = {
            "broker_id": self.id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": bytes([self.id]) * 16,
            "log_dirs": [bytes([100 + self.id]) * 16],
            "listeners": [
                Endpoint(name=f"L{index}", host=HOST, port=port) for index, port in enumerate(ports)
            ],
        }
        request = BrokerRegistrationRequest(**{**wish, **changes})
        answer = await self.peer.ask(request, 4, timeout_ms=WAIT_MS)
        assert isinstance(answer, BrokerRegistrationResponse)
        return answer

    async def beat(self, **changes: Any) -> BrokerHeartbeatResponse:
        wish: dict[str, Any] = {
            "broker_id": self.id,
            "broker_epoch": self.broker_epoch,
            "current_metadata_offset": CAUGHT_UP,
        }
        request = BrokerHeartbeatRequest(**{**wish, **changes})
        answer = await self.peer.ask(request, 2, timeout_ms=WAIT_MS)
        assert isinstance(answer, BrokerHeartbeatResponse)
        return answer

    async def stop_listening(self) -> None:
        while self.listeners:
            await self.node.stop_listening(self.listeners.pop())

    async def die(self) -> None:
        """As a process: nobody listens any more, and its connections close."""
        await self.stop_listening()
        self.peer.close()


@contextlib.asynccontextmanager
async def controller_node(**settings: Any) -> AsyncIterator[ControllerNode]:
    """An active controller. Its deadlines come when the story moves the clock."""
    async with loopback() as network:
        node = ControllerNode(network, **settings)
        await node.open()
        node.quorum.elect()
        await until(lambda: node.image.features)
        try:
            yield node
        finally:
            await node.close()
