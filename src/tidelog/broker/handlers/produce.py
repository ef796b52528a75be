"""Produce v3 to v13: append one batch to each of some partitions (replication.md §4).

The way of a batch: its header and checksum are checked where it lies in the receive buffer, the
leader judges it, the log stamps it in place and writes it before this handler returns. No record
is touched unless the topic needs it (`record_work`).

acks=1 is answered as soon as the batch is written, in fsync mode too: it promises no more than
Kafka's does. acks=all waits for the high watermark, and with it for our own copy to be durable.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

from tidelog.broker import record_work
from tidelog.broker.open_produce import OpenPartition, OpenProduce
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.replication.inputs import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from tidelog.core.types import NO_OFFSET, PartitionId
from tidelog.storage.errors import StorageError
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
    stamp_log_append_time,
    validate_client_batch,
)

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker
    from tidelog.broker.hosted import Hosted
    from tidelog.core.replication.leader import LeaderReplica
    from tidelog.core.replication.producers import AppendedBatch
    from tidelog.rpc import Call

FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_BY_TOPIC_ID = 13

REFUSALS = {
    Error.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas asks for",
    Error.OUT_OF_ORDER_SEQUENCE_NUMBER: "the batch does not continue its producer's sequence",
    Error.INVALID_PRODUCER_EPOCH: "a newer instance of this producer has written already",
    Error.INVALID_TXN_STATE: "transactions are not served yet: leave transactional.id unset",
    Error.KAFKA_STORAGE_ERROR: "the broker cannot write to its disk; its log says why",
}


def handle(broker: Broker, call: Call) -> None:
    request = call.request
    assert isinstance(request, ProduceRequest), request
    produce = OpenProduce(broker, call, request.acks)
    begin = _begin if request.acks in (ACKS_ALL, ACKS_LEADER, ACKS_NONE) else _refuse_acks
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
            begin(produce, topic, data, result)
    produce.close_list(request.timeout_ms)


def _begin(
    produce: OpenProduce,
    topic: TopicProduceData,
    data: PartitionProduceData,
    result: PartitionProduceResponse,
) -> None:
    hosted = _find(produce, topic, data.index)
    if hosted is None:
        _refuse_unhosted(produce, topic, result)
        return
    role = hosted.leader
    partition = OpenPartition(produce, hosted, result)
    if role is None:
        partition.refuse(Error.NOT_LEADER_OR_FOLLOWER)
        return
    batch = data.records if data.records is not None else b""
    settings, broker = hosted.topic_settings, produce.broker
    allow_zstd = produce.call.version >= FIRST_VERSION_WITH_ZSTD
    try:
        header = validate_client_batch(batch, _limits(settings.message_max_bytes, allow_zstd))
        work = record_work.work_on(header, settings, broker.host.clock.wall_ms())
        is_busy = broker.workshop.is_busy_with(hosted.partition)
        if is_busy or (work is not None and not record_work.is_small(header)):
            _send_to_workshop(partition, work, batch, header)
            return
        if work is not None:
            batch = record_work.perform(work, batch, header)
    except InvalidBatch as error:
        _refuse_batch(partition, role, error)
        return
    _append(partition, role, batch, header)


@lru_cache(maxsize=64)
def _limits(message_max_bytes: int, allow_zstd: bool) -> ClientLimits:
    return ClientLimits(
        max_message_bytes=message_max_bytes, allow_zstd=allow_zstd, inspect_records=False
    )


# ---- appending


def _append(
    partition: OpenPartition, role: LeaderReplica, batch: Buffer, header: BatchHeader
) -> bool:
    """In the order of the simulator's broker. True if its answer has to wait."""
    produce, hosted = partition.produce, partition.hosted
    broker, result, acks = produce.broker, partition.result, produce.acks
    check = role.check_produce(header, acks)
    if check.error is not NO_ERROR:
        partition.refuse(check.error, REFUSALS.get(check.error))
        return False
    if check.duplicate is not None:
        return _acknowledge_duplicate(partition, role, check.duplicate)
    if hosted.topic_settings.timestamp_type == record_work.LOG_APPEND_TIME:
        result.log_append_time_ms = broker.host.clock.wall_ms()
        stamp_log_append_time(_writable(batch), 0, result.log_append_time_ms)
    try:
        appended = hosted.log.append_as_leader(batch, hosted.replica.leader_epoch)
    except StorageError as error:
        result.log_append_time_ms = -1
        broker.replicas.directories.on_error(hosted.directory, error, broker.now_ms())
        partition.refuse(error.kafka_error, REFUSALS.get(error.kafka_error, str(error)))
        return False
    broker.traffic.messages_in += header.record_count
    broker.traffic.bytes_in += len(batch)
    result.base_offset = appended.base_offset
    result.log_start_offset = hosted.log.log_start_offset
    now_ms = broker.now_ms()
    replicas = broker.replicas
    replicas.note_appended(hosted, appended.base_offset)
    replicas.perform(hosted, role.on_appended(now_ms))
    if acks == ACKS_ALL:
        partition.park(role)
        required = appended.base_offset + appended.last_offset_delta + 1
        replicas.perform(hosted, role.await_commit(partition, required, now_ms))
    broker.reads.wake(hosted.partition)
    return acks == ACKS_ALL


def _acknowledge_duplicate(
    partition: OpenPartition, role: LeaderReplica, original: AppendedBatch
) -> bool:
    produce, hosted, result = partition.produce, partition.hosted, partition.result
    result.base_offset = original.first_offset
    result.log_start_offset = hosted.log.log_start_offset
    if hosted.topic_settings.timestamp_type == record_work.LOG_APPEND_TIME:
        result.log_append_time_ms = original.timestamp
    if produce.acks != ACKS_ALL:
        return False
    partition.park(role)
    now_ms = produce.broker.now_ms()
    effects = role.await_duplicate(partition, original, now_ms)
    produce.broker.replicas.perform(hosted, effects)
    return True


def _writable(batch: Buffer) -> bytearray | memoryview:
    assert not isinstance(batch, bytes), "frames and results of work are writable"
    return batch


# ---- work on records that takes longer


def _send_to_workshop(
    partition: OpenPartition,
    work: record_work.RecordWork | None,
    batch: Buffer,
    header: BatchHeader,
) -> None:
    produce = partition.produce
    produce.wait(partition)
    done = partial(_worked_on, partition, header)
    produce.broker.workshop.send(partition.hosted.partition, work, batch, header, done)


def _worked_on(
    partition: OpenPartition, header: BatchHeader, outcome: Buffer | InvalidBatch
) -> None:
    """Much may have happened since the request came: look at everything again."""
    if not partition.is_open:
        return  # told that the time is over: now it must not be appended any more
    hosted = partition.hosted
    is_hosted = partition.produce.broker.replicas.hosted.get(hosted.partition) is hosted
    role = hosted.leader if is_hosted else None
    waits = False
    if role is None:
        partition.refuse(Error.NOT_LEADER_OR_FOLLOWER)
    elif isinstance(outcome, InvalidBatch):
        _refuse_batch(partition, role, outcome)
    else:
        waits = _append(partition, role, outcome, header)
    if not waits:
        partition.produce.settled(partition)


# ---- finding and refusing


def _find(produce: OpenProduce, topic: TopicProduceData, index: int) -> Hosted | None:
    replicas = produce.broker.replicas
    if produce.call.version >= FIRST_VERSION_BY_TOPIC_ID:
        return replicas.hosted.get(PartitionId(topic.topic_id, index))
    return replicas.named(topic.name, index)


def _refuse_acks(
    produce: OpenProduce,
    _topic: TopicProduceData,
    _data: PartitionProduceData,
    result: PartitionProduceResponse,
) -> None:
    message = f"acks is {produce.acks}; it may be -1 (all), 0 or 1"
    produce.refuse(result, Error.INVALID_REQUIRED_ACKS, message)


def _refuse_unhosted(
    produce: OpenProduce, topic: TopicProduceData, result: PartitionProduceResponse
) -> None:
    by_id = produce.call.version >= FIRST_VERSION_BY_TOPIC_ID
    broker = produce.broker
    topic_id = topic.topic_id if by_id else broker.image.topic_ids.get(topic.name, b"")
    partition = PartitionId(topic_id, result.index)
    if partition in broker.replicas.problems:
        produce.refuse(
            result, Error.KAFKA_STORAGE_ERROR, "the broker cannot open the log of this partition"
        )
    elif broker.image.partition(partition) is not None:
        produce.refuse(result, Error.NOT_LEADER_OR_FOLLOWER)
        produce.name_leader(result, partition)
    elif by_id and topic_id not in broker.image.topics:
        produce.refuse(result, Error.UNKNOWN_TOPIC_ID)
    else:
        produce.refuse(result, Error.UNKNOWN_TOPIC_OR_PARTITION)


def _refuse_batch(partition: OpenPartition, role: LeaderReplica, reason: InvalidBatch) -> None:
    """Rows 5 to 8 of §4.1. Row 4 stands above them: a full ISR may come back, a bad batch not."""
    if partition.produce.acks == ACKS_ALL and not role.enough_replicas_to_append():
        error = Error.NOT_ENOUGH_REPLICAS
        partition.refuse(error, REFUSALS[error])
    else:
        partition.produce.refuse_batch(partition.result, reason)
