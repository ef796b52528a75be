"""Carries out the orders of transaction coordinators: end markers to every partition.

A decision that is committed has to reach every partition, whatever fails on the way: each is tried
again until its leader has the marker, it is deleted, or another coordinator has taken over, which
then sends the same markers with its own, higher epoch.

Never is a marker sent twice at a time. Producers of the first transaction version keep their epoch,
so a copy that came after the transaction's end was reported could end their next one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.transactions.markers import MarkerOrder
from tidelog.core.coordination import Marker, TopicPartition
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.transactions.requests import MarkersWritten, SendMarkers
from tidelog.core.types import NO_LEADER, PartitionId
from tidelog.host import tasks
from tidelog.host.ports import NetworkError
from tidelog.rpc import Answer
from tidelog.wire.protocol.schemas.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tidelog.wire.protocol.schemas.write_txn_markers_response import WriteTxnMarkersResponse

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.coordination.coordinators import Coordination
    from tidelog.broker.replication.broker_connections import BrokerConnections
    from tidelog.broker.transactions.concurrent_requests import ConcurrentRequests
    from tidelog.broker.transactions.markers import MarkerWriter
    from tidelog.host.timers import Timer, TimerWheel

WRITE_TXN_MARKERS_VERSION = 2
ANSWER_TIMEOUT_MS = 30_000
"""Longer than a leader waits for its followers, and than a broker keeps its office while it is
silent: what lies unread in its socket then cannot be committed any more."""

DELETED = -2
"""The leader of a partition that does not exist any more."""

FIRST_BACKOFF_MS = 20
LONGEST_BACKOFF_MS = 500

_LOGGER = logging.getLogger("tidelog.coordinators")


class Delivery:
    """The markers of one transaction. `missing` are the partitions whose marker is not reported;
    of those, `sent` are under way to these leaders, and `waiting` are to be tried again."""

    __slots__ = ("backoff_ms", "index", "missing", "order", "sent", "timer", "waiting")

    def __init__(self, index: int, order: SendMarkers) -> None:
        self.index = index
        self.order = order
        self.missing: dict[TopicPartition, None] = {}
        self.sent: dict[TopicPartition, int] = {}
        self.waiting: dict[TopicPartition, None] = {}
        self.backoff_ms = FIRST_BACKOFF_MS
        self.timer: Timer | None = None

    @property
    def key(self) -> tuple[int, str]:
        return self.index, self.order.transactional_id

    def carries_out(self, order: SendMarkers) -> bool:
        """A coordinator that starts over orders again what it does not know to be done."""
        return self.order._replace(partitions=()) == order._replace(partitions=())


class Load(NamedTuple):
    """Some partitions of a transaction: those with the same leader."""

    delivery: Delivery
    leader: int
    partitions: tuple[TopicPartition, ...]


class MarkerSender:
    """Owner of all markers that this broker's coordinators have ordered. One per broker."""

    __slots__ = (
        "_concurrent_requests",
        "_coordination",
        "_deliveries",
        "_due",
        "_lines",
        "_metadata",
        "_timers",
        "_writer",
    )

    def __init__(
        self,
        metadata: LocalMetadata,
        coordination: Coordination,
        concurrent_requests: ConcurrentRequests,
        writer: MarkerWriter,
        lines: BrokerConnections,
        *,
        timers: TimerWheel,
    ) -> None:
        self._metadata = metadata
        self._coordination = coordination
        self._concurrent_requests = concurrent_requests
        self._writer = writer
        self._lines = lines
        self._timers = timers
        self._deliveries: dict[tuple[int, str], Delivery] = {}
        self._due: list[tuple[Delivery, tuple[TopicPartition, ...]]] = []

    @property
    def open_count(self) -> int:
        """Transactions whose end is not known to be in all their partitions."""
        return len(self._deliveries)

    # -- from the coordinators

    def on_order(self, index: int, order: object) -> None:
        """From the shard on this partition of `__transaction_state`. Begins in the next turn of
        the loop: the shard is in the middle of its own work."""
        assert isinstance(order, SendMarkers), order
        delivery = self._deliveries.get((index, order.transactional_id))
        if delivery is None or not delivery.carries_out(order):
            delivery = Delivery(index, order)
            self._deliveries[delivery.key] = delivery
        new = tuple(each for each in order.partitions if each not in delivery.missing)
        delivery.missing.update(dict.fromkeys(new))
        self._enqueue(delivery, new)

    def look_again(self) -> None:
        """Metadata changed: what waits for another leader may have one. What is under way to a
        leader of before, which may hang, goes to the new one; the other's answer is not heard."""
        for delivery in list(self._deliveries.values()):
            for partition, leader in list(delivery.sent.items()):
                if self._leader_of(partition) != leader:
                    del delivery.sent[partition]
                    delivery.waiting[partition] = None
            if delivery.waiting:
                self._try_again(delivery)

    def close(self) -> None:
        deliveries, self._deliveries = self._deliveries, {}
        for delivery in deliveries.values():
            if delivery.timer is not None:
                delivery.timer.cancel()
        self._lines.close()

    # -- sending

    def _enqueue(self, delivery: Delivery, partitions: tuple[TopicPartition, ...]) -> None:
        self._due.append((delivery, partitions))
        if len(self._due) == 1:
            tasks.soon(self._send_due)

    def _send_due(self) -> None:
        """What has come together in one turn of the loop leaves in one request per leader."""
        due, self._due = self._due, []
        by_leader: dict[int, list[Load]] = {}
        for delivery, partitions in due:
            if not self._is_wanted(delivery):
                continue
            groups: dict[int, list[TopicPartition]] = {}
            for partition in partitions:
                leader = self._leader_of(partition)
                delivery.sent[partition] = leader
                groups.setdefault(leader, []).append(partition)
            for leader, some in groups.items():
                by_leader.setdefault(leader, []).append(Load(delivery, leader, tuple(some)))
        for leader, loads in by_leader.items():
            self._send(leader, loads)

    def _leader_of(self, partition: TopicPartition) -> int:
        """DELETED if there is nothing left to end."""
        image = self._metadata.image
        topic_id = image.topic_ids.get(partition.topic)
        if topic_id is None:
            return DELETED
        state = image.partition(PartitionId(topic_id, partition.partition))
        return DELETED if state is None else state.leader

    def _send(self, leader: int, loads: list[Load]) -> None:
        if leader == self._metadata.own_id:
            for load in loads:
                self._write_here(load)
            return
        if leader == DELETED:
            for load in loads:
                self._settle(load, dict.fromkeys(load.partitions, NO_ERROR))
            return
        peer = None if leader == NO_LEADER else self._lines.to(leader)
        if peer is None:
            self._on_answer(loads, NetworkError(f"broker {leader} cannot be reached"))
            return
        request = WriteTxnMarkersRequest(markers=[_message(load) for load in loads])
        peer.send(
            request,
            WRITE_TXN_MARKERS_VERSION,
            partial(self._on_answer, loads),
            timeout_ms=ANSWER_TIMEOUT_MS,
        )

    def _write_here(self, load: Load) -> None:
        """The way of a request, without a socket."""
        order = load.delivery.order
        marker = Marker(
            order.producer_id, order.producer_epoch, order.commit, order.coordinator_epoch
        )
        for partition in load.partitions:
            done = partial(self._written_here, load, partition)
            self._writer.write(partition, MarkerOrder(marker, order.version), done)

    def _written_here(self, load: Load, partition: TopicPartition, error: Error) -> None:
        self._settle(load, {partition: error})

    # -- outcomes

    def _on_answer(self, loads: list[Load], answer: Answer) -> None:
        if isinstance(answer, NetworkError):
            for load in loads:
                self._settle(load, dict.fromkeys(load.partitions, Error.BROKER_NOT_AVAILABLE))
            return
        assert isinstance(answer, WriteTxnMarkersResponse), answer
        for load, result in zip(loads, answer.markers, strict=True):
            results = {
                TopicPartition(topic.name, each.partition_index): Error(each.error_code)
                for topic in result.topics
                for each in topic.partitions
            }
            self._settle(load, results)

    def _settle(self, load: Load, results: Mapping[TopicPartition, Error]) -> None:
        """Some partitions were tried; called at any time, also while a log is being worked on."""
        delivery = load.delivery
        if not self._is_wanted(delivery):
            return
        done: list[TopicPartition] = []
        for partition, error in results.items():
            if delivery.sent.get(partition) != load.leader:
                continue
            del delivery.sent[partition]
            if error is NO_ERROR:
                done.append(partition)
            elif error is Error.INVALID_PRODUCER_EPOCH:
                _LOGGER.warning(
                    "%s has a newer epoch of producer %d than the end of its transaction (%d)",
                    f"{partition.topic}-{partition.partition}",
                    delivery.order.producer_id,
                    delivery.order.producer_epoch,
                )
                done.append(partition)
            elif error is Error.TRANSACTION_COORDINATOR_FENCED:
                self._give_up(delivery)
                return
            else:
                delivery.waiting[partition] = None
        if done:
            # Later: a shard must not be told of something while it orders it.
            tasks.soon(self._report, delivery, tuple(done))
        if delivery.waiting and delivery.timer is None:
            delivery.timer = self._timers.after(
                delivery.backoff_ms, partial(self._try_again, delivery)
            )
            delivery.backoff_ms = min(2 * delivery.backoff_ms, LONGEST_BACKOFF_MS)

    def _report(self, delivery: Delivery, done: tuple[TopicPartition, ...]) -> None:
        if not self._is_wanted(delivery):
            return
        order = delivery.order
        for partition in done:
            delivery.missing.pop(partition, None)
        if not delivery.missing:
            del self._deliveries[delivery.key]
        report = MarkersWritten(
            order.transactional_id,
            order.producer_id,
            order.producer_epoch,
            done,
            order.decided_ms,
        )
        self._coordination.transactions.tell(delivery.index, report)
        if not delivery.missing:
            self._concurrent_requests.on_end(order.transactional_id)

    def _try_again(self, delivery: Delivery) -> None:
        if delivery.timer is not None:
            delivery.timer.cancel()
            delivery.timer = None
        if self._is_wanted(delivery):
            waiting, delivery.waiting = tuple(delivery.waiting), {}
            self._enqueue(delivery, waiting)

    def _is_wanted(self, delivery: Delivery) -> bool:
        """Not if another order took its place, or the coordinator that gave it left office."""
        if self._deliveries.get(delivery.key) is not delivery:
            return False
        epoch = self._coordination.transactions.leader_epoch(delivery.index)
        if epoch == delivery.order.coordinator_epoch:
            return True
        self._give_up(delivery)
        return False

    def _give_up(self, delivery: Delivery) -> None:
        del self._deliveries[delivery.key]
        if delivery.timer is not None:
            delivery.timer.cancel()


def _message(load: Load) -> WritableTxnMarker:
    order = load.delivery.order
    by_topic = groupby(sorted(load.partitions), key=lambda each: each.topic)
    return WritableTxnMarker(
        producer_id=order.producer_id,
        producer_epoch=order.producer_epoch,
        transaction_result=order.commit,
        topics=[
            WritableTxnMarkerTopic(name=topic, partition_indexes=[each.partition for each in some])
            for topic, some in by_topic
        ],
        coordinator_epoch=order.coordinator_epoch,
        transaction_version=order.version,
    )
