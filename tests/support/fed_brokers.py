"""Real brokers on real sockets and files in one process, fed with metadata by the test.

There is no controller: the test commits metadata records, to all brokers or to one.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path

from support.batches import batch
from tidelog.broker.api_table import handlers
from tidelog.broker.broker import Broker
from tidelog.broker.control.controller_link import BrokerIdentity
from tidelog.broker.logs.directories import Directories
from tidelog.broker.replication.hosted import Hosted
from tidelog.broker.replication.topic_settings import settings_before_metadata
from tidelog.config.layers import Inputs
from tidelog.config.node_config import NodeConfig, load_node_config
from tidelog.config.properties import parse_properties
from tidelog.core.events import Event
from tidelog.core.metadata import records as r
from tidelog.core.types import LogEntry, PartitionId
from tidelog.host.clock import SystemClock
from tidelog.host.disk import FileDisk
from tidelog.host.entropy import SystemEntropy
from tidelog.host.network import TcpNetwork
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import Listener as NetworkListener
from tidelog.host.workers import ThreadWorkers
from tidelog.rpc import ApiTable, Handler, Peer, serve
from tidelog.storage import LogDirectory
from tidelog.storage.meta_properties import MetaProperties, format_directory
from tidelog.wire.protocol import Listener, Message

LISTENER = "PLAINTEXT"
CLUSTER = "story"
WAIT_MS = 30_000
APIS = (1, 2, 21, 23)


def readers(broker: Broker) -> dict[int, Handler]:
    """What is needed to read."""
    every = handlers(broker)
    return {key: every[key] for key in APIS}


def broker_epoch(broker_id: int) -> int:
    return 100 + broker_id


def topic_id(name: str) -> bytes:
    return name.encode()[-16:].ljust(16, b".")


def partition_id(name: str, index: int = 0) -> PartitionId:
    return PartitionId(topic_id(name), index)


def node_config(broker_id: int, data: Path, **extra: str) -> NodeConfig:
    given = {
        "process.roles": "broker",
        "node.id": str(broker_id),
        "listeners": f"{LISTENER}://127.0.0.1:9092",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "9@127.0.0.1:1",
        "log.dirs": str(data),
        "ack.durability": "page-cache",
        **{name.replace("_", "."): value for name, value in extra.items()},
    }
    text = "".join(f"{name}={value}\n" for name, value in given.items())
    loaded = load_node_config(Inputs(parse_properties(text, "server.properties")))
    assert loaded.config is not None, loaded.problems
    return loaded.config


def build(config: NodeConfig, data: Path, host: NodeHost) -> tuple[Broker, Directories]:
    """A broker on an empty directory. Nothing runs yet."""
    disk = FileDisk(data)
    format_directory(disk, MetaProperties(CLUSTER, config.node_id, bytes([config.node_id]) * 16))
    directory = LogDirectory.open(
        disk,
        partial(settings_before_metadata, config),
        cluster_id=CLUSTER,
        node_id=config.node_id,
    )
    directories = Directories([directory], ThreadWorkers)
    broker = Broker(BrokerIdentity(config, CLUSTER, lambda: None, -1), directories, host)
    broker.link.lifecycle.broker_epoch = broker_epoch(config.node_id)
    return broker, directories


def registration(broker_id: int, port: int, rack: str | None = None) -> r.RegisterBroker:
    return r.RegisterBroker(
        broker_id,
        bytes([broker_id]) * 16,
        broker_epoch(broker_id),
        (r.Endpoint(LISTENER, "127.0.0.1", port), r.Endpoint("OTHER", "elsewhere", 1)),
        rack=rack,
        fenced=False,
    )


def topic_records(
    name: str,
    *,
    replicas: tuple[int, ...],
    partitions: int = 1,
    leader: int | None = None,
    isr: tuple[int, ...] | None = None,
) -> list[r.MetadataRecord]:
    """Led by the first replica, in leader epoch 0, everybody in sync unless said otherwise."""
    return [
        r.Topic(name, topic_id(name)),
        *(
            r.Partition(
                index,
                topic_id(name),
                replicas,
                replicas if isr is None else isr,
                leader=replicas[0] if leader is None else leader,
                leader_epoch=0,
                partition_epoch=0,
            )
            for index in range(partitions)
        ),
    ]


def append(broker: Broker, name: str, *values: bytes, index: int = 0) -> int:
    """Append one batch as the leader does when it is produced to; its last offset."""
    hosted = hosted_on(broker, name, index)
    leader = hosted.leader
    assert leader is not None, f"{broker.id} does not lead {hosted}"
    header = hosted.log.append_as_leader(batch(*values), hosted.replica.leader_epoch)
    broker.replicas.mark_dirty(hosted)
    broker.replicas.perform(hosted, leader.on_appended(broker.now_ms()))
    broker.fetches.wake(hosted.partition)
    return header.last_offset


def hosted_on(broker: Broker, name: str, index: int = 0) -> Hosted:
    hosted = broker.replicas.named(name, index)
    assert hosted is not None, f"{broker.id} does not host {name}-{index}"
    return hosted


class FedBroker:
    """A broker that serves reads, and the way to it."""

    def __init__(
        self,
        broker: Broker,
        directories: Directories,
        network: TcpNetwork,
        apis: Callable[[Broker], dict[int, Handler]],
    ) -> None:
        self.broker = broker
        self.handlers = apis(broker)
        self.network = network
        self._directories = directories
        self._listener: NetworkListener | None = None
        self._peers: list[Peer] = []
        self.port = 0

    async def start(self) -> None:
        offline: list[Exception] = []
        self._directories.start(self.broker.replicas.on_durable, offline.append)
        await self.listen()

    async def listen(self) -> None:
        table = ApiTable(Listener.CLIENT, self.handlers)
        self._listener = await self.network.listen("127.0.0.1", self.port, serve(table, LISTENER))
        self.port = self._listener.port

    async def hang_up(self) -> None:
        """Stop listening; connections end."""
        if self._listener is not None:
            await self._listener.stop(timeout_ms=0)
            self._listener = None

    def client(self) -> Peer:
        peer = Peer(self.network, ("127.0.0.1", self.port), "story")
        self._peers.append(peer)
        return peer

    async def ask(self, request: Message, version: int) -> Message:
        return await self.client().ask(request, version, timeout_ms=WAIT_MS)

    async def stop(self) -> None:
        await self.broker.fetchers.stop()
        self.broker.suspected.close()
        self.broker.coordination.close()
        self.broker.markers.close()
        self.broker.verifications.close()
        self.broker.mending.close()
        self.broker.restoring.close()
        self.broker.leaving_isr.close()
        self.broker.scrubbing.close()
        self.broker.rooms.close()
        self.broker.link.close()
        self.broker.workshop.close()
        for peer in self._peers:
            peer.close()
        await self.hang_up()
        await self._directories.stop()
        self.network.close()


class FedCluster:
    def __init__(self, members: dict[int, FedBroker]) -> None:
        self.members = members
        self._offset = 0

    def __getitem__(self, broker_id: int) -> Broker:
        return self.members[broker_id].broker

    def commit(self, *records: r.MetadataRecord) -> None:
        for broker_id in self.members:
            self.commit_to(broker_id, *records)

    def commit_to(self, broker_id: int, *records: r.MetadataRecord) -> None:
        """One broker is ahead of the others."""
        self._offset += len(records)
        broker = self[broker_id]
        broker.committed.on_committed(LogEntry(self._offset, 1, records))

    def append(self, broker_id: int, name: str, *values: bytes, index: int = 0) -> int:
        return append(self[broker_id], name, *values, index=index)

    def hosted(self, broker_id: int, name: str, index: int = 0) -> Hosted:
        return hosted_on(self[broker_id], name, index)

    def log_end(self, broker_id: int, name: str, index: int = 0) -> int:
        return self.hosted(broker_id, name, index).log.log_end_offset


@contextlib.asynccontextmanager
async def fed_brokers(
    data: Path,
    *broker_ids: int,
    racks: bool = False,
    apis: Callable[[Broker], dict[int, Handler]] = readers,
    known: Sequence[r.MetadataRecord] = (),
    **settings: str,
) -> AsyncIterator[FedCluster]:
    """These brokers, registered and serving; there are no topics but those `known` before."""
    members: dict[int, FedBroker] = {}
    cluster = FedCluster(members)
    try:
        for broker_id in broker_ids:
            network = TcpNetwork(SystemClock())
            events: list[Event] = []
            host = NodeHost(
                network.wheel.clock, network.wheel, network, SystemEntropy(), events.append
            )
            directory = data / f"broker-{broker_id}"
            directory.mkdir(exist_ok=True)  # else it is a restart
            config = node_config(broker_id, directory, **settings)
            member = FedBroker(*build(config, directory, host), network, apis)
            members[broker_id] = member
            await member.start()
        for broker_id, member in members.items():
            rack = f"rack-{broker_id}" if racks else None
            cluster.commit(registration(broker_id, member.port, rack))
        if known:
            cluster.commit(*known)
        for broker_id in members:
            cluster[broker_id].committed.begin_serving()
        yield cluster
    finally:
        for member in members.values():
            await member.stop()
