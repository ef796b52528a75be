"""End markers of transactions on their way: from the coordinator to the leaders, and into logs.

A marker is sent until its partition has it, by whoever coordinates; who no longer does may not
know it yet, and its markers are refused by their coordinator epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.coordination import Marker, TopicPartition
from tidelog.core.errors import Error
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.transactions.requests import MarkersWritten, SendMarkers
from tidelog.core.types import NO_LEADER, PartitionId
from tidelog.sim import messages as m
from tidelog.sim.sim_log import marker_batch
from tidelog.storage.errors import NoSpace

if TYPE_CHECKING:
    from tidelog.sim.broker import SimBroker
    from tidelog.sim.coordination import Coordination, InternalLog

_DONE = (Error.NONE, Error.INVALID_PRODUCER_EPOCH)
"""A partition that has a newer epoch of the producer needs no end of an older transaction."""


class Errand:
    """One order, until every partition has its marker."""

    __slots__ = ("left", "log", "order", "sent")

    def __init__(self, log: InternalLog, order: SendMarkers) -> None:
        self.log = log
        self.order = order
        self.left: dict[TopicPartition, None] = dict.fromkeys(order.partitions)
        self.sent: dict[int, m.WriteMarkers] = {}

    @property
    def marker(self) -> Marker:
        order = self.order
        return Marker(
            order.producer_id, order.producer_epoch, order.commit, order.coordinator_epoch
        )


class MarkerSender:
    __slots__ = ("_broker", "_coordination", "_errands")

    def __init__(self, broker: SimBroker, coordination: Coordination) -> None:
        self._broker = broker
        self._coordination = coordination
        self._errands: dict[int, Errand] = {}
        """By request."""

    # -- the coordinator's side

    def send(self, log: InternalLog, order: SendMarkers) -> None:
        self._try(Errand(log, order))

    def _try(self, errand: Errand) -> None:
        log = errand.log
        if not errand.left or not self._coordination.in_office(log.partition, log.leader_epoch):
            return
        targets: dict[int, list[PartitionId]] = {}
        gone: list[TopicPartition] = []
        image = self._broker.image
        for name in errand.left:
            topic_id = image.topic_ids.get(name.topic)
            state = (
                None if topic_id is None else image.partition(PartitionId(topic_id, name.partition))
            )
            if state is None:
                gone.append(name)
            elif state.leader != NO_LEADER:
                targets.setdefault(state.leader, []).append(state.id)
        for leader, partitions in targets.items():
            self._ask(errand, leader, tuple(partitions))
        self._written(errand, gone)
        node = self._broker.node
        node.after_ms(node.plan.timings.request_timeout_ms, self._again, errand)

    def _ask(self, errand: Errand, leader: int, partitions: tuple[PartitionId, ...]) -> None:
        node, order = self._broker.node, errand.order
        # Older transactions share an epoch: a marker that comes late would end the next one.
        connection = m.Connection() if order.version < 2 else None
        request = m.WriteMarkers(
            node.next_request_id(), errand.marker, order.version, partitions, connection
        )
        errand.sent[request.request_id] = request
        self._errands[request.request_id] = errand
        node.send(leader, request)

    def _again(self, errand: Errand) -> None:
        """Whoever has not answered by now is asked again, by a new connection."""
        for request in errand.sent.values():
            if request.connection is not None:
                request.connection.close()
            self._errands.pop(request.request_id, None)
        errand.sent.clear()
        self._try(errand)

    def on_reply(self, _source: int, reply: m.WriteMarkersReply) -> None:
        errand = self._errands.pop(reply.request_id, None)
        if errand is None:
            return
        del errand.sent[reply.request_id]
        written = []
        for partition, error in reply.results:
            if error == Error.TRANSACTION_COORDINATOR_FENCED:
                errand.left.clear()
                return
            if error in _DONE:
                written.append(self._name(partition))
        self._written(errand, written)

    def _name(self, partition: PartitionId) -> TopicPartition:
        return self._broker.node.world.books.topic_partition(partition)

    def _written(self, errand: Errand, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            errand.left.pop(partition, None)
        if partitions:
            order = errand.order
            report = MarkersWritten(
                order.transactional_id,
                order.producer_id,
                order.producer_epoch,
                tuple(partitions),
                order.decided_ms,
            )
            self._coordination.tell(errand.log.partition, report)

    # -- the leader's side

    def on_request(self, source: int, request: m.WriteMarkers) -> None:
        if request.connection is not None and not request.connection.delivers():
            return
        answer = MarkersAnswer(self._broker, source, request)
        for partition in request.partitions:
            error = self._append(partition, request, answer)
            if error != Error.NONE:
                answer.add(partition, error)

    def _append(
        self, partition: PartitionId, request: m.WriteMarkers, answer: MarkersAnswer
    ) -> Error:
        """NONE: it is in the log, and the answer comes when it is committed."""
        broker, marker = self._broker, request.marker
        node = broker.node
        replica = broker.replicas.get(partition)
        role = replica.role if replica is not None else None
        if replica is None or not isinstance(role, LeaderReplica):
            return Error.NOT_LEADER_OR_FOLLOWER
        error = role.check_marker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=request.version,
        )
        if error != Error.NONE:
            node.coordination_marks.marker_refused(error)
            return error
        try:
            batch = broker.append(replica, role, marker_batch(marker, node.wall_ms()))
        except NoSpace as reason:
            return reason.kafka_error
        token = MarkerToken(answer, partition)
        node.after_ms(node.plan.timings.produce_timeout_ms, broker.wait_over, (replica, token))
        broker.perform(replica, role.await_commit(token, batch.last_offset + 1, node.now_ms()))
        broker.reads.wake(partition)
        return Error.NONE


class MarkerToken:
    """A marker that waits for its commit; the object's identity is the token."""

    __slots__ = ("_answer", "_partition")

    def __init__(self, answer: MarkersAnswer, partition: PartitionId) -> None:
        self._answer = answer
        self._partition = partition

    def done(self, error: Error) -> None:
        self._answer.add(self._partition, error)


class MarkersAnswer:
    """The answer to one request, given when every partition has come to something."""

    __slots__ = ("_broker", "_request", "_results", "_source")

    def __init__(self, broker: SimBroker, source: int, request: m.WriteMarkers) -> None:
        self._broker = broker
        self._source = source
        self._request = request
        self._results: dict[PartitionId, Error] = {}

    def add(self, partition: PartitionId, error: Error) -> None:
        self._results[partition] = error
        if len(self._results) == len(self._request.partitions):
            reply = m.WriteMarkersReply(self._request.request_id, tuple(self._results.items()))
            self._broker.node.send(self._source, reply)
