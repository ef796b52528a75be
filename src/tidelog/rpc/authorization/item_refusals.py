"""Answers to the refused parts of a request, each in the shape of its API."""

from typing import Any

from tidelog.core.errors import Error
from tidelog.wire.protocol import ZERO_UUID
from tidelog.wire.protocol.schemas import (
    alter_configs_response,
    alter_replica_log_dirs_response,
    consumer_group_describe_response,
    create_partitions_response,
    delete_groups_response,
    delete_records_response,
    delete_topics_response,
    describe_configs_response,
    describe_groups_response,
    describe_log_dirs_response,
    describe_producers_response,
    describe_topic_partitions_response,
    describe_transactions_response,
    incremental_alter_configs_response,
    list_offsets_response,
    offset_commit_response,
    offset_delete_response,
    offset_for_leader_epoch_response,
    txn_offset_commit_response,
    write_txn_markers_response,
)
from tidelog.wire.protocol.schemas.fetch_response import FetchableTopicResponse, PartitionData
from tidelog.wire.protocol.schemas.produce_response import (
    PartitionProduceResponse,
    TopicProduceResponse,
)

# Any: each function takes a part of the requests of its API, and returns a part of its answers.


def produce_topic(topic: Any, error: Error) -> TopicProduceResponse:
    return TopicProduceResponse(
        topic_id=topic.topic_id,
        name=topic.name,
        partition_responses=[
            PartitionProduceResponse(index=each.index, error_code=error, base_offset=-1)
            for each in topic.partition_data
        ],
    )


def fetch_topic(topic: Any, error: Error) -> FetchableTopicResponse:
    return FetchableTopicResponse(
        topic_id=topic.topic_id,
        topic=topic.topic,
        partitions=[
            PartitionData(
                partition_index=each.partition,
                error_code=error,
                high_watermark=-1,
                aborted_transactions=None,
                records=b"",
            )
            for each in topic.partitions
        ],
    )


def list_offsets(topic: Any, error: Error) -> Any:
    return list_offsets_response.ListOffsetsTopicResponse(
        name=topic.name,
        partitions=[
            list_offsets_response.ListOffsetsPartitionResponse(
                partition_index=each.partition_index, error_code=error, timestamp=-1, offset=-1
            )
            for each in topic.partitions
        ],
    )


def offset_commit(topic: Any, error: Error) -> Any:
    return offset_commit_response.OffsetCommitResponseTopic(
        topic_id=topic.topic_id,
        name=topic.name,
        partitions=[
            offset_commit_response.OffsetCommitResponsePartition(
                partition_index=each.partition_index, error_code=error
            )
            for each in topic.partitions
        ],
    )


def whole_offset_commit(request: Any, error: Error) -> Any:
    topics = [offset_commit(topic, error) for topic in request.topics]
    return offset_commit_response.OffsetCommitResponse(topics=topics)


def txn_offset_commit(topic: Any, error: Error) -> Any:
    return txn_offset_commit_response.TxnOffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            txn_offset_commit_response.TxnOffsetCommitResponsePartition(
                partition_index=each.partition_index, error_code=error
            )
            for each in topic.partitions
        ],
    )


def whole_txn_offset_commit(request: Any, error: Error) -> Any:
    topics = [txn_offset_commit(topic, error) for topic in request.topics]
    return txn_offset_commit_response.TxnOffsetCommitResponse(topics=topics)


def offset_delete(topic: Any, error: Error) -> Any:
    return offset_delete_response.OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            offset_delete_response.OffsetDeleteResponsePartition(
                partition_index=each.partition_index, error_code=error
            )
            for each in topic.partitions
        ],
    )


def delete_records(topic: Any, error: Error) -> Any:
    return delete_records_response.DeleteRecordsTopicResult(
        name=topic.name,
        partitions=[
            delete_records_response.DeleteRecordsPartitionResult(
                partition_index=each.partition_index, low_watermark=-1, error_code=error
            )
            for each in topic.partitions
        ],
    )


def offset_for_leader_epoch(topic: Any, error: Error) -> Any:
    return offset_for_leader_epoch_response.OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=[
            offset_for_leader_epoch_response.EpochEndOffset(
                error_code=error, partition=each.partition
            )
            for each in topic.partitions
        ],
    )


def describe_producers(topic: Any, error: Error) -> Any:
    return describe_producers_response.TopicResponse(
        name=topic.name,
        partitions=[
            describe_producers_response.PartitionResponse(partition_index=index, error_code=error)
            for index in topic.partition_indexes
        ],
    )


def describe_group(group: str, error: Error) -> Any:
    return describe_groups_response.DescribedGroup(error_code=error, group_id=group)


def describe_consumer_group(group: str, error: Error) -> Any:
    return consumer_group_describe_response.DescribedGroup(error_code=error, group_id=group)


def delete_group(group: str, error: Error) -> Any:
    return delete_groups_response.DeletableGroupResult(group_id=group, error_code=error)


def describe_transaction(transactional_id: str, error: Error) -> Any:
    return describe_transactions_response.TransactionState(
        error_code=error, transactional_id=transactional_id
    )


def delete_topic(topic: Any, error: Error) -> Any:
    """Whoever asks by an id is not told the name."""
    by_id = topic.topic_id != ZERO_UUID
    return delete_topics_response.DeletableTopicResult(
        name=None if by_id else topic.name, topic_id=topic.topic_id, error_code=error
    )


def delete_named_topic(name: str, error: Error) -> Any:
    return delete_topics_response.DeletableTopicResult(name=name, error_code=error)


def create_partitions(topic: Any, error: Error) -> Any:
    return create_partitions_response.CreatePartitionsTopicResult(name=topic.name, error_code=error)


def describe_topic_partitions(topic: Any, error: Error) -> Any:
    return describe_topic_partitions_response.DescribeTopicPartitionsResponseTopic(
        error_code=error, name=topic.name
    )


def describe_config(resource: Any, error: Error) -> Any:
    return describe_configs_response.DescribeConfigsResult(
        error_code=error,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def alter_config(resource: Any, error: Error) -> Any:
    return alter_configs_response.AlterConfigsResourceResponse(
        error_code=error,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def incremental_alter_config(resource: Any, error: Error) -> Any:
    return incremental_alter_configs_response.AlterConfigsResourceResponse(
        error_code=error,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def whole_alter_replica_log_dirs(request: Any, error: Error) -> Any:
    topics: dict[str, list[int]] = {}
    for place in request.dirs:
        for topic in place.topics:
            topics.setdefault(topic.name, []).extend(topic.partitions)
    return alter_replica_log_dirs_response.AlterReplicaLogDirsResponse(
        results=[
            alter_replica_log_dirs_response.AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    alter_replica_log_dirs_response.AlterReplicaLogDirPartitionResult(
                        partition_index=index, error_code=error
                    )
                    for index in indexes
                ],
            )
            for name, indexes in topics.items()
        ]
    )


def whole_describe_log_dirs(_request: Any, error: Error) -> Any:
    return describe_log_dirs_response.DescribeLogDirsResponse(error_code=error)


def whole_write_txn_markers(request: Any, error: Error) -> Any:
    return write_txn_markers_response.WriteTxnMarkersResponse(
        markers=[
            write_txn_markers_response.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    write_txn_markers_response.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            write_txn_markers_response.WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=error
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )
