"""Changes of committed metadata that the replicas of this broker have not followed yet.

Entries are replayed into the image as they come. The partitions they touched follow in slices, so
that a topic of thousands, or hundreds of topics in one request, do not hold the event loop. A
partition follows what the image says when its turn comes: changes in between are skipped, as with a
snapshot. The order is kept: the partition that was touched first follows first, so the logs of a
deleted topic are given up before a new topic of the same name needs its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING

from tidelog.core.types import PartitionId

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.coordination.coordinators import Coordination
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.broker.transactions.marker_sender import MarkerSender
    from tidelog.host.node_host import NodeHost

AT_ONCE = 64
"""Partitions that follow in one turn of the event loop."""
DELETED_AT_ONCE = 8
"""Deleted topics that the groups of this broker forget in one turn."""


class MetadataChanges:
    """The only one who lets replicas follow metadata."""

    __slots__ = (
        "_applied_offset",
        "_brokers_changed",
        "_coordination",
        "_deleted",
        "_host",
        "_markers",
        "_metadata",
        "_replicas",
        "_scheduled",
        "_topics_changed",
        "on_failure",
        "on_followed",
    )

    def __init__(
        self,
        metadata: LocalMetadata,
        replicas: Replicas,
        coordination: Coordination,
        markers: MarkerSender,
        host: NodeHost,
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._coordination = coordination
        self._markers = markers
        self._host = host
        self.on_followed: Callable[[int], None] = _tell_nobody
        """Hears up to which offset the replicas follow."""
        self.on_failure: Callable[[Exception], None] = _raise
        """Told when metadata could not be followed: the node cannot go on."""
        self._scheduled = False
        self._deleted: list[str] = []
        self._brokers_changed = False
        self._topics_changed = False
        self._applied_offset = 0

    def touch(self, partitions: Iterable[PartitionId]) -> None:
        self._metadata.unfollowed.update(dict.fromkeys(partitions))

    def brokers_changed(self) -> None:
        self._brokers_changed = True

    def topics_changed(self, deleted: Iterable[str] = ()) -> None:
        self._topics_changed = True
        self._deleted += deleted

    def applied(self, offset: int) -> None:
        """Everything below was replayed; it is applied when all of it was followed."""
        self._applied_offset = offset
        if not self._scheduled:
            self.on_followed(offset)

    def follow(self) -> None:
        """In the turns that come; at once where nothing runs beside the loop."""
        if not self._replicas.works_beside_the_loop:
            while self._metadata.unfollowed or self._deleted:
                self._follow_some()
            self._finish()
        elif not self._scheduled:
            self._scheduled = True
            self._host.network.soon(self._turn)

    def _turn(self) -> None:
        unfollowed, work = self._metadata.unfollowed, self._host.work
        work.begin("committed metadata", len(unfollowed), "partitions left")
        try:
            self._follow_some()
            if unfollowed or self._deleted:
                self._host.network.soon(self._turn)
                return
            self._scheduled = False
            self._finish()
            self.on_followed(self._applied_offset)
        except Exception as error:  # the border of a callback: who goes on would be half way
            self.on_failure(error)
        finally:
            work.end()

    def _follow_some(self) -> None:
        unfollowed = self._metadata.unfollowed
        if unfollowed:
            some = list(islice(unfollowed, AT_ONCE))
            for partition in some:
                del unfollowed[partition]
            self._replicas.publish(some)
            if not unfollowed:
                self._markers.look_again()
        else:
            deleted, self._deleted = (
                self._deleted[:DELETED_AT_ONCE],
                self._deleted[DELETED_AT_ONCE:],
            )
            for topic in deleted:
                self._coordination.topic_deleted(topic)

    def _finish(self) -> None:
        """What is done once, however many partitions were touched."""
        if self._brokers_changed:
            self._brokers_changed = False
            self._replicas.tell_about_brokers()
        if self._topics_changed:
            self._topics_changed = False
            self._coordination.topics_changed()


def _tell_nobody(_offset: int) -> None: ...


def _raise(error: Exception) -> None:
    raise error
