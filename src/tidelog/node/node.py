"""The composition root: from a configuration and a host to a running node, and back."""

import asyncio
from collections.abc import Callable
from functools import partial

from tidelog.broker import api_table
from tidelog.broker.broker import Broker
from tidelog.broker.control.controller_link import BrokerIdentity
from tidelog.broker.logs.directories import Directories
from tidelog.config.endpoints import Listener as ListenerAddress
from tidelog.config.node_config import NodeConfig
from tidelog.controller.controller import ActiveController, ClusterFacts
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.records import RESOURCE_BROKER
from tidelog.core.security.scram import ScramCredential, ScramMechanism
from tidelog.core.types import NO_LEADER
from tidelog.host import tasks
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import CloseReason, PeerConnection
from tidelog.host.ports import Listener as OpenListener
from tidelog.node.access import AccessRules, authorizer_of, guarded_broker, guarded_controller
from tidelog.node.audit import Refusals
from tidelog.node.bootstrap_file import read_bootstrap
from tidelog.node.disks import (
    CannotStart,
    Disks,
    cannot_listen,
    note_stop,
    open_disks,
    open_log_directories,
    open_metadata_log,
    previous_broker_epoch,
)
from tidelog.node.from_kafka import check_metadata, check_voters, recorded_voters
from tidelog.node.held_connections import HeldConnections
from tidelog.node.leader_watch import LeaderWatch
from tidelog.node.leaving import Leaving
from tidelog.node.metadata_room import MetadataRoom
from tidelog.node.own_address import OwnAddress
from tidelog.node.security import NodeSecurity
from tidelog.node.throttling import FETCH, PRODUCE, Throttling, is_from_replica, quotas_of
from tidelog.quorum.entry_codec import KafkaEntryCodec
from tidelog.quorum.member import MemberFailed, QuorumMember
from tidelog.quorum.membership import QuorumMembership
from tidelog.rpc import ApiTable, serve
from tidelog.rpc.authorization.gate import Gate
from tidelog.rpc.logins import LATE_LOGINS
from tidelog.rpc.request_times import RequestTimes
from tidelog.storage.errors import StorageError
from tidelog.wire.protocol import Listener

DRAIN_TIMEOUT_MS = 2_000


class Node:
    """A quorum member, and a controller or a broker or both around it.

    Start opens the listeners first: a node that has registered can always be connected to, until
    its process is gone.
    """

    def __init__(self, config: NodeConfig, host: NodeHost) -> None:
        self.config = config
        self.host = host
        self.tables: list[ApiTable] = []
        """Of all listeners that are open."""
        self.client_tables: list[ApiTable] = []
        """Of those that clients use."""
        self.request_times = {
            PRODUCE: RequestTimes(host.clock, lambda _: True),
            FETCH: RequestTimes(host.clock, lambda request: not is_from_replica(request)),
        }
        self.listening = False
        self.stopping = False
        self._listeners: list[OpenListener] = []
        self._held = HeldConnections(host)
        self._decoders = host.make_workers("decoding", 1)
        self._failed: asyncio.Future[Exception] = tasks.promise()
        self.security = NodeSecurity(config, host, self.credential, self._live_settings)
        self._disks = open_disks(config, host.filesystem)
        self.cluster_id = self._disks.identity.cluster_id
        self.quorum = _quorum_member(config, self._disks, host)
        self.quorum.on_failure = self._fail
        self._leader_watch = LeaderWatch(host, self.quorum)
        self.metadata_room: MetadataRoom | None = None
        """None where the metadata log lies in a log directory: the broker looks at that."""
        if not config.is_broker or config.metadata_log_dir not in config.log_dirs:
            self.metadata_room = MetadataRoom(config, host)
        authorizer = authorizer_of(config)
        self.refusals = Refusals(host.emit, host.now_ms)
        self.gate: Gate | None = None
        if authorizer is not None:
            self.gate = Gate(authorizer, self.topic_name, self.refusals.on_refused)
            self.quorum.listeners.append(AccessRules(authorizer))
        self.throttling = Throttling(quotas_of(config), host)
        self.quorum.listeners.append(self.throttling)
        self.controller: ActiveController | None = None
        self.broker: Broker | None = None
        if config.is_controller:
            self.controller = self._make_controller()
            self.quorum.listeners.append(self.controller)
            self.quorum.snapshot_source = self.controller.core.snapshot_records
        own = _voters(config).get(config.node_id)
        self._own_address = OwnAddress(host, config.node_id, own) if own is not None else None
        if config.is_broker:
            self.broker = self._make_broker()
            self.throttling.traffic = self.broker.traffic
            self.broker.changes.on_failure = self._fail
            self.broker.duties.on_failure = self._fail
            self.broker.link.registering.on_seat_taken = self._fail
            self.quorum.listeners.append(self.broker.committed)

    def _make_controller(self) -> ActiveController:
        config = self.config
        facts = ClusterFacts(_voters(config), config.topic_defaults(), self.gate is not None)
        settings = config.controller_settings(self.cluster_id)
        settings.bootstrap_records = read_bootstrap(self._disks.metadata, self.host.entropy)
        return ActiveController(config.node_id, self.quorum, settings, self.host, facts)

    def _make_broker(self) -> Broker:
        directories = open_log_directories(self.config, self._disks, self.host.filesystem)
        place = BrokerIdentity(
            self.config,
            self.cluster_id,
            self._find_controller,
            previous_broker_epoch=previous_broker_epoch(directories),
        )
        return Broker(place, Directories(directories, self.host.make_workers), self.host)

    def _find_controller(self) -> tuple[int, tuple[str, int]] | None:
        address = self.quorum.leader_address()
        return None if address is None else (self.quorum.leader_id, address)

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        image = self.image()
        return None if image is None else image.scram_credentials.get((mechanism, user))

    def image(self) -> MetadataImage | None:
        """None before there is a broker or a controller to follow the metadata."""
        if self.broker is not None:
            return self.broker.image
        return None if self.controller is None else self.controller.image

    def _live_settings(self) -> dict[str, str]:
        """Of this broker, as they were altered while it runs."""
        image = self.broker.image if self.broker is not None else None
        if image is None:
            return {}
        of_all = image.configs.get((RESOURCE_BROKER, ""), {})
        return {**of_all, **image.configs.get((RESOURCE_BROKER, str(self.config.node_id)), {})}

    # -- life

    async def start(self, on_ready: Callable[[], None]) -> None:
        """`on_ready` is called when clients may come: for a controller alone that is at once. A
        node whose disk fails meanwhile never calls it; `failed` says why."""
        await self._listen()
        self.listening = True
        self.security.start()
        broker = self.broker
        if broker is not None:
            replicas = broker.replicas
            replicas.directories.start(replicas.on_durable, self._fail)
        if self._own_address is not None:
            await self._own_address.check(self._fail)
        try:
            self.quorum.start()
        except (MemberFailed, StorageError, OSError) as error:
            self._fail(error)  # if the member has not said it already
            return
        self._leader_watch.start()
        if self.metadata_room is not None:
            self.metadata_room.start()
        if broker is not None:
            broker.committed.when_running(partial(self._let_clients_in, on_ready))
            broker.link.poke()
            broker.duties.start()
        else:
            on_ready()

    def _let_clients_in(self, on_ready: Callable[[], None]) -> None:
        if self.gate is not None:
            self.gate.authorizer.ready = True
        self._held.open_all()
        on_ready()

    def topic_name(self, topic_id: bytes) -> str | None:
        image = self.image()
        topic = image.topics.get(topic_id) if image is not None else None
        return None if topic is None else topic.name

    async def _listen(self) -> None:
        for listener in self.config.listeners:
            try:
                await self._open(listener)
            except OSError as error:
                address = f"{listener.name}://{listener.host}:{listener.port}"
                raise cannot_listen(address, "listeners", error) from error

    async def _open(self, listener: ListenerAddress) -> None:
        network, host, port = self.host.network, listener.host, listener.port
        tls = self.security.tls_of(listener.name)
        authentication = self.security.authentication_of(listener.name)
        if listener.name in self.config.controller_listeners:
            if self.controller is None:
                return
            controller = self.controller
            handlers = {**controller.handlers, **self.quorum.handlers, **LATE_LOGINS}
            served = guarded_controller(self.gate, handlers, lambda: controller.active)
            table = ApiTable(Listener.CLUSTER, served)
            self.throttling.meter_mutations(table, lambda: controller.image)
            own = self._own_address
            accept = serve(
                table,
                listener.name,
                on_closed=self._on_controller_connection_closed,
                work=self.host.work,
                decoders=self._decoders,
                on_opened=None if own is None else own.on_opened,
                authentication=authentication,
            )
            opened = await network.listen(host, port, accept, privileged=True, tls=tls)
        elif self.broker is None:
            return
        else:
            handlers = api_table.handlers(self.broker)
            table = ApiTable(Listener.CLIENT, guarded_broker(self.gate, self.broker, handlers))
            self.throttling.meter_clients(table)
            self.client_tables.append(table)
            table.times = self.request_times
            absences = self.broker.absences
            accept = serve(
                table,
                listener.name,
                on_closed=absences.on_closed,
                on_opened=absences.on_opened,
                work=self.host.work,
                decoders=self._decoders,
                authentication=authentication,
            )
            accept = self.throttling.slow_down(self._held.guard(accept))
            opened = await network.listen(host, port, accept, tls=tls)
        self.tables.append(table)
        self._listeners.append(opened)

    def _on_controller_connection_closed(
        self, connection: PeerConnection, reason: CloseReason
    ) -> None:
        assert self.controller is not None, "no controller"
        self.controller.on_closed(connection, reason)
        self.quorum.on_connection_closed(connection, reason)

    @property
    def ready(self) -> bool:
        """May serve: what /healthz says."""
        if self.broker is None:
            return self.quorum.leader_id != NO_LEADER
        return self.broker.is_running()

    async def failed(self) -> Exception:
        """Returns when the node cannot go on: a disk is gone."""
        return await asyncio.shield(self._failed)

    @property
    def has_failed(self) -> bool:
        """It cannot go on, and its process is about to end."""
        return self._failed.done()

    def _fail(self, error: Exception) -> None:
        if not self._failed.done():
            self._failed.set_result(error)

    async def stop(self) -> None:
        """Leaders first, then connections, then files, then the proof that all was in order."""
        self.stopping = True
        self.security.stop()
        self._leader_watch.stop()
        if self.metadata_room is not None:
            self.metadata_room.stop()
        if self._own_address is not None:
            self._own_address.stop()
        broker = self.broker
        if broker is not None:
            voters = _voters(self.config)
            leaving = Leaving(
                broker.link, self.quorum, voters, self.config.node_id, self.host.network
            )
            await leaving.wait()
            await broker.fetchers.stop()
            broker.suspected.close()
            broker.coordination.close()  # members are told at once to look for the next one
            broker.markers.close()
            broker.verifications.close()
            broker.mending.close()
            broker.restoring.close()
            broker.leaving_isr.close()
            await broker.moves.stop()
        if self.controller is not None:
            self.controller.stop()  # who waits for a commit would hold up the listeners
        await asyncio.gather(
            *(listener.stop(timeout_ms=DRAIN_TIMEOUT_MS) for listener in self._listeners)
        )
        if broker is not None:
            broker.duties.stop()
        await self.quorum.stop()
        if broker is not None:
            broker.changes.follow()  # all that is left, at once: nothing may come after the files
            replicas = broker.replicas
            await replicas.directories.stop()
            note_stop(self.config, self.host.filesystem, broker.link.broker_epoch)
            try:
                replicas.directories.close(broker.link.broker_epoch, replicas.high_watermarks())
            except StorageError as error:
                self._fail(error)  # without the proof: the next start is one after a crash
            broker.link.close()
            broker.workshop.close()
        self._decoders.close()
        self._disks.release()


def _quorum_member(config: NodeConfig, disks: Disks, host: NodeHost) -> QuorumMember:
    voters = _voters(config)
    if not voters:
        raise CannotStart(
            "controller.quorum.bootstrap.servers alone does not say who may vote",
            advice="controller.quorum.voters=1@host:port,… in its server.properties",
        )
    codec = KafkaEntryCodec(voters)
    log = open_metadata_log(config, disks, codec, host.clock)
    check_metadata(log, authorizer=config.has_authorizer)
    recorded = recorded_voters(log, codec)
    if recorded is not None:
        check_voters(recorded, voters, disks.identity)
    place = QuorumMembership(
        node_id=config.node_id,
        directory_id=disks.identity.directory_id,
        cluster_id=disks.identity.cluster_id,
        voters=voters,
        settings=config.quorum_settings(),
        snapshot_every_records=config.settings.whole("tidelog.metadata.snapshot.records"),
        voters_are_recorded=recorded is not None,
    )
    return QuorumMember(place, log, disks.metadata, host, codec=codec)


def _voters(config: NodeConfig) -> dict[int, tuple[str, int]]:
    return {voter.node_id: (voter.host, voter.port) for voter in config.voters}
