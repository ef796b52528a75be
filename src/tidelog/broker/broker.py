"""The broker: what every handler, fetcher and timer of a node's data side is given.

Metadata comes in as committed entries of the metadata log. It is applied to the replicas only
after our own registration is part of it: what is older speaks of an incarnation that is gone, and
acting on that, an empty disk could lead with the old one's authority (ADR 0012).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import NamedTuple, cast

from tidelog.broker.control.controller_link import ControllerLink, FindController
from tidelog.broker.control.metadata_changes import MetadataChanges
from tidelog.broker.control.recently_fenced import RecentlyFenced
from tidelog.broker.coordination.coordinators import Coordination
from tidelog.broker.coordination.internal_topics import InternalTopics
from tidelog.broker.fetch.reads import Reads
from tidelog.broker.groups.absences import Absences
from tidelog.broker.logs.directories import Directories
from tidelog.broker.logs.disk_rooms import DiskRooms
from tidelog.broker.logs.mending import Mending
from tidelog.broker.logs.moves import Moves
from tidelog.broker.logs.scrubbing import Scrubbing
from tidelog.broker.produce.appends import Appends
from tidelog.broker.produce.early_produces import EarlyProduces
from tidelog.broker.produce.record_work import RecordWorkshop
from tidelog.broker.replication.fetchers import Fetchers
from tidelog.broker.replication.leaving_isr import LeavingIsr
from tidelog.broker.replication.replicas import Replicas
from tidelog.broker.replication.suspected_brokers import SuspectedBrokers
from tidelog.broker.transactions.concurrent_requests import ConcurrentRequests
from tidelog.broker.transactions.marker_sender import MarkerSender
from tidelog.broker.transactions.verifications import Verifications
from tidelog.broker.turn_end import TurnEnd
from tidelog.config.node_config import NodeConfig
from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.replay import replay
from tidelog.core.types import LogEntry, PartitionId
from tidelog.host.node_host import NodeHost
from tidelog.observe.traffic import Traffic


class BrokerPlace(NamedTuple):
    """What a broker is told about itself and its surroundings."""

    config: NodeConfig
    cluster_id: str
    find_controller: FindController
    previous_broker_epoch: int


class Broker:
    """Owner of the local metadata image. Implements `quorum.listener.MetadataListener`."""

    __slots__ = (
        "_on_running",
        "_order",
        "_waiting",
        "absences",
        "appends",
        "changes",
        "cluster_id",
        "concurrent_requests",
        "config",
        "coordination",
        "early_produces",
        "fetchers",
        "host",
        "id",
        "image",
        "internal_topics",
        "leaving_isr",
        "link",
        "markers",
        "mending",
        "metadata_offset",
        "moves",
        "now_ms",
        "on_failure",
        "reads",
        "recently_fenced",
        "replicas",
        "rooms",
        "scrubbing",
        "serving",
        "suspected",
        "traffic",
        "turn_end",
        "verifications",
        "workshop",
    )

    def __init__(self, place: BrokerPlace, directories: Directories, host: NodeHost) -> None:
        self.config = place.config
        self.id = place.config.node_id
        self.cluster_id = place.cluster_id
        self.host = host
        self.now_ms = host.clock.monotonic_ms
        self.image = MetadataImage()
        self.metadata_offset = 0
        """Everything below it is part of `image`, and our replicas follow it."""
        self.changes = MetadataChanges(self)
        self.on_failure: Callable[[Exception], None] = _raise
        """Told when metadata could not be followed: the node cannot go on."""
        self.serving = False
        self.traffic = Traffic()
        self.turn_end = TurnEnd(host.network.soon)
        self._on_running: Callable[[], None] | None = None
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self.coordination = Coordination(self)
        self.concurrent_requests = ConcurrentRequests(self.host.timers)
        self.early_produces = EarlyProduces(self)
        self.markers = MarkerSender(self)
        self.coordination.on_order = self.markers.on_order
        self.verifications = Verifications(self)
        self.internal_topics = InternalTopics(self)
        self.absences = Absences(self)
        self.replicas = Replicas(self, directories)
        self.rooms = DiskRooms(self, directories.all)
        self.leaving_isr = LeavingIsr(self)
        self.mending = Mending(self)
        self.scrubbing = Scrubbing(self)
        self.moves = Moves(self)
        directories.on_no_space = self.rooms.found_no_space
        directories.has_room = self.rooms.has_room
        self.recently_fenced = RecentlyFenced(self)
        self.suspected = SuspectedBrokers(self)
        self.reads = Reads(self)
        self.fetchers = Fetchers(self)
        self.workshop = RecordWorkshop(host.make_workers("records", 1))
        self.appends = Appends(self.turn_end)
        self.link = ControllerLink(
            self,
            find_controller=place.find_controller,
            previous_broker_epoch=place.previous_broker_epoch,
            log_dirs=tuple(each.properties.directory_id for each in directories.all),
        )

    # -- metadata

    def on_snapshot(self, records: tuple[r.MetadataRecord, ...], end_offset: int) -> None:
        """Start over from a snapshot."""
        image = MetadataImage()
        for record in records:
            replay(image, record)
        self.image = image
        self.replicas.forget_settings(None)
        self.replicas.refresh_statuses()
        if self.serving:
            self._follow_all()

    def on_committed(self, entry: LogEntry) -> None:
        """Replay one committed batch. Every touched replica follows it, in slices."""
        if entry.control:
            self.link.on_new_controller()  # such entries begin the epoch of a leader
            return
        touched: dict[PartitionId, None] = {}
        brokers_changed = topics_changed = False
        deleted: list[str] = []
        for record in cast("tuple[r.MetadataRecord, ...]", entry.records):
            if isinstance(record, r.RemoveTopic):
                touched.update(self._partitions_of(record.topic_id))
                deleted.append(self.image.topics[record.topic_id].name)
            elif isinstance(record, r.Partition | r.PartitionChange):
                touched[PartitionId(record.topic_id, record.partition)] = None
                topics_changed = topics_changed or isinstance(record, r.Partition)
            elif isinstance(record, r.Config):
                touched.update(self._follow_config(record))
            elif isinstance(
                record, r.RegisterBroker | r.UnregisterBroker | r.BrokerRegistrationChange
            ):
                brokers_changed = True
                self.recently_fenced.note(record)
            replay(self.image, record)
        if brokers_changed:
            self.replicas.refresh_statuses()
        if not self.serving:
            return
        self.changes.touch(touched)
        if brokers_changed:
            self.changes.brokers_changed()
        if topics_changed or deleted:
            self.changes.topics_changed(deleted)
        self.changes.follow()

    def on_applied(self, offset: int) -> None:
        self.changes.applied(offset)

    def followed(self, offset: int) -> None:
        """Our replicas follow everything below this offset."""
        self.metadata_offset = offset
        if self._on_running is not None and self.is_running():
            on_running, self._on_running = self._on_running, None
            on_running()
        while self._waiting and self._waiting[0][0] <= offset:
            heapq.heappop(self._waiting)[2]()
        self.link.poke()

    def is_running(self) -> bool:
        """This incarnation is in the metadata, unfenced: clients may be told of us."""
        own = self.image.brokers.get(self.id)
        return (
            self.serving
            and own is not None
            and own.broker_epoch == self.link.broker_epoch
            and not own.fenced
        )

    def when_running(self, callback: Callable[[], None]) -> None:
        """Call back once, when this broker is unfenced for the first time."""
        assert self._on_running is None, "somebody waits already"
        self._on_running = callback

    def on_claimable(self, epoch: int, next_offset: int) -> None:
        """The controller's business."""

    def on_lost(self, epoch: int) -> None:
        """The controller's business."""

    def on_metadata(self, offset: int, callback: Callable[[], None]) -> None:
        """Call back once everything below this offset is applied; at once if it is."""
        if offset <= self.metadata_offset:
            callback()
        else:
            heapq.heappush(self._waiting, (offset, next(self._order), callback))

    def begin_serving(self) -> None:
        """Our own registration is replayed."""
        assert not self.serving, f"broker {self.id} serves already"
        self.serving = True
        self.replicas.set_strays_aside()
        self._follow_all()

    def on_registered(self, broker_epoch: int) -> None:
        """From here on a crash loses nothing that others count on, if acknowledging syncs."""
        for directory in self.replicas.directories.all:
            directory.note_registered(broker_epoch)

    def _follow_all(self) -> None:
        self.changes.touch(self.replicas.hosted)
        self.changes.touch(state.id for state in self.image.partitions())
        self.changes.follow()

    def _partitions_of(self, topic_id: bytes) -> dict[PartitionId, None]:
        topic = self.image.topics.get(topic_id)
        return dict.fromkeys(p.id for p in topic.partitions.values()) if topic else {}

    def _follow_config(self, record: r.Config) -> dict[PartitionId, None]:
        if record.resource_type == r.RESOURCE_TOPIC:
            self.replicas.forget_settings(record.resource_name)
            topic_id = self.image.topic_ids.get(record.resource_name)
            return self._partitions_of(topic_id) if topic_id is not None else {}
        if record.resource_type != r.RESOURCE_BROKER:
            return {}  # groups and subscriptions are looked up when they are needed
        self.replicas.forget_settings(None)
        return dict.fromkeys(self.replicas.hosted)


def _raise(error: Exception) -> None:
    raise error
