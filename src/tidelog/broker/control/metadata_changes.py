"""What committed metadata has changed and the replicas of this broker have not followed yet.

Entries are replayed into the image as they come. The partitions they touched follow in slices, so
that a topic of thousands, or hundreds of topics in one request, do not hold the event loop. A
partition follows what the image says when its turn comes: changes in between are skipped, as with
a snapshot. In order they stay all the same: whoever was touched first follows first, so the logs
of a topic are given up before those of another one of its name are wanted.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from tidelog.core.types import PartitionId

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

AT_ONCE = 64
"""Partitions that follow in one turn of the event loop."""
DELETED_AT_ONCE = 8
"""Deleted topics that the groups of this broker forget in one turn."""


class MetadataChanges:
    """Owned by a `Broker`."""

    __slots__ = (
        "_applied_offset",
        "_broker",
        "_brokers_changed",
        "_deleted",
        "_scheduled",
        "_topics_changed",
        "touched",
    )

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._scheduled = False
        self._deleted: list[str] = []
        self._brokers_changed = False
        self._topics_changed = False
        self._applied_offset = 0
        self.touched: dict[PartitionId, None] = {}
        """Partitions that have not followed yet."""

    def touch(self, partitions: Iterable[PartitionId]) -> None:
        self.touched.update(dict.fromkeys(partitions))

    def brokers_changed(self) -> None:
        self._brokers_changed = True

    def topics_changed(self, deleted: Iterable[str] = ()) -> None:
        self._topics_changed = True
        self._deleted += deleted

    def applied(self, offset: int) -> None:
        """Everything below was replayed; it is applied when all of it was followed."""
        self._applied_offset = offset
        if not self._scheduled:
            self._broker.followed(offset)

    def follow(self) -> None:
        """In the turns that come; at once where nothing runs beside the loop."""
        if not self._broker.replicas.works_beside_the_loop:
            while self.touched or self._deleted:
                self._follow_some()
            self._finish()
        elif not self._scheduled:
            self._scheduled = True
            self._broker.host.network.soon(self._turn)

    def _turn(self) -> None:
        broker = self._broker
        broker.host.work.begin("committed metadata", len(self.touched), "partitions left")
        try:
            self._follow_some()
            if self.touched or self._deleted:
                broker.host.network.soon(self._turn)
                return
            self._scheduled = False
            self._finish()
            broker.followed(self._applied_offset)
        except Exception as error:  # the border of a callback: who goes on would be half way
            broker.on_failure(error)
        finally:
            broker.host.work.end()

    def _follow_some(self) -> None:
        broker = self._broker
        if self.touched:
            some = list(islice(self.touched, AT_ONCE))
            for partition in some:
                del self.touched[partition]
            broker.replicas.publish(some)
            if not self.touched:
                broker.markers.look_again()
        else:
            deleted, self._deleted = (
                self._deleted[:DELETED_AT_ONCE],
                self._deleted[DELETED_AT_ONCE:],
            )
            for topic in deleted:
                broker.coordination.topic_deleted(topic)

    def _finish(self) -> None:
        """What is done once, however many partitions were touched."""
        broker = self._broker
        if self._brokers_changed:
            self._brokers_changed = False
            broker.replicas.tell_about_brokers()
        if self._topics_changed:
            self._topics_changed = False
            broker.coordination.topics_changed()
