"""WriteTxnMarkers v1 and v2: the end of transactions in partitions that this broker leads.

Coordinators send it to leaders, and `Admin.abortTransaction` sends it to the leader of a partition
in which a transaction hangs. It is answered when every marker is committed or refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.coordination.pending_call import Gathering
from tidelog.broker.transactions.markers import MarkerOrder
from tidelog.core.coordination import Marker, TopicPartition
from tidelog.core.errors import Error
from tidelog.wire.protocol.schemas.write_txn_markers_request import (
    WritableTxnMarker,
    WriteTxnMarkersRequest,
)
from tidelog.wire.protocol.schemas.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.transactions.markers import MarkerWriter
    from tidelog.rpc import Call


def handle(markers: MarkerWriter, call: Call) -> None:
    request = call.request
    assert isinstance(request, WriteTxnMarkersRequest), request
    places = [
        (each, TopicPartition(topic.name, index))
        for each in request.markers
        for topic in each.topics
        for index in topic.partition_indexes
    ]
    gathering: Gathering[Error] = Gathering(len(places), partial(_finish, call, request))
    for position, (each, partition) in enumerate(places):
        markers.write(partition, _order(each), partial(gathering.put, position))


def _order(asked: WritableTxnMarker) -> MarkerOrder:
    marker = Marker(
        asked.producer_id,
        asked.producer_epoch,
        asked.transaction_result,
        asked.coordinator_epoch,
    )
    return MarkerOrder(marker, asked.transaction_version)


def _finish(call: Call, request: WriteTxnMarkersRequest, errors: list[Error]) -> None:
    left = iter(errors)
    call.answer(WriteTxnMarkersResponse(markers=[_result(each, left) for each in request.markers]))


def _result(asked: WritableTxnMarker, errors: Iterator[Error]) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=asked.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(partition_index=index, error_code=next(errors))
                    for index in topic.partition_indexes
                ],
            )
            for topic in asked.topics
        ],
    )
