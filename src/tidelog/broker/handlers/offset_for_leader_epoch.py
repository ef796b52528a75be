"""OffsetForLeaderEpoch (23): where a client has to stop trusting what it read (KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.handlers.list_offsets import why_missing
from tidelog.core.types import UNDEFINED_EPOCH_END
from tidelog.wire.protocol.schemas.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from tidelog.wire.protocol.schemas.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker
    from tidelog.rpc import Call


def handle(broker: Broker, call: Call) -> None:
    request = call.request
    assert isinstance(request, OffsetForLeaderEpochRequest), request
    call.answer(
        OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[_find(broker, topic.topic, each) for each in topic.partitions],
                )
                for topic in request.topics
            ]
        )
    )


def _find(broker: Broker, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    hosted = broker.replicas.named(topic, wanted.partition)
    if hosted is None:
        error, end = why_missing(broker, topic, wanted.partition), UNDEFINED_EPOCH_END
    else:
        error, end = hosted.replica.offset_for_leader_epoch(
            wanted.leader_epoch, wanted.current_leader_epoch
        )
    return EpochEndOffset(
        error_code=error,
        partition=wanted.partition,
        leader_epoch=end.leader_epoch,
        end_offset=end.end_offset,
    )
