"""The composition of a broker: a list of its parts, and how they are connected."""

from __future__ import annotations

from functools import partial

from tidelog.broker.control.committed_metadata import CommittedMetadata
from tidelog.broker.control.controller_link import BrokerIdentity, ControllerLink
from tidelog.broker.control.local_metadata import LocalMetadata
from tidelog.broker.control.metadata_changes import MetadataChanges
from tidelog.broker.control.recently_fenced import RecentlyFenced
from tidelog.broker.coordination.coordinators import Coordination
from tidelog.broker.coordination.internal_topics import InternalTopics
from tidelog.broker.duties import Duties
from tidelog.broker.fetch.fetches import Fetches
from tidelog.broker.fetch.session_reader import SessionReader
from tidelog.broker.groups.absences import Absences
from tidelog.broker.groups.group_calls import GroupCalls
from tidelog.broker.logs.directories import Directories
from tidelog.broker.logs.disk_rooms import DiskRooms
from tidelog.broker.logs.mending import Mending
from tidelog.broker.logs.moves import Moves
from tidelog.broker.logs.restoring import Restoring
from tidelog.broker.logs.scrubbing import Scrubbing
from tidelog.broker.produce.appends import Appends
from tidelog.broker.produce.early_produces import EarlyProduces
from tidelog.broker.produce.leader_writes import LeaderWrites
from tidelog.broker.produce.open_produce import ProduceSurroundings
from tidelog.broker.produce.produces import Produces
from tidelog.broker.produce.record_work import RecordWorkshop
from tidelog.broker.replication.broker_connections import BrokerConnections
from tidelog.broker.replication.fetcher import FetcherSurroundings
from tidelog.broker.replication.fetchers import Fetchers
from tidelog.broker.replication.leaving_isr import LeavingIsr
from tidelog.broker.replication.log_cuts import LogCuts
from tidelog.broker.replication.replicas import Others, Replicas
from tidelog.broker.replication.stalled_replicas import StalledReplicas
from tidelog.broker.replication.suspected_brokers import SuspectedBrokers
from tidelog.broker.replication.throttles import FOLLOWER_RATE, LEADER_RATE, Throttle
from tidelog.broker.transactions.concurrent_requests import ConcurrentRequests
from tidelog.broker.transactions.marker_sender import MarkerSender
from tidelog.broker.transactions.markers import MarkerWriter
from tidelog.broker.transactions.transaction_calls import TransactionCalls
from tidelog.broker.transactions.verifications import Verifications
from tidelog.broker.turn_end import TurnEnd
from tidelog.core.metadata.image import MetadataImage
from tidelog.host.node_host import NodeHost
from tidelog.observe.traffic import Traffic


class Broker:
    """Every part of a broker, made here and told of those it uses."""

    def __init__(self, identity: BrokerIdentity, directories: Directories, host: NodeHost) -> None:
        self.config = identity.config
        self.id = identity.config.node_id
        self.cluster_id = identity.cluster_id
        self.host = host
        self.now_ms = host.clock.monotonic_ms
        self.traffic = Traffic()
        self.metadata = LocalMetadata(self.id, self.config.inter_broker_listener)
        self.turn_end = TurnEnd(host.network.soon)
        self._connections = partial(BrokerConnections, self.metadata, host.to_brokers)
        self._make_replicas(identity, directories)
        self._make_fetch()
        self._make_coordination()
        self._make_produce()
        self._connect()

    def _make_replicas(self, identity: BrokerIdentity, directories: Directories) -> None:
        """Logs, the replicas on them, and how these follow others."""
        host, config, metadata = self.host, self.config, self.metadata
        self.replicas = Replicas(metadata, directories, config, host)
        self.link = ControllerLink(identity, metadata, self.replicas, host)
        self.rooms = DiskRooms(directories.all, config, host)
        self.leaving_isr = LeavingIsr(metadata, self.replicas, self.rooms, self.link, host.timers)
        self._make_mending()
        self.moves = Moves(metadata, self.replicas, config, host)
        self.recently_fenced = RecentlyFenced(metadata, host.clock)
        self.suspected = SuspectedBrokers(metadata, host)
        surroundings = FetcherSurroundings(
            config.replication,
            metadata,
            self.replicas,
            self.link.lifecycle,
            self.suspected,
            self._throttle(FOLLOWER_RATE),
            self.traffic,
            host,
            LogCuts(),
        )
        self.fetchers = Fetchers(surroundings, self.leaving_isr, self._connections("offsets"))
        self.duties = Duties(
            metadata,
            self.replicas,
            self.rooms,
            self.scrubbing,
            host,
            stalled=StalledReplicas(self.replicas, self.fetchers, host),
            config=config,
        )

    def _make_mending(self) -> None:
        """What brings back records that were lost or have changed at rest."""
        host, config, metadata = self.host, self.config, self.metadata
        ask_timeout_ms = config.replication.socket_timeout_ms
        self.mending = Mending(
            metadata,
            self.replicas,
            self.leaving_isr,
            self._connections("mending"),
            host,
            ask_timeout_ms=ask_timeout_ms,
        )
        self.restoring = Restoring(
            metadata,
            self.replicas,
            self._connections("restoring"),
            host,
            ask_timeout_ms=ask_timeout_ms,
        )
        self.replicas.refused.on_refused = self.restoring.begin
        self.scrubbing = Scrubbing(
            self.replicas,
            self.mending,
            host,
            bytes_per_second=config.logs.scrub_bytes_per_second,
        )

    def _make_fetch(self) -> None:
        reader = SessionReader(
            self.metadata,
            self.replicas,
            self.mending,
            self._throttle(LEADER_RATE),
            self.host.clock,
        )
        self.fetches = Fetches(
            self.metadata,
            reader,
            self.turn_end,
            self.traffic,
            self.host,
            settings=self.config.settings,
        )

    def _make_coordination(self) -> None:
        """Groups and transactions."""
        host, config, metadata = self.host, self.config, self.metadata
        self.coordination = Coordination(metadata, self.replicas, self.mending, config, host)
        self.internal_topics = InternalTopics(metadata, self.link, config.coordinating)
        self.absences = Absences(
            self.coordination,
            host.timers,
            disconnect_grace_ms=config.coordinating.disconnect_grace_ms,
        )
        self.group_calls = GroupCalls(self.coordination, self.absences, metadata, host)
        self.concurrent_requests = ConcurrentRequests(host.timers)
        self.transaction_calls = TransactionCalls(
            self.coordination, self.concurrent_requests, self.link.producer_ids
        )
        self.verifications = Verifications(
            self.id,
            self.coordination,
            self.transaction_calls,
            self._connections("transactions"),
            host.timers,
        )
        self.marker_writer = MarkerWriter(self.replicas, host)
        self.markers = MarkerSender(
            metadata,
            self.coordination,
            self.concurrent_requests,
            self.marker_writer,
            self._connections("markers"),
            timers=host.timers,
        )

    def _make_produce(self) -> None:
        self.early_produces = EarlyProduces(self.metadata, self.replicas, self.host.timers)
        self.workshop = RecordWorkshop(self.host.make_workers("records", 1))
        writes = LeaderWrites(
            self.replicas, self.fetches, self.verifications, self.traffic, self.host.clock
        )
        self.appends = Appends(self.turn_end, writes)
        self.produces = Produces(
            ProduceSurroundings(self.metadata, self.replicas, self.traffic, self.host),
            self.early_produces,
            self.rooms,
            self.workshop,
            self.appends,
        )

    def _connect(self) -> None:
        """Those who know each other both ways."""
        self.replicas.introduce(
            Others(
                self.fetches,
                self.early_produces,
                self.fetchers,
                self.link,
                self.leaving_isr,
                self.moves,
                self.mending,
                self.coordination,
            )
        )
        directories = self.replicas.directories
        directories.on_no_space = self.rooms.found_no_space
        directories.has_room = self.rooms.has_room
        self.rooms.on_changed = self.leaving_isr.room_changed
        self.leaving_isr.fetchers = self.fetchers
        self.mending.on_mended = self.fetches.wake
        self.coordination.on_order = self.markers.on_order
        self.changes = MetadataChanges(
            self.metadata,
            self.replicas,
            self.coordination,
            self.markers,
            self.host,
        )
        self.committed = CommittedMetadata(
            self.metadata, self.replicas, self.changes, self.link, self.recently_fenced
        )

    def _throttle(self, rate: str) -> Throttle:
        return Throttle(rate, self.metadata, self.config.settings, self.host.clock)

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    def is_running(self) -> bool:
        """This incarnation is in the metadata, unfenced: clients may be told of us."""
        return self.metadata.is_running(self.link.broker_epoch)
