"""The path of a produce from its frame to its acknowledgement (replication.md §4).

1. A request for logs that are still being made waits for them (`early_produces`).
2. Header, checksum and records of each batch are checked where it lies in the receive buffer, or on
   a thread if that takes long (`record_work`).
3. At the end of the turn (`appends`), or at once if it is large, the leader judges the batch, and
   the log stamps and writes it (`leader_writes`).
4. The request is answered when every partition of it is decided (`open_produce`).

acks=1 is answered as soon as the batch is written, in fsync mode too: it promises no more than
Kafka's does. Questions about what was acknowledged so wait instead (`own_writes`). acks=all waits
for the high watermark, and with it for our own copy to be durable.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

from tidelog.broker.produce import record_work
from tidelog.broker.produce.leader_writes import REFUSALS
from tidelog.broker.produce.open_produce import OpenPartition, OpenProduce, ProduceSurroundings
from tidelog.core.errors import Error
from tidelog.core.replication.inputs import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from tidelog.core.types import NO_OFFSET, PartitionId
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import (
    PartitionProduceResponse,
    TopicProduceResponse,
)
from tidelog.wire.records import (
    BatchHeader,
    Buffer,
    ClientLimits,
    InvalidBatch,
    validate_client_batch,
)

if TYPE_CHECKING:
    from tidelog.broker.logs.disk_rooms import DiskRooms
    from tidelog.broker.produce.appends import Appends
    from tidelog.broker.produce.early_produces import EarlyProduces
    from tidelog.broker.produce.record_work import RecordWorkshop
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.core.replication.leader import LeaderReplica
    from tidelog.rpc import Call

FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_BY_TOPIC_ID = 13

COPIED_BYTES_MAX = 8 * 1024
"""A larger batch is appended where it lies in the frame: there, a copy costs more than a write
shared with others saves."""


class Produces:
    """Every produce of clients goes through it. One per broker."""

    __slots__ = (
        "_appends",
        "_early",
        "_rooms",
        "_surroundings",
        "_wall_ms",
        "_workshop",
        "_writes",
    )

    def __init__(
        self,
        surroundings: ProduceSurroundings,
        early: EarlyProduces,
        rooms: DiskRooms,
        workshop: RecordWorkshop,
        appends: Appends,
    ) -> None:
        self._surroundings = surroundings
        self._early = early
        self._rooms = rooms
        self._workshop = workshop
        self._appends = appends
        self._writes = appends.writes
        self._wall_ms = surroundings.host.clock.wall_ms

    def handle(self, call: Call) -> None:
        request = call.request
        assert isinstance(request, ProduceRequest), request
        if self._early.must_wait(call, request):
            self._early.keep(call, request, self._begin)
        else:
            self._begin(call, request)

    def _begin(self, call: Call, request: ProduceRequest) -> None:
        produce = OpenProduce(self._surroundings, call, request)
        is_known = request.acks in (ACKS_ALL, ACKS_LEADER, ACKS_NONE)
        begin = self._begin_partition if is_known else _refuse_acks
        is_offered = False
        for topic in request.topic_data:
            results: list[PartitionProduceResponse] = []
            produce.topics.append(
                TopicProduceResponse(
                    topic_id=topic.topic_id, name=topic.name, partition_responses=results
                )
            )
            for data in topic.partition_data:
                result = PartitionProduceResponse(index=data.index, base_offset=NO_OFFSET)
                results.append(result)
                is_offered |= begin(produce, topic, data, result)
        if is_offered:
            self._appends.close_later(produce)
        else:
            produce.close_list()

    def _begin_partition(
        self,
        produce: OpenProduce,
        topic: TopicProduceData,
        data: PartitionProduceData,
        result: PartitionProduceResponse,
    ) -> bool:
        """True if the batch was offered to its log, and is decided at the end of this turn."""
        hosted = self._find(produce, topic, data.index)
        if hosted is None:
            self._refuse_unhosted(produce, topic, result)
            return False
        role = hosted.leader
        partition = OpenPartition(produce, hosted, result)
        if role is None:
            partition.refuse(Error.NOT_LEADER_OR_FOLLOWER)
            return False
        if hosted.shards is not None:
            # A coordinator would learn of it only after the next election.
            partition.refuse(
                Error.INVALID_TOPIC_EXCEPTION, f"only coordinators write {hosted.topic}"
            )
            return False
        full = self._rooms.full
        if full and hosted.directory in full:
            why = self._rooms.why_full(hosted.directory)
            partition.refuse(Error.KAFKA_STORAGE_ERROR, why)
            return False
        batch = data.records if data.records is not None else b""
        settings = hosted.topic_settings
        allow_zstd = produce.version >= FIRST_VERSION_WITH_ZSTD
        try:
            header = validate_client_batch(batch, _limits(settings.message_max_bytes, allow_zstd))
            work = record_work.work_on(header, settings, self._wall_ms())
            is_busy = self._workshop.is_busy_with(hosted.partition)
            good = None if is_busy else record_work.perform_at_once(work, batch, header)
            if good is None:
                self._send_to_workshop(partition, work, batch, header)
                return False
            batch = good
        except InvalidBatch as error:
            _refuse_batch(partition, role, error)
            return False
        partition.header = header
        if len(batch) <= COPIED_BYTES_MAX:
            partition.batch = bytearray(batch)
            self._appends.offer(partition)
            return True
        partition.batch = batch
        self._writes.append_all(hosted, [*self._appends.take(hosted), partition])
        return False

    # ---- work on records that takes longer

    def _send_to_workshop(
        self,
        partition: OpenPartition,
        work: record_work.RecordWork,
        batch: Buffer,
        header: BatchHeader,
    ) -> None:
        partition.wait()
        self._workshop.send(
            partition.hosted.partition,
            work,
            batch,
            header,
            is_wanted=lambda: partition.is_open,
            done=partial(self._worked_on, partition, header),
        )

    def _worked_on(
        self, partition: OpenPartition, header: BatchHeader, outcome: Buffer | InvalidBatch | None
    ) -> None:
        """Much may have happened since the request came: look at everything again."""
        if outcome is None or not partition.is_open:
            return  # told that the time is over: now it must not be appended any more
        role = self._writes.present_leader(partition.hosted)
        partition.waits = False
        if role is None:
            partition.refuse(Error.NOT_LEADER_OR_FOLLOWER)
        elif isinstance(outcome, InvalidBatch):
            _refuse_batch(partition, role, outcome)
        else:
            partition.batch, partition.header = outcome, header
            self._writes.append_late(role, partition)
        partition.decided()

    # ---- finding and refusing

    def _find(self, produce: OpenProduce, topic: TopicProduceData, index: int) -> Hosted | None:
        replicas = self._surroundings.replicas
        if produce.version >= FIRST_VERSION_BY_TOPIC_ID:
            return replicas.hosted.get(PartitionId(topic.topic_id, index))
        return replicas.named(topic.name, index)

    def _refuse_unhosted(
        self, produce: OpenProduce, topic: TopicProduceData, result: PartitionProduceResponse
    ) -> None:
        by_id = produce.version >= FIRST_VERSION_BY_TOPIC_ID
        image = self._surroundings.metadata.image
        topic_id = topic.topic_id if by_id else image.topic_ids.get(topic.name, b"")
        partition = PartitionId(topic_id, result.index)
        if partition in self._surroundings.replicas.problems:
            produce.refuse(
                result,
                Error.KAFKA_STORAGE_ERROR,
                "the broker cannot open the log of this partition",
            )
        elif image.partition(partition) is not None:
            produce.refuse(result, Error.NOT_LEADER_OR_FOLLOWER)
            produce.name_leader(result, partition)
        elif by_id and topic_id not in image.topics:
            produce.refuse(result, Error.UNKNOWN_TOPIC_ID)
        else:
            produce.refuse(result, Error.UNKNOWN_TOPIC_OR_PARTITION)


@lru_cache(maxsize=64)
def _limits(message_max_bytes: int, allow_zstd: bool) -> ClientLimits:
    return ClientLimits(max_message_bytes=message_max_bytes, allow_zstd=allow_zstd)


def _refuse_acks(
    produce: OpenProduce,
    _topic: TopicProduceData,
    _data: PartitionProduceData,
    result: PartitionProduceResponse,
) -> bool:
    message = f"acks is {produce.acks}; it may be -1 (all), 0 or 1"
    produce.refuse(result, Error.INVALID_REQUIRED_ACKS, message)
    return False


def _refuse_batch(partition: OpenPartition, role: LeaderReplica, reason: InvalidBatch) -> None:
    """Rows 5 to 8 of §4.1. Row 4 stands above them: a full ISR may come back, a bad batch not."""
    if partition.produce.acks == ACKS_ALL and not role.enough_replicas_to_append():
        error = Error.NOT_ENOUGH_REPLICAS
        partition.refuse(error, REFUSALS[error])
    else:
        partition.produce.refuse_batch(partition.result, reason)
