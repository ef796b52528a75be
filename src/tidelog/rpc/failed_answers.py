"""Answers to requests that were not carried out, each in the shape of its API.

For tests: a node can be made to answer like this (`node.scripted_answers`). Where the API answers
items, each item of a request gets the error, because clients look for it there.
"""

from collections.abc import Callable
from typing import Any

from tidelog.core.errors import Error
from tidelog.rpc import admin_refusals
from tidelog.rpc.authorization import item_refusals as refused
from tidelog.wire.protocol import Message, response_class
from tidelog.wire.protocol.schemas import (
    add_partitions_to_txn_response,
    create_topics_response,
    describe_log_dirs_response,
    find_coordinator_response,
    offset_fetch_response,
)

# Any: each function takes the requests of its API, or a part of them.
MakeItem = Callable[[Any, Error], Any]
MakeWhole = Callable[[Any, int, Error], Message]

METADATA, API_VERSIONS = 3, 18
FIRST_FIND_OF_MANY = 4
FIRST_FETCH_OF_MANY = 8
FIRST_ADD_OF_MANY = 4
FIRST_DELETE_BY_ID = 6


def failed_answer(request: Message, version: int, error: Error) -> Message:
    """The answer of this version in which everything that was asked has failed."""
    key = request.__api_key__
    whole = WHOLE.get(key)
    if whole is not None:
        return whole(request, version, error)
    items = ITEMS.get(key)
    if items is None:
        return _top_level(request, error)
    asked, into, make = items
    wanted = getattr(request, asked) or ()
    return _response(request, **{into: [make(each, error) for each in wanted]})


def can_fail(key: int) -> bool:
    """Whether there is such an answer. Metadata is amended: without brokers it would say that the
    cluster is gone. Who is refused ApiVersions speaks an older one, which is no error."""
    if key in (METADATA, API_VERSIONS):
        return key == METADATA
    return key in WHOLE or key in ITEMS or _has_error(key)


def fail_metadata(error: Error, response: Any) -> None:
    """In place: every topic that was asked for."""
    for topic in response.topics:
        topic.error_code = error
        topic.partitions = []


def _has_error(key: int) -> bool:
    return any(row.name == "error_code" for row in response_class(key).__fields__)


def _response(request: Message, **values: object) -> Message:
    make: Callable[..., Message] = response_class(request.__api_key__)
    return make(**values)


def _top_level(request: Message, error: Error) -> Message:
    return _response(request, error_code=error)


def _create_topic(topic: Any, error: Error) -> Any:
    return create_topics_response.CreatableTopicResult(name=topic.name, error_code=error)


def _find_coordinator(request: Any, version: int, error: Error) -> Message:
    if version < FIRST_FIND_OF_MANY:
        return _response(request, error_code=error, node_id=-1, port=-1)
    found = [
        find_coordinator_response.Coordinator(key=key, error_code=error, node_id=-1, port=-1)
        for key in request.coordinator_keys
    ]
    return _response(request, coordinators=found)


def _offset_fetch(request: Any, version: int, error: Error) -> Message:
    if version < FIRST_FETCH_OF_MANY:
        topics = [_unknown_offsets(each, error) for each in request.topics or ()]
        return _response(request, error_code=error, topics=topics)
    groups = [
        offset_fetch_response.OffsetFetchResponseGroup(group_id=each.group_id, error_code=error)
        for each in request.groups
    ]
    return _response(request, groups=groups)


def _unknown_offsets(topic: Any, error: Error) -> Any:
    """The first versions have no other place for an error."""
    return offset_fetch_response.OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            offset_fetch_response.OffsetFetchResponsePartition(
                partition_index=index, committed_offset=-1, metadata="", error_code=error
            )
            for index in topic.partition_indexes
        ],
    )


def _add_partitions(request: Any, version: int, error: Error) -> Message:
    if version >= FIRST_ADD_OF_MANY:
        return _top_level(request, error)
    results = [
        add_partitions_to_txn_response.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                add_partitions_to_txn_response.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=error
                )
                for index in topic.partitions
            ],
        )
        for topic in request.v3_and_below_topics
    ]
    return _response(request, results_by_topic_v3_and_below=results)


def _delete_topics(request: Any, version: int, error: Error) -> Message:
    if version < FIRST_DELETE_BY_ID:
        results = [refused.delete_named_topic(each, error) for each in request.topic_names or ()]
    else:
        results = [refused.delete_topic(each, error) for each in request.topics or ()]
    return _response(request, responses=results)


def _log_dirs(request: Any, _version: int, error: Error) -> Message:
    result = describe_log_dirs_response.DescribeLogDirsResult(error_code=error)
    return _response(request, error_code=error, results=[result])


def _elect_leaders(request: Any, _version: int, error: Error) -> Message:
    return admin_refusals.elect_leaders(request, error, error.name)


WHOLE: dict[int, MakeWhole] = {
    9: _offset_fetch,
    10: _find_coordinator,
    20: _delete_topics,
    24: _add_partitions,
    35: _log_dirs,
    43: _elect_leaders,
}
ITEMS: dict[int, tuple[str, str, MakeItem]] = {
    0: ("topic_data", "responses", refused.produce_topic),
    1: ("topics", "responses", refused.fetch_topic),
    2: ("topics", "topics", refused.list_offsets),
    8: ("topics", "topics", refused.offset_commit),
    15: ("groups", "groups", refused.describe_group),
    19: ("topics", "topics", _create_topic),
    21: ("topics", "topics", refused.delete_records),
    23: ("topics", "topics", refused.offset_for_leader_epoch),
    28: ("topics", "topics", refused.txn_offset_commit),
    32: ("resources", "results", refused.describe_config),
    33: ("resources", "responses", refused.alter_config),
    37: ("topics", "results", refused.create_partitions),
    42: ("groups_names", "results", refused.delete_group),
    44: ("resources", "responses", refused.incremental_alter_config),
    61: ("topics", "topics", refused.describe_producers),
    65: ("transactional_ids", "transaction_states", refused.describe_transaction),
    69: ("group_ids", "groups", refused.describe_consumer_group),
    75: ("topics", "topics", refused.describe_topic_partitions),
}
"""Where the items of a request and of its answer are, and how one of them fails."""
