"""How a broker takes in committed metadata: replays them into its image, then changes its replicas.

They are applied to the replicas only after our own registration is part of them: what is older
speaks of an incarnation that is gone, and acting on that, an empty disk could lead with the old
one's authority (ADR 0012).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.replay import replay
from tidelog.core.types import LogEntry, PartitionId

if TYPE_CHECKING:
    from tidelog.broker.control.controller_link import ControllerLink
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.control.metadata_changes import MetadataChanges
    from tidelog.broker.control.recently_fenced import RecentlyFenced
    from tidelog.broker.replication.replicas import Replicas


class CommittedMetadata:
    """The only one who changes a broker's metadata. A `quorum.listener.MetadataListener`."""

    __slots__ = ("_changes", "_link", "_metadata", "_on_running", "_recently_fenced", "_replicas")

    def __init__(
        self,
        metadata: LocalMetadata,
        replicas: Replicas,
        changes: MetadataChanges,
        link: ControllerLink,
        recently_fenced: RecentlyFenced,
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._changes = changes
        self._link = link
        self._recently_fenced = recently_fenced
        self._on_running: Callable[[], None] | None = None
        changes.on_followed = self._followed
        link.on_serving = self.begin_serving

    def on_snapshot(self, records: tuple[r.MetadataRecord, ...], end_offset: int) -> None:
        """Start over from a snapshot."""
        image = MetadataImage()
        for record in records:
            replay(image, record)
        self._metadata.image = image
        self._replicas.forget_settings(None)
        self._replicas.refresh_statuses()
        if self._metadata.serving:
            self._follow_all()

    def on_committed(self, entry: LogEntry) -> None:
        """Replay one committed batch. Every touched replica follows it, in slices."""
        if entry.control:
            self._link.on_new_controller()  # such entries begin the epoch of a leader
            return
        touched: dict[PartitionId, None] = {}
        brokers_changed = topics_changed = False
        deleted: list[str] = []
        for record in cast("tuple[r.MetadataRecord, ...]", entry.records):
            if isinstance(record, r.RemoveTopic):
                touched.update(self._partitions_of(record.topic_id))
                deleted.append(self._metadata.image.topics[record.topic_id].name)
            elif isinstance(record, r.Partition | r.PartitionChange):
                touched[PartitionId(record.topic_id, record.partition)] = None
                topics_changed = topics_changed or isinstance(record, r.Partition)
            elif isinstance(record, r.Config):
                touched.update(self._follow_config(record))
            elif isinstance(
                record, r.RegisterBroker | r.UnregisterBroker | r.BrokerRegistrationChange
            ):
                brokers_changed = True
                self._recently_fenced.note(record)
            replay(self._metadata.image, record)
        if brokers_changed:
            self._replicas.refresh_statuses()
        if not self._metadata.serving:
            return
        self._changes.touch(touched)
        if brokers_changed:
            self._changes.brokers_changed()
        if topics_changed or deleted:
            self._changes.topics_changed(deleted)
        self._changes.follow()

    def on_applied(self, offset: int) -> None:
        self._changes.applied(offset)

    def _followed(self, offset: int) -> None:
        """Our replicas follow everything below this offset."""
        self._metadata.offset = offset
        if self._on_running is not None and self._metadata.is_running(self._link.broker_epoch):
            on_running, self._on_running = self._on_running, None
            on_running()
        self._metadata.call_back()
        self._link.poke()

    def when_running(self, callback: Callable[[], None]) -> None:
        """Call back once, when this broker is unfenced for the first time."""
        assert self._on_running is None, "somebody waits already"
        self._on_running = callback

    def on_claimable(self, epoch: int, next_offset: int) -> None:
        """The controller's business."""

    def on_lost(self, epoch: int) -> None:
        """The controller's business."""

    def begin_serving(self) -> None:
        """Our own registration is replayed."""
        assert not self._metadata.serving, f"broker {self._metadata.own_id} serves already"
        self._metadata.serving = True
        self._replicas.set_strays_aside()
        self._follow_all()

    def _follow_all(self) -> None:
        self._changes.touch(self._replicas.hosted)
        self._changes.touch(state.id for state in self._metadata.image.partitions())
        self._changes.follow()

    def _partitions_of(self, topic_id: bytes) -> dict[PartitionId, None]:
        topic = self._metadata.image.topics.get(topic_id)
        return dict.fromkeys(p.id for p in topic.partitions.values()) if topic else {}

    def _follow_config(self, record: r.Config) -> dict[PartitionId, None]:
        if record.resource_type == r.RESOURCE_TOPIC:
            self._replicas.forget_settings(record.resource_name)
            topic_id = self._metadata.image.topic_ids.get(record.resource_name)
            return self._partitions_of(topic_id) if topic_id is not None else {}
        if record.resource_type != r.RESOURCE_BROKER:
            return {}  # groups and subscriptions are looked up when they are needed
        self._replicas.forget_settings(None)
        return dict.fromkeys(self._replicas.hosted)
