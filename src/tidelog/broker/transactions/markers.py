"""End markers on their way into logs that this broker leads (KIP-98)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.core.coordination import Marker, TopicPartition
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.types import NO_OFFSET, PartitionId
from tidelog.storage.errors import StorageError
from tidelog.wire.records import EndTxnMarker, encode_end_txn_marker

if TYPE_CHECKING:
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.core.replication.effects import Effect
    from tidelog.core.replication.leader import LeaderReplica
    from tidelog.host.node_host import NodeHost
    from tidelog.host.timers import TimerWheel

COMMIT_TIMEOUT_MS = 5_000
"""Markers of other partitions wait behind one that is not replicated: not for ever. Who sent it
sends it again, and then waits on for the one that is in the log. A new one each time would never
be committed in time where that takes longer than this."""

REMEMBERED = 1_000
"""Markers whose sender may never come again, because another broker leads now: the oldest are
forgotten. One that does come is appended again, which changes nothing."""

Done = Callable[[Error], None]


class MarkerOrder(NamedTuple):
    """What is to be written, and by which rules of transactions."""

    marker: Marker
    version: int


class Uncommitted(NamedTuple):
    """A marker in a log, and what has to be committed for it to count."""

    marker: Marker
    role: LeaderReplica
    required_offset: int


class MarkerWriter:
    """Writes end markers into logs that this broker leads. One per broker."""

    __slots__ = ("_host", "_replicas", "_uncommitted")

    def __init__(self, replicas: Replicas, host: NodeHost) -> None:
        self._replicas = replicas
        self._host = host
        self._uncommitted: dict[tuple[PartitionId, int], Uncommitted] = {}
        """The last marker of a producer in a partition, while nobody was told that it counts."""

    def write(self, partition: TopicPartition, order: MarkerOrder, done: Done) -> None:
        """`done` is called once: at once if the marker is refused, else when it is committed."""
        replicas = self._replicas
        hosted = replicas.named(*partition)
        role = None if hosted is None else hosted.leader
        if hosted is None or role is None:
            done(replicas.why_not_led_here(*partition))
            return
        marker = order.marker
        error = role.check_marker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=order.version,
        )
        if error is not NO_ERROR:
            done(error)
            return
        required_offset = self._required_offset(hosted, role, marker)
        if required_offset is None:
            try:
                required_offset = self._append(hosted, role, marker)
            except StorageError as failure:
                replicas.directories.on_error(hosted.directory, failure)
                done(failure.kafka_error)
                return
        key = hosted.partition, marker.producer_id
        self._remember(key, Uncommitted(marker, role, required_offset))
        open_marker = OpenMarker(replicas, hosted, role, partial(self._answered, key, done))
        open_marker.wait_for(required_offset, self._host.timers)

    def _remember(self, key: tuple[PartitionId, int], uncommitted: Uncommitted) -> None:
        self._uncommitted.pop(key, None)  # the newest is the last
        self._uncommitted[key] = uncommitted
        if len(self._uncommitted) > REMEMBERED:
            del self._uncommitted[next(iter(self._uncommitted))]

    def _required_offset(self, hosted: Hosted, role: LeaderReplica, marker: Marker) -> int | None:
        """Of the same marker, if this leader has appended it; None where it has something to end
        or is not there."""
        known = self._uncommitted.get((hosted.partition, marker.producer_id))
        if known is None or known.role is not role or known.marker != marker:
            return None
        producer = hosted.log.producers.get(marker.producer_id)
        ends_something = producer is not None and producer.current_txn_first_offset != NO_OFFSET
        return None if ends_something else known.required_offset

    def _answered(self, key: tuple[PartitionId, int], done: Done, error: Error) -> None:
        if error is not Error.REQUEST_TIMED_OUT:
            self._uncommitted.pop(key, None)
        done(error)

    def _append(self, hosted: Hosted, role: LeaderReplica, marker: Marker) -> int:
        batch = encode_end_txn_marker(
            EndTxnMarker(
                marker.commit, marker.producer_id, marker.producer_epoch, marker.coordinator_epoch
            ),
            timestamp_ms=self._host.clock.wall_ms(),
        )
        appended = hosted.log.append_as_leader(batch, hosted.replica.leader_epoch)
        required_offset = hosted.log.log_end_offset
        if hosted.shards is not None:
            # Before anything else: offsets of the transaction count from here on, or never.
            hosted.shards.marker_appended(hosted.index, marker)
        self._replicas.appended_by_leader(hosted, role, appended.base_offset)
        return required_offset


class OpenMarker:
    """A marker that waits for the high watermark; the token of that wait."""

    __slots__ = ("_done", "_hosted", "_replicas", "_role", "_timer", "_timers")

    def __init__(self, replicas: Replicas, hosted: Hosted, role: LeaderReplica, done: Done) -> None:
        self._replicas = replicas
        self._hosted = hosted
        self._role = role
        self._done = done

    def wait_for(self, required_offset: int, timers: TimerWheel) -> None:
        self._timers = timers
        self._timer = timers.after(COMMIT_TIMEOUT_MS, self._timed_out)
        self._perform(self._role.await_commit(self, required_offset, timers.now_ms()))

    def answered(self, error: Error) -> None:
        """The leader has decided."""
        self._timer.cancel()
        self._done(error)

    def _timed_out(self) -> None:
        self._perform(self._role.on_produce_timeout(self, self._timers.now_ms()))

    def _perform(self, effects: list[Effect]) -> None:
        self._replicas.perform(self._hosted, effects)
