"""A real broker whose metadata the test commits, a client on two listeners, and a controller
that says what the test wants.

The controller speaks over a socket like a real one. Deadlines come when the test moves the clock.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path

from support.broker_config import CLIENTS, INSIDE, OWN_ID, node_config
from support.loopback import answer_of, loopback, until
from support.manual_clock import ManualClock
from tidelog.broker.api_table import handlers
from tidelog.broker.broker import Broker
from tidelog.broker.control.controller_link import BrokerIdentity
from tidelog.broker.handlers import forwarded
from tidelog.broker.logs.directories import Directories
from tidelog.broker.replication.topic_settings import settings_before_metadata
from tidelog.config.node_config import NodeConfig
from tidelog.controller.controller import ENVELOPE
from tidelog.controller.handlers import envelope
from tidelog.core.metadata import records as r
from tidelog.core.types import LogEntry
from tidelog.host.disk import FileDisk
from tidelog.host.disk_space import disk_space
from tidelog.host.entropy import SystemEntropy
from tidelog.host.node_host import NodeHost
from tidelog.host.workers import ThreadWorkers
from tidelog.rpc import ApiTable, Call, Handler, Peer, serve
from tidelog.storage import LogDirectory
from tidelog.storage.meta_properties import MetaProperties, format_directory
from tidelog.wire.protocol import (
    Listener,
    Message,
    RequestHeader,
    encode_request,
    read_response_header,
)
from tidelog.wire.protocol.schemas.describe_cluster_request import DescribeClusterRequest

CLUSTER_ID = "story"
WAIT_MS = 60_000
BROKER_REGISTRATION = 62

Answer = Callable[[Message], Message]


def leave_unanswered(_: Call) -> None:
    """The story registers the broker itself, in the metadata."""


class ScriptedController:
    """Answers each API as the script says; what has no script stays unanswered."""

    def __init__(self) -> None:
        self.script: dict[int, Answer] = {}
        self.asked: list[tuple[int, Message]] = []
        """Versions and requests."""

    def handle(self, call: Call) -> None:
        self.asked.append((call.version, call.request))
        answer = self.script.get(call.header.api_key)
        if answer is not None:
            call.answer(answer(call.request))

    def table(self) -> ApiTable:
        served: dict[int, Handler] = dict.fromkeys(forwarded.ROWS, self.handle)
        served[BROKER_REGISTRATION] = leave_unanswered
        served[ENVELOPE] = partial(envelope.handle, dict(served))
        return ApiTable(Listener.CLUSTER, served)


class AdminStory:
    def __init__(
        self,
        broker: Broker,
        clients: dict[str, Peer],
        controller: ScriptedController,
        table: ApiTable,
    ) -> None:
        self.broker = broker
        self.clients = clients
        self.controller = controller
        self.table = table
        self._offset = 0

    def commit(self, *records: r.MetadataRecord) -> None:
        self.broker.committed.on_committed(LogEntry(self._offset, 1, records))
        self._offset += len(records)
        self.broker.committed.on_applied(self._offset)

    def register(
        self, broker_id: int, *, fenced: bool = False, listeners: Sequence[str] = (CLIENTS, INSIDE)
    ) -> None:
        endpoints = tuple(
            r.Endpoint(name, f"{name.lower()}-{broker_id}", 9000 + broker_id) for name in listeners
        )
        self.commit(
            r.RegisterBroker(
                broker_id,
                bytes([broker_id]) * 16,
                self._offset,
                endpoints,
                rack=f"rack-{broker_id}",
                fenced=fenced,
            )
        )

    def create_topic(
        self, name: str, partitions: int = 1, *, replicas: tuple[int, ...] = (OWN_ID,)
    ) -> bytes:
        topic_id = topic_id_of(name)
        self.commit(
            r.Topic(name, topic_id),
            *(
                r.Partition(n, topic_id, replicas, replicas, leader=replicas[0])
                for n in range(partitions)
            ),
        )
        return topic_id

    async def ask(self, request: Message, version: int, listener: str = CLIENTS) -> Message:
        return await self.clients[listener].ask(request, version, timeout_ms=WAIT_MS)

    async def arrived(self, key: int, requests: int) -> None:
        """Until so many requests of this API have come in."""
        while self.table.requests[key] < requests:
            await asyncio.sleep(0)

    async def other_traffic(self) -> None:
        """Long enough for an answer that does not wait to have arrived."""
        for _ in range(3):
            await self.ask(DescribeClusterRequest(), 0, INSIDE)

    async def ask_raw(self, request: Message, version: int) -> bytes:
        """The body of the answer as it came over the wire."""
        header = RequestHeader(request.__api_key__, version, 7, "story")
        host, port = self.clients[CLIENTS].address
        connection = await self.broker.host.network.connect(host, port, timeout_ms=WAIT_MS)
        try:
            frame = await answer_of(connection, encode_request(header, request), timeout_ms=WAIT_MS)
        finally:
            connection.close()
        _, position = read_response_header(frame, request.__api_key__, version)
        return bytes(frame[position:])

    def pass_time(self, by_ms: int) -> None:
        clock = self.broker.host.clock
        assert isinstance(clock, ManualClock), clock
        clock.advance(by_ms)
        self.broker.host.timers.fire_due()


def topic_id_of(name: str) -> bytes:
    return name.encode()[-16:].ljust(16, b".")


@contextlib.asynccontextmanager
async def admin_story(
    data: Path, *, directories: int = 1, **settings: str
) -> AsyncIterator[AdminStory]:
    """Broker 1 is ours and registered, with 2 and 3."""
    paths = [data / f"logs-{number}" for number in range(directories)]
    config = node_config(paths, **settings)
    async with loopback() as network, contextlib.AsyncExitStack() as stack:
        wheel = network.wheel
        host = NodeHost(
            wheel.clock, wheel, network, SystemEntropy(), lambda _: None, disk_space=disk_space
        )
        controller = ScriptedController()
        listening = await network.listen("127.0.0.1", 0, serve(controller.table(), "C"))
        stack.push_async_callback(listening.stop, timeout_ms=0)
        # Who stops does not read: that the broker hung up has to be heard before.
        stack.push_async_callback(until, lambda: not listening.connections)
        address = ("127.0.0.1", listening.port)
        opened = Directories([open_directory(path, config) for path in paths], ThreadWorkers)
        place = BrokerIdentity(config, CLUSTER_ID, lambda: (9, address), -1)
        broker = Broker(place, opened, host)
        opened.start(broker.replicas.on_durable, raise_it)
        stack.push_async_callback(opened.stop)
        stack.callback(broker.link.close)
        stack.callback(broker.suspected.close)
        stack.callback(broker.coordination.close)
        table = ApiTable(Listener.CLIENT, handlers(broker))
        clients: dict[str, Peer] = {}
        for name in (CLIENTS, INSIDE):
            listener = await network.listen("127.0.0.1", 0, serve(table, name))
            stack.push_async_callback(listener.stop, timeout_ms=0)
            here = ("127.0.0.1", listener.port)
            clients[name] = Peer(network, here, "story", connect_timeout_ms=WAIT_MS)
            stack.callback(clients[name].close)
        story = AdminStory(broker, clients, controller, table)
        for broker_id in (OWN_ID, 2, 3):
            story.register(broker_id)
        broker.committed.begin_serving()
        yield story


def open_directory(path: Path, config: NodeConfig) -> LogDirectory:
    path.mkdir(parents=True)
    disk = FileDisk(path)
    format_directory(disk, MetaProperties(CLUSTER_ID, OWN_ID, path.name.encode().ljust(16)))
    return LogDirectory.open(
        disk,
        partial(settings_before_metadata, config),
        cluster_id=CLUSTER_ID,
        node_id=OWN_ID,
    )


def raise_it(error: Exception) -> None:
    raise error
