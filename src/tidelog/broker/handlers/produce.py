"""Produce v3 to v13: append one batch to each of some partitions (replication.md §4).

The way of a batch: its header, checksum and records are checked where it lies in the receive
buffer, or on a thread if that takes long (`record_work`). At the end of the turn (`appends`), or at
once if it is large, the leader judges it and the log stamps and writes it.

The first batch of a transaction in a partition waits for the word of its coordinator
(`verifications`); the check that finds it is the one every batch goes through.

acks=1 is answered as soon as the batch is written, in fsync mode too: it promises no more than
Kafka's does. Questions about what was acknowledged so wait instead (`own_writes`). acks=all waits
for the high watermark, and with it for our own copy to be durable.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from tidelog.broker.produce import record_work
from tidelog.broker.produce.open_produce import OpenPartition, OpenProduce
from tidelog.broker.transactions.transaction_calls import FIRST_VERSION, SECOND_VERSION
from tidelog.broker.transactions.verifications import Candidate, Understanding, Verdict
from tidelog.core.coordination import TopicPartition
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.replication.inputs import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from tidelog.core.transactions.requests import AddPartitions
from tidelog.core.types import NO_OFFSET, PartitionId
from tidelog.storage.errors import BatchLargerThanSegment, NoSpace, StorageError
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
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.core.replication.leader import LeaderReplica
    from tidelog.core.replication.producers import AppendedBatch
    from tidelog.rpc import Call

FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_ABORTABLE = 11
FIRST_VERSION_THAT_ADDS_PARTITIONS = 12
"""KIP-890: the first batch makes its partition part of the transaction."""
FIRST_VERSION_BY_TOPIC_ID = 13

COPIED_BYTES_MAX = 8 * 1024
"""A larger batch is appended where it lies in the frame: there, a copy costs more than a write
shared with others saves."""

REFUSALS = {
    Error.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas asks for",
    Error.OUT_OF_ORDER_SEQUENCE_NUMBER: "the batch does not continue its producer's sequence",
    Error.INVALID_PRODUCER_EPOCH: "a newer instance of this producer has written already",
    Error.INVALID_TXN_STATE: "the partition is not part of an open transaction of this producer",
    Error.TRANSACTION_ABORTABLE: "the partition is not part of the transaction: abort it, go on",
    Error.CONCURRENT_TRANSACTIONS: "the end of the last transaction is still being written",
    Error.KAFKA_STORAGE_ERROR: "the broker cannot write to its disk; its log says why",
}


def handle(broker: Broker, call: Call) -> None:
    request = call.request
    assert isinstance(request, ProduceRequest), request
    early = broker.early_produces
    if early.must_wait(call, request):
        early.keep(call, request, partial(_perform, broker))
    else:
        _perform(broker, call, request)


def _perform(broker: Broker, call: Call, request: ProduceRequest) -> None:
    produce = OpenProduce(broker, call, request)
    begin = _begin if request.acks in (ACKS_ALL, ACKS_LEADER, ACKS_NONE) else _refuse_acks
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
        broker.appends.close_later(produce)
    else:
        produce.close_list()


def _begin(
    produce: OpenProduce,
    topic: TopicProduceData,
    data: PartitionProduceData,
    result: PartitionProduceResponse,
) -> bool:
    """True if the batch was offered to its log, and is decided at the end of this turn."""
    hosted = _find(produce, topic, data.index)
    if hosted is None:
        _refuse_unhosted(produce, topic, result)
        return False
    role = hosted.leader
    partition = OpenPartition(produce, hosted, result)
    if role is None:
        partition.refuse(Error.NOT_LEADER_OR_FOLLOWER)
        return False
    if hosted.shards is not None:
        # What it has not written itself, a coordinator would learn only after the next election.
        partition.refuse(Error.INVALID_TOPIC_EXCEPTION, f"only coordinators write {hosted.topic}")
        return False
    full = produce.broker.rooms.full
    if full and hosted.directory in full:
        why = produce.broker.rooms.why_full(hosted.directory)
        partition.refuse(Error.KAFKA_STORAGE_ERROR, why)
        return False
    batch = data.records if data.records is not None else b""
    settings, broker = hosted.topic_settings, produce.broker
    allow_zstd = produce.version >= FIRST_VERSION_WITH_ZSTD
    try:
        header = validate_client_batch(batch, _limits(settings.message_max_bytes, allow_zstd))
        work = record_work.work_on(header, settings, broker.host.clock.wall_ms())
        is_busy = broker.workshop.is_busy_with(hosted.partition)
        good = None if is_busy else record_work.perform_at_once(work, batch, header)
        if good is None:
            _send_to_workshop(partition, work, batch, header)
            return False
        batch = good
    except InvalidBatch as error:
        _refuse_batch(partition, role, error)
        return False
    partition.header = header
    if len(batch) <= COPIED_BYTES_MAX:
        partition.batch = bytearray(batch)
        broker.appends.offer(partition, _append_all)
        return True
    partition.batch = batch
    _append_all(hosted, [*broker.appends.take(hosted), partition])
    return False


@lru_cache(maxsize=64)
def _limits(message_max_bytes: int, allow_zstd: bool) -> ClientLimits:
    return ClientLimits(max_message_bytes=message_max_bytes, allow_zstd=allow_zstd)


# ---- appending


def _append_all(hosted: Hosted, offered: Sequence[OpenPartition]) -> None:
    """What came for one log in a turn, in one write if it can be."""
    role = _present_leader(hosted, offered[0].produce.broker)
    if role is None:
        for partition in offered:
            partition.refuse(Error.NOT_LEADER_OR_FOLLOWER)
        return
    ready: list[OpenPartition] = []
    producers: set[int] = set()
    for partition in offered:
        producer_id = partition.header.producer_id
        if producer_id >= 0:
            if ready and producer_id in producers:
                _write(hosted, role, ready)  # a batch is judged by what the log has of its producer
                ready, producers = [], set()
            producers.add(producer_id)
        if _may_append(role, partition):
            ready.append(partition)
    if ready:
        _write(hosted, role, ready)


def _append_late(role: LeaderReplica, partition: OpenPartition, token: int | None = None) -> None:
    """One batch whose request has been waiting for it."""
    if _may_append(role, partition, token):
        _write(partition.hosted, role, [partition])


def _may_append(role: LeaderReplica, partition: OpenPartition, token: int | None = None) -> bool:
    """Otherwise its answer is decided, or waits."""
    header = partition.header
    verified = token is not None and _still_holds(partition.hosted, header, token)
    check = role.check_produce(header, partition.produce.acks, verified=verified)
    if check.error is not NO_ERROR:
        if check.error is Error.INVALID_TXN_STATE and header.is_transactional:
            _outside_transaction(role, partition, token)
        else:
            partition.refuse(check.error, REFUSALS.get(check.error))
        return False
    if check.duplicate is not None:
        _acknowledge_duplicate(partition, role, check.duplicate)
        return False
    return True


def _write(hosted: Hosted, role: LeaderReplica, ready: Sequence[OpenPartition]) -> None:
    """In the order of the simulator's broker."""
    broker = ready[0].produce.broker
    if hosted.topic_settings.timestamp_type == record_work.LOG_APPEND_TIME:
        _stamp_time(ready, broker.host.clock.wall_ms())
    batches = [partition.batch for partition in ready]
    try:
        headers = hosted.log.append_all_as_leader(batches, hosted.replica.leader_epoch)
    except (BatchLargerThanSegment, NoSpace) as error:
        if len(ready) == 1:
            _refuse_unwritten(hosted, ready, error)
        else:
            for partition in ready:  # those that fit by themselves
                _write(hosted, role, [partition])
        return
    except StorageError as error:
        _refuse_unwritten(hosted, ready, error)
        return
    traffic, replicas, now_ms = broker.traffic, broker.replicas, broker.now_ms()
    replicas.note_appended(hosted, headers[0].base_offset)
    effects = role.on_appended(now_ms)
    if effects:
        replicas.perform(hosted, effects)
    log_start_offset = hosted.log.log_start_offset
    for partition, header in zip(ready, headers, strict=True):
        traffic.messages_in += header.record_count
        traffic.bytes_in += header.size_bytes
        partition.batch = b""  # or a frame would be kept as long as its answer waits
        result = partition.result
        result.base_offset = header.base_offset
        result.log_start_offset = log_start_offset
        if partition.produce.acks == ACKS_ALL:
            partition.park(role)
            effects = role.await_commit(partition, header.next_offset, now_ms)
            if effects:
                replicas.perform(hosted, effects)
    broker.reads.wake(hosted.partition, len(ready))


def _stamp_time(ready: Sequence[OpenPartition], wall_ms: int) -> None:
    for partition in ready:
        batch = partition.batch
        assert not isinstance(batch, bytes), "frames and results of work are writable"
        partition.result.log_append_time_ms = wall_ms
        stamp_log_append_time(batch, 0, wall_ms)


def _refuse_unwritten(hosted: Hosted, ready: Sequence[OpenPartition], error: StorageError) -> None:
    broker = ready[0].produce.broker
    broker.replicas.directories.on_error(hosted.directory, error)
    for partition in ready:
        partition.result.log_append_time_ms = -1
        partition.refuse(error.kafka_error, REFUSALS.get(error.kafka_error, str(error)))


def _acknowledge_duplicate(
    partition: OpenPartition, role: LeaderReplica, original: AppendedBatch
) -> None:
    produce, hosted, result = partition.produce, partition.hosted, partition.result
    result.base_offset = original.first_offset
    result.log_start_offset = hosted.log.log_start_offset
    if hosted.topic_settings.timestamp_type == record_work.LOG_APPEND_TIME:
        result.log_append_time_ms = original.timestamp
    if produce.acks != ACKS_ALL:
        return
    partition.park(role)
    now_ms = produce.broker.now_ms()
    effects = role.await_duplicate(partition, original, now_ms)
    produce.broker.replicas.perform(hosted, effects)


# ---- transactions


def _outside_transaction(role: LeaderReplica, partition: OpenPartition, token: int | None) -> None:
    """The producer has no transaction open in this log: ask its coordinator. With a token that
    was done, and the end of the transaction came while the answer was on its way."""
    produce, header = partition.produce, partition.header
    if produce.transactional_id is None:
        message = "the batch is transactional, the request has no transactional id"
        partition.refuse(Error.INVALID_TXN_STATE, message)
        return
    if token is not None:
        _refuse_unverified(partition, Error.INVALID_TXN_STATE)
        return
    version = produce.version
    adds = version >= FIRST_VERSION_THAT_ADDS_PARTITIONS
    question = AddPartitions(
        produce.transactional_id,
        header.producer_id,
        header.producer_epoch,
        (TopicPartition(partition.hosted.topic, partition.hosted.index),),
        verify_only=not adds,
        version=SECOND_VERSION if adds else FIRST_VERSION,
    )
    partition.wait()
    candidate = Candidate(partition, bytearray(partition.batch), header, question)
    produce.broker.verifications.submit(candidate, role, _verified)


def _verified(candidate: Candidate, verdict: Verdict | None) -> None:
    """Like `_worked_on`. A token is worth nothing after the tenure it was given in."""
    partition = candidate.partition
    role = _present_leader(partition.hosted, partition.produce.broker)
    partition.waits = False
    if role is None or (verdict is not None and role is not verdict.role):
        partition.refuse(Error.NOT_LEADER_OR_FOLLOWER)
    elif verdict is not None and verdict.error is not NO_ERROR:
        _refuse_unverified(partition, verdict.error)
    else:
        partition.batch, partition.header = candidate.batch, candidate.header
        _append_late(role, partition, None if verdict is None else verdict.token)
    if not partition.waits:
        partition.produce.settled(partition)


def _still_holds(hosted: Hosted, header: BatchHeader, token: int) -> bool:
    return hosted.log.producers.verifications.is_valid(header.producer_id, token)


def _refuse_unverified(partition: OpenPartition, error: Error) -> None:
    version = partition.produce.version
    understood = Understanding(
        abortable=version >= FIRST_VERSION_WITH_ABORTABLE,
        concurrent=version >= FIRST_VERSION_THAT_ADDS_PARTITIONS,
        not_now=Error.NOT_ENOUGH_REPLICAS,
    ).translate(error)
    if understood is Error.NOT_ENOUGH_REPLICAS:
        partition.refuse(understood, f"the coordinator of the transaction says {error.name}")
    else:
        partition.refuse(understood, REFUSALS.get(understood))


def _present_leader(hosted: Hosted, broker: Broker) -> LeaderReplica | None:
    is_hosted = broker.replicas.hosted.get(hosted.partition) is hosted
    return hosted.leader if is_hosted else None


# ---- work on records that takes longer


def _send_to_workshop(
    partition: OpenPartition,
    work: record_work.RecordWork,
    batch: Buffer,
    header: BatchHeader,
) -> None:
    partition.wait()
    done = partial(_worked_on, partition, header)
    partition.produce.broker.workshop.send(partition.hosted.partition, work, batch, header, done)


def _worked_on(
    partition: OpenPartition, header: BatchHeader, outcome: Buffer | InvalidBatch
) -> None:
    """Much may have happened since the request came: look at everything again."""
    if not partition.is_open:
        return  # told that the time is over: now it must not be appended any more
    role = _present_leader(partition.hosted, partition.produce.broker)
    partition.waits = False
    if role is None:
        partition.refuse(Error.NOT_LEADER_OR_FOLLOWER)
    elif isinstance(outcome, InvalidBatch):
        _refuse_batch(partition, role, outcome)
    else:
        partition.batch, partition.header = outcome, header
        _append_late(role, partition)
    if not partition.waits:
        partition.produce.settled(partition)


# ---- finding and refusing


def _find(produce: OpenProduce, topic: TopicProduceData, index: int) -> Hosted | None:
    replicas = produce.broker.replicas
    if produce.version >= FIRST_VERSION_BY_TOPIC_ID:
        return replicas.hosted.get(PartitionId(topic.topic_id, index))
    return replicas.named(topic.name, index)


def _refuse_acks(
    produce: OpenProduce,
    _topic: TopicProduceData,
    _data: PartitionProduceData,
    result: PartitionProduceResponse,
) -> bool:
    message = f"acks is {produce.acks}; it may be -1 (all), 0 or 1"
    produce.refuse(result, Error.INVALID_REQUIRED_ACKS, message)
    return False


def _refuse_unhosted(
    produce: OpenProduce, topic: TopicProduceData, result: PartitionProduceResponse
) -> None:
    by_id = produce.version >= FIRST_VERSION_BY_TOPIC_ID
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
