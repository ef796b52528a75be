"""ListOffsets (2): where a log starts and ends, and where it was at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.fetch import own_writes
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.replication.inputs import EARLIEST, LATEST, OffsetAnswer
from tidelog.core.types import NO_OFFSET
from tidelog.storage.errors import StorageError
from tidelog.wire.protocol.schemas.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
)
from tidelog.wire.protocol.schemas.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.logs.mending import Mending
    from tidelog.broker.produce.appends import Appends
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.host.node_host import NodeHost
    from tidelog.rpc import Call
    from tidelog.storage.lookups import TimestampOffset

MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

FIRST_VERSIONS = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
FIRST_VERSION_THAT_UNDERSTANDS_OFFSET_NOT_AVAILABLE = 5

CONSUMER = -1
DEBUGGER = -2
"""Sees the whole log of any replica."""

NO_TIMESTAMP = -1


class Asker(NamedTuple):
    """What the answer depends on beside the partition."""

    replica_id: int
    read_committed: bool
    understands_offset_not_available: bool

    @property
    def is_client(self) -> bool:
        return self.replica_id == CONSUMER


class Found(NamedTuple):
    answer: OffsetAnswer
    timestamp: int = NO_TIMESTAMP


class Parts(NamedTuple):
    """What this handler uses."""

    appends: Appends
    replicas: Replicas
    mending: Mending
    host: NodeHost


def handle(parts: Parts, call: Call) -> None:
    parts.appends.then(partial(_await_own_writes, parts), call)


def _await_own_writes(parts: Parts, call: Call) -> None:
    request = call.request
    assert isinstance(request, ListOffsetsRequest), request
    asked = _asked_by_client(parts, request) if request.replica_id == CONSUMER else ()
    own_writes.when_readable(
        parts.replicas, parts.host.timers, asked, partial(_list_offsets, parts, call, request)
    )


def _asked_by_client(parts: Parts, request: ListOffsetsRequest) -> Iterator[Hosted]:
    """The partitions of which it wants to know the end, or a record that may be the last one."""
    for topic in request.topics:
        for wanted in topic.partitions:
            if wanted.timestamp in (LATEST, MAX_TIMESTAMP) or wanted.timestamp >= 0:
                hosted = parts.replicas.named(topic.name, wanted.partition_index)
                if hosted is not None:
                    yield hosted


def _list_offsets(parts: Parts, call: Call, request: ListOffsetsRequest) -> None:
    asker = Asker(
        request.replica_id,
        request.isolation_level == 1,
        call.version >= FIRST_VERSION_THAT_UNDERSTANDS_OFFSET_NOT_AVAILABLE,
    )
    repeated = _repeated(request)
    topics = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            if (topic.name, wanted.partition_index) in repeated:
                found = Found(OffsetAnswer(Error.INVALID_REQUEST))
            elif call.version < FIRST_VERSIONS.get(min(wanted.timestamp, 0), 0):
                found = Found(OffsetAnswer(Error.UNSUPPORTED_VERSION))
            else:
                found = _find(parts, topic.name, wanted, asker)
            partitions.append(_partition_response(wanted, found))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    call.answer(ListOffsetsResponse(topics=topics))


def _repeated(request: ListOffsetsRequest) -> set[tuple[str, int]]:
    """Partitions that are asked for twice: their answers could not be told apart."""
    seen: set[tuple[str, int]] = set()
    repeated: set[tuple[str, int]] = set()
    for topic in request.topics:
        for wanted in topic.partitions:
            key = (topic.name, wanted.partition_index)
            (repeated if key in seen else seen).add(key)
    return repeated


def _partition_response(wanted: ListOffsetsPartition, found: Found) -> ListOffsetsPartitionResponse:
    answer = found.answer
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        error_code=answer.error,
        timestamp=found.timestamp,
        offset=answer.offset,
        leader_epoch=answer.leader_epoch,
    )


def _find(parts: Parts, topic: str, wanted: ListOffsetsPartition, asker: Asker) -> Found:
    hosted = parts.replicas.named(topic, wanted.partition_index)
    if hosted is None:
        return Found(OffsetAnswer(parts.replicas.why_not_led_here(topic, wanted.partition_index)))
    leader_only = asker.replica_id != DEBUGGER
    error = hosted.replica.check_reader(wanted.current_leader_epoch, leader_only=leader_only)
    if error is not NO_ERROR:
        return Found(OffsetAnswer(error))
    if wanted.timestamp in (LATEST, EARLIEST, EARLIEST_LOCAL):
        return Found(_end_of_log(hosted, wanted, asker))
    if wanted.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return Found(OffsetAnswer(NO_ERROR))  # there is no other place for records to be in
    if wanted.timestamp < MAX_TIMESTAMP:
        return Found(OffsetAnswer(Error.UNSUPPORTED_VERSION))
    try:
        return _at_time(hosted, wanted.timestamp, asker)
    except StorageError as failure:
        parts.replicas.problems[hosted.partition] = str(failure)
        parts.mending.found(hosted, failure)
        return Found(OffsetAnswer(failure.kafka_error))


def _end_of_log(hosted: Hosted, wanted: ListOffsetsPartition, asker: Asker) -> OffsetAnswer:
    log = hosted.log
    if asker.replica_id == DEBUGGER:
        is_latest = wanted.timestamp == LATEST
        offset = log.log_end_offset if is_latest else log.log_start_offset
        return OffsetAnswer(NO_ERROR, offset, log.epochs.epoch_at(offset))
    return hosted.replica.list_offset(
        LATEST if wanted.timestamp == LATEST else EARLIEST,
        wanted.current_leader_epoch,
        read_committed=asker.read_committed,
        client=asker.is_client,
        understands_offset_not_available=asker.understands_offset_not_available,
    )


def _at_time(hosted: Hosted, timestamp_ms: int, asker: Asker) -> Found:
    found = _first_record(hosted, timestamp_ms)
    if not asker.is_client:
        if found is None:
            return Found(OffsetAnswer(NO_ERROR))
        return Found(OffsetAnswer(NO_ERROR, found.offset, found.leader_epoch), found.timestamp)
    answer = hosted.replica.timestamp_offset(
        found.offset if found is not None else NO_OFFSET,
        read_committed=asker.read_committed,
        understands_offset_not_available=asker.understands_offset_not_available,
    )
    if found is None or answer.offset == NO_OFFSET:
        return Found(OffsetAnswer(answer.error))
    return Found(answer, found.timestamp)


def _first_record(hosted: Hosted, timestamp_ms: int) -> TimestampOffset | None:
    """The first record that is not older; of the newest ones for MAX_TIMESTAMP."""
    if timestamp_ms != MAX_TIMESTAMP:
        return hosted.log.offset_for_timestamp(timestamp_ms)
    filled = [segment.max_timestamp for segment in hosted.log.segments if segment.size]
    return hosted.log.offset_for_timestamp(max(filled)) if filled else None
