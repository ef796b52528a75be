"""A real broker on real sockets and files, whose metadata and clock the test owns.

There is no controller: the test commits metadata records itself. Deadlines come when the test
moves the clock.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from pathlib import Path

from support.loopback import loopback
from support.manual_clock import ManualClock
from tidelog.broker.api_table import handlers
from tidelog.broker.broker import Broker
from tidelog.broker.control.controller_link import BrokerIdentity, FindController
from tidelog.broker.duties import Duties
from tidelog.broker.logs.directories import Directories
from tidelog.broker.replication.topic_settings import settings_before_metadata
from tidelog.config.layers import Inputs
from tidelog.config.node_config import NodeConfig, load_node_config
from tidelog.config.properties import parse_properties
from tidelog.core.events import Event
from tidelog.core.metadata import records as r
from tidelog.core.replication.inputs import FollowerFetch
from tidelog.core.types import LogEntry
from tidelog.host.disk import FileDisk
from tidelog.host.entropy import SystemEntropy
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import Disk
from tidelog.host.ports import Listener as NetworkListener
from tidelog.host.workers import ThreadWorkers
from tidelog.rpc import ApiTable, Handler, Peer, serve
from tidelog.storage import LogDirectory
from tidelog.storage.meta_properties import MetaProperties, format_directory
from tidelog.wire.protocol import Listener, Message

BROKER_ID = 1
LISTENER = "PLAINTEXT"
WAIT_MS = 60_000
FIRST_BROKER_EPOCH = 100
LEADER_EPOCH = 5


def node_config(data: Path, *, voters: str = "9@127.0.0.1:1", **extra: str) -> NodeConfig:
    given = {
        "process.roles": "broker",
        "node.id": str(BROKER_ID),
        "listeners": f"{LISTENER}://127.0.0.1:9092",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": voters,
        "log.dirs": str(data),
        "ack.durability": "page-cache",
        **{name.replace("_", "."): value for name, value in extra.items()},
    }
    text = "".join(f"{name}={value}\n" for name, value in given.items())
    loaded = load_node_config(Inputs(parse_properties(text, "server.properties")))
    assert loaded.config is not None, loaded.problems
    return loaded.config


class LoneBroker:
    """A broker, a listener for some of its APIs, and a client connected to it."""

    def __init__(self, broker: Broker, listener: NetworkListener, clock: ManualClock) -> None:
        self.broker = broker
        self.clock = clock
        self.port = listener.port
        address = ("127.0.0.1", listener.port)
        self.client = Peer(broker.host.network, address, "story", connect_timeout_ms=WAIT_MS)
        self.offline: list[Exception] = []
        """What the node would hear when a log directory fails."""
        self._offset = 0

    def commit(self, *records: r.MetadataRecord) -> None:
        self.broker.committed.on_committed(LogEntry(self._offset, 1, records))
        self._offset += len(records)

    def create_topic(
        self,
        name: str,
        *,
        replicas: tuple[int, ...] = (BROKER_ID,),
        isr: tuple[int, ...] | None = None,
        leader: int = BROKER_ID,
        **configs: str,
    ) -> bytes:
        """Its id. Underscores in the names of settings stand for dots."""
        topic_id = name.encode()[-16:].ljust(16, b".")
        changes = [
            r.Config(r.RESOURCE_TOPIC, name, key.replace("_", "."), value)
            for key, value in configs.items()
        ]
        in_sync = replicas if isr is None else isr
        self.commit(
            r.Topic(name, topic_id),
            *changes,
            r.Partition(
                0,
                topic_id,
                replicas,
                in_sync,
                leader=leader,
                leader_epoch=LEADER_EPOCH,
                partition_epoch=LEADER_EPOCH,
            ),
        )
        return topic_id

    def register(self, broker_id: int, port: int) -> None:
        self.commit(
            r.RegisterBroker(
                broker_id,
                bytes([broker_id]) * 16,
                FIRST_BROKER_EPOCH + broker_id,
                (r.Endpoint(LISTENER, "127.0.0.1", port), r.Endpoint("OTHER", "elsewhere", 1)),
                fenced=False,
            )
        )

    def follower_fetches(self, topic: str, replica_id: int, offset: int, start: int = 0) -> None:
        """A follower asks for this offset, as if it came from the wire."""
        hosted = self.broker.replicas.named(topic, 0)
        assert hosted is not None, topic
        assert hosted.leader is not None, hosted
        epoch = FIRST_BROKER_EPOCH + replica_id
        fetch = FollowerFetch(replica_id, epoch, LEADER_EPOCH, offset, -1, start)
        _, effects = hosted.leader.on_follower_fetch(fetch, self.broker.now_ms())
        self.broker.replicas.perform(hosted, effects)

    def pass_time(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        self.broker.host.timers.fire_due()

    async def until(self, condition: Callable[[], object], step_ms: int = 10) -> None:
        """Let time pass until something is so; the guard of the story bounds it."""
        while not condition():
            self.pass_time(step_ms)
            await asyncio.sleep(0.001)

    async def ask(self, request: Message, version: int) -> Message:
        return await self.client.ask(request, version, timeout_ms=WAIT_MS)


@contextlib.asynccontextmanager
async def lone_broker(
    data: Path,
    apis: Iterable[int],
    *,
    disk: Disk | None = None,
    find_controller: FindController = lambda: None,
    serving: bool = True,
    wrap: Callable[[Broker, dict[int, Handler]], dict[int, Handler]] = lambda _, every: every,
    **settings: str,
) -> AsyncIterator[LoneBroker]:
    """Brokers 1, 2 and 3 are registered; nothing is led yet. Without `serving` metadata waits
    until the controller's answers let the broker begin. `wrap` puts something before handlers."""
    config = node_config(data, **settings)
    async with loopback() as network:
        events: list[Event] = []
        host = NodeHost(network.wheel.clock, network.wheel, network, SystemEntropy(), events.append)
        files = FileDisk(data) if disk is None else disk
        format_directory(files, MetaProperties("story", BROKER_ID, b"d" * 16))
        directory = LogDirectory.open(
            files,
            partial(settings_before_metadata, config),
            cluster_id="story",
            node_id=BROKER_ID,
        )
        directories = Directories([directory], ThreadWorkers)
        broker = Broker(BrokerIdentity(config, "story", find_controller, -1), directories, host)
        every = wrap(broker, handlers(broker))
        table = ApiTable(Listener.CLIENT, {key: every[key] for key in apis})
        absences = broker.absences
        accept = serve(table, LISTENER, on_closed=absences.on_closed, on_opened=absences.on_opened)
        listener = await network.listen("127.0.0.1", 0, accept)
        lone = LoneBroker(broker, listener, network.wheel.clock)
        directories.start(broker.replicas.on_durable, lone.offline.append)
        for broker_id in (1, 2, 3):
            lone.register(broker_id, port=broker_id)  # where nobody listens
        if serving:
            broker.link.lifecycle.broker_epoch = FIRST_BROKER_EPOCH + BROKER_ID
            broker.committed.begin_serving()
        try:
            yield lone
        finally:
            lone.client.close()
            await broker.fetchers.stop()
            broker.coordination.close()
            broker.suspected.close()
            broker.markers.close()
            broker.verifications.close()
            broker.mending.close()
            broker.restoring.close()
            broker.leaving_isr.close()
            broker.rooms.close()
            broker.link.close()
            broker.workshop.close()
            await listener.stop(timeout_ms=0)
            await directories.stop()


def duties_of(broker: Broker, on_failure: Callable[[Exception], None]) -> Duties:
    """What it does by the clock, not started yet."""
    broker.duties.on_failure = on_failure
    return broker.duties


async def until(condition: Callable[[], object]) -> None:
    """Wait for the work of other threads; the guard of the story bounds it."""
    while not condition():
        await asyncio.sleep(0.001)
