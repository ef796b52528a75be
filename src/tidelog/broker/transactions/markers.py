"""End markers on their way into logs that this broker leads (KIP-98)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tidelog.core.coordination import Marker, TopicPartition
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.types import PartitionId
from tidelog.storage.errors import StorageError
from tidelog.wire.records import EndTxnMarker, encode_end_txn_marker

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.core.replication.effects import Effect
    from tidelog.core.replication.leader import LeaderReplica

COMMIT_TIMEOUT_MS = 5_000
"""Markers of other partitions wait behind one that is not replicated: not for ever. Who sent it
sends it again, and a second marker of the same transaction changes nothing."""

Done = Callable[[Error], None]


class MarkerOrder(NamedTuple):
    """What is to be written, and by which rules of transactions."""

    marker: Marker
    version: int


def write_marker(broker: Broker, partition: TopicPartition, order: MarkerOrder, done: Done) -> None:
    """`done` is called once: at once if the marker is refused, else when it is committed."""
    hosted = broker.replicas.named(*partition)
    role = None if hosted is None else hosted.leader
    if hosted is None or role is None:
        done(why_not_led_here(broker, partition))
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
    try:
        required_offset = _append(broker, hosted, role, marker)
    except StorageError as failure:
        broker.replicas.directories.on_error(hosted.directory, failure)
        done(failure.kafka_error)
        return
    OpenMarker(broker, hosted, role, done).wait_for(required_offset)


def _append(broker: Broker, hosted: Hosted, role: LeaderReplica, marker: Marker) -> int:
    batch = encode_end_txn_marker(
        EndTxnMarker(
            marker.commit, marker.producer_id, marker.producer_epoch, marker.coordinator_epoch
        ),
        timestamp_ms=broker.host.clock.wall_ms(),
    )
    appended = hosted.log.append_as_leader(batch, hosted.replica.leader_epoch)
    required_offset = hosted.log.log_end_offset
    if hosted.shards is not None:
        # Before anything else: offsets of the transaction count from here on, or never.
        hosted.shards.marker_appended(hosted.index, marker)
    broker.replicas.note_appended(hosted, appended.base_offset)
    broker.replicas.perform(hosted, role.on_appended(broker.now_ms()))
    broker.reads.wake(hosted.partition)
    return required_offset


def why_not_led_here(broker: Broker, partition: TopicPartition) -> Error:
    topic_id = broker.image.topic_ids.get(partition.topic)
    if topic_id is None:
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    known = PartitionId(topic_id, partition.partition)
    if broker.image.partition(known) is None:
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    if known in broker.replicas.problems:
        return Error.KAFKA_STORAGE_ERROR
    return Error.NOT_LEADER_OR_FOLLOWER


class OpenMarker:
    """A marker that waits for the high watermark; the token of that wait."""

    __slots__ = ("_broker", "_done", "_hosted", "_role", "_timer")

    def __init__(self, broker: Broker, hosted: Hosted, role: LeaderReplica, done: Done) -> None:
        self._broker = broker
        self._hosted = hosted
        self._role = role
        self._done = done
        self._timer = broker.host.timers.after(COMMIT_TIMEOUT_MS, self._timed_out)

    def wait_for(self, required_offset: int) -> None:
        self._perform(self._role.await_commit(self, required_offset, self._broker.now_ms()))

    def answered(self, error: Error) -> None:
        """The leader has decided."""
        self._timer.cancel()
        self._done(error)

    def _timed_out(self) -> None:
        self._perform(self._role.on_produce_timeout(self, self._broker.now_ms()))

    def _perform(self, effects: list[Effect]) -> None:
        self._broker.replicas.perform(self._hosted, effects)
