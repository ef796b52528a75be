"""DescribeProducers v0: who writes to a partition, and which transactions are open (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.coordination import TopicPartition
from tidelog.core.replication.producers import ProducerEntry
from tidelog.wire.protocol.schemas.describe_producers_request import DescribeProducersRequest
from tidelog.wire.protocol.schemas.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.rpc import Call


def handle(replicas: Replicas, call: Call) -> None:
    request = call.request
    assert isinstance(request, DescribeProducersRequest), request
    topics = [
        TopicResponse(
            name=topic.name,
            partitions=[
                _partition(replicas, TopicPartition(topic.name, index))
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics
    ]
    call.answer(DescribeProducersResponse(topics=topics))


def _partition(replicas: Replicas, partition: TopicPartition) -> PartitionResponse:
    """Of any replica, as Kafka's tools expect: `--broker-id` compares a follower with its leader. A
    follower may not have heard of the end of a transaction yet."""
    hosted = replicas.named(*partition)
    if hosted is None:
        error = replicas.why_not_led_here(*partition)
        return PartitionResponse(partition_index=partition.partition, error_code=error)
    return PartitionResponse(
        partition_index=partition.partition,
        active_producers=[_producer(entry) for entry in hosted.log.producers.entries()],
    )


def _producer(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )
