"""A produce request on its way: one answer when every partition of it is decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.produce.record_work import BadRecords
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.replication.inputs import ACKS_NONE
from tidelog.core.types import NO_LEADER, PartitionId
from tidelog.wire.protocol import produce_answer
from tidelog.wire.protocol.schemas.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.core.replication.leader import LeaderReplica
    from tidelog.host.node_host import NodeHost
    from tidelog.host.timers import Timer
    from tidelog.observe.traffic import Traffic
    from tidelog.rpc import Call
    from tidelog.wire.protocol.schemas.produce_request import ProduceRequest
    from tidelog.wire.records import BatchHeader, Buffer, InvalidBatch

FIRST_VERSION_WITH_LEADER = 10
"""KIP-951: who is told "not leader" is told who is, and need not ask."""


class ProduceSurroundings(NamedTuple):
    """What every produce of a broker needs to be answered."""

    metadata: LocalMetadata
    replicas: Replicas
    traffic: Traffic
    host: NodeHost


class OpenProduce:
    """Owner of the answer. Each partition fills its place in it, at once or later; the last one
    after `close_list` sends it."""

    __slots__ = (
        "_leaders",
        "_open",
        "_surroundings",
        "_timer",
        "acks",
        "call",
        "failed",
        "timeout_ms",
        "topics",
        "transactional_id",
        "version",
    )

    def __init__(
        self, surroundings: ProduceSurroundings, call: Call, request: ProduceRequest
    ) -> None:
        self._surroundings = surroundings
        self.call = call
        self.version = call.version
        self.acks = request.acks
        self.timeout_ms = request.timeout_ms
        self.transactional_id = request.transactional_id
        self.topics: list[TopicProduceResponse] = []
        self.failed = False
        self._open: dict[OpenPartition, None] = {}
        self._leaders: set[int] | None = None
        self._timer: Timer | None = None

    def wait(self, partition: OpenPartition) -> None:
        """The answer waits until this partition is `answered`."""
        self._open[partition] = None

    def close_list(self) -> None:
        """Every partition has been begun: answer now, or when the last one is decided."""
        if self.acks == ACKS_NONE:
            self._answer_silently()
        elif not self._open:
            self._answer()
        else:
            timers = self._surroundings.host.timers
            self._timer = timers.after(max(self.timeout_ms, 0), self._timed_out)

    def settled(self, partition: OpenPartition) -> None:
        del self._open[partition]
        if self._timer is not None and not self._open:
            self._timer.cancel()
            self._answer()
        elif self.acks == ACKS_NONE and self.failed:
            self.call.close()

    def is_waiting_for(self, partition: OpenPartition) -> bool:
        return partition in self._open

    def refuse(
        self, result: PartitionProduceResponse, error: Error, message: str | None = None
    ) -> None:
        self.failed = True
        self._surroundings.traffic.failed_produces += 1
        result.error_code = error
        result.error_message = message

    def refuse_batch(self, result: PartitionProduceResponse, reason: InvalidBatch) -> None:
        if isinstance(reason, BadRecords):
            self.refuse(result, reason.error, str(reason))
            result.record_errors = [
                BatchIndexAndErrorMessage(batch_index=position, batch_index_error_message=message)
                for position, message in reason.records
            ]
        else:
            self.refuse(result, Error(reason.kafka_error), str(reason))

    def name_leader(self, result: PartitionProduceResponse, partition: PartitionId) -> None:
        if self.version < FIRST_VERSION_WITH_LEADER:
            return
        state = self._surroundings.metadata.image.partition(partition)
        if state is not None and state.leader != NO_LEADER:
            result.current_leader = LeaderIdAndEpoch(
                leader_id=state.leader, leader_epoch=state.leader_epoch
            )
            self._leaders = self._leaders or set()
            self._leaders.add(state.leader)

    def _timed_out(self) -> None:
        replicas, now_ms = self._surroundings.replicas, self._surroundings.host.now_ms()
        for partition in list(self._open):
            partition.timed_out(replicas, now_ms)

    def _answer_silently(self) -> None:
        """acks=0: no answer; the end of the connection is the only way to report an error."""
        self.call.answer_nothing()
        if self.failed:
            self.call.close()

    def _answer(self) -> None:
        topics = self.topics
        if not self.failed and len(topics) == 1 and self.version >= produce_answer.FIRST_VERSION:
            (topic,) = topics
            results = topic.partition_responses
            if len(results) == 1:
                self.call.answer_encoded(
                    produce_answer.plain_answer(
                        self.version, topic.topic_id, topic.name, results[0]
                    )
                )
                return
        endpoints = self._endpoints(self._leaders) if self._leaders else ()
        self.call.answer(ProduceResponse(responses=self.topics, node_endpoints=endpoints))

    def _endpoints(self, leaders: set[int]) -> list[NodeEndpoint]:
        """Of the listener the request came in through; who has none there is left out."""
        brokers, listener = self._surroundings.metadata.image.brokers, self.call.listener
        return [
            NodeEndpoint(node_id=leader, host=each.host, port=each.port, rack=brokers[leader].rack)
            for leader in sorted(leaders & brokers.keys())
            for each in brokers[leader].endpoints
            if each.name == listener
        ]


class OpenPartition:
    """One partition of a request. As the token of a parked produce it is known by identity."""

    __slots__ = ("_role", "batch", "header", "hosted", "produce", "result", "waits")

    batch: Buffer
    """In the frame of the request while that is handled, then a copy."""
    header: BatchHeader

    def __init__(
        self, produce: OpenProduce, hosted: Hosted, result: PartitionProduceResponse
    ) -> None:
        self.produce = produce
        self.hosted = hosted
        self.result = result
        self.waits = False
        """Somebody else will have it `answered`."""
        self._role: LeaderReplica | None = None

    @property
    def is_open(self) -> bool:
        """The answer waits for it."""
        return self.produce.is_waiting_for(self)

    def wait(self) -> None:
        """It is looked at elsewhere, or asked about."""
        self.waits = True
        self.produce.wait(self)

    def park(self, role: LeaderReplica) -> None:
        """It is appended, and waits for the high watermark of this tenure."""
        self._role = role
        self.waits = True
        self.produce.wait(self)

    def refuse(self, error: Error, message: str | None = None) -> None:
        self.produce.refuse(self.result, error, message)
        if error is Error.NOT_LEADER_OR_FOLLOWER:
            self.produce.name_leader(self.result, self.hosted.partition)

    def answered(self, error: Error) -> None:
        """The leader has decided: NONE, 6, 7 or 20."""
        if error is not NO_ERROR:
            self.refuse(error)
        self.produce.settled(self)

    def decided(self) -> None:
        """What had to be found out is known, and acted on. Unless somebody will have it
        `answered`, or has had it already, that is its end."""
        if not self.waits and self.is_open:
            self.produce.settled(self)

    def timed_out(self, replicas: Replicas, now_ms: int) -> None:
        if self._role is None:  # still looked at or asked about; it will not be appended
            self.answered(Error.REQUEST_TIMED_OUT)
        else:
            effects = self._role.on_produce_timeout(self, now_ms)
            replicas.perform(self.hosted, effects)
