"""OffsetForLeaderEpoch (23): where a client has to stop trusting what it read (KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.rpc import Call


def handle(replicas: Replicas, call: Call) -> None:
    request = call.request
    assert isinstance(request, OffsetForLeaderEpochRequest), request
    call.answer(
        OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[_find(replicas, topic.topic, each) for each in topic.partitions],
                )
                for topic in request.topics
            ]
        )
    )


def _find(replicas: Replicas, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    hosted = replicas.named(topic, wanted.partition)
    if hosted is None:
        error, end = replicas.why_not_led_here(topic, wanted.partition), UNDEFINED_EPOCH_END
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
