"""Guards of requests that have a shape of their own."""

from functools import partial
from typing import Any

from tidelog.core.errors import Error
from tidelog.core.security.acls import CLUSTER_NAME, Operation, ResourceType
from tidelog.rpc.authorization.gate import ERROR_OF, Gate
from tidelog.rpc.authorization.guards import extend, split, top_level
from tidelog.rpc.authorization.item_refusals import offset_for_leader_epoch as refused_epoch
from tidelog.rpc.calls import AmendedCall, Call
from tidelog.wire.protocol.schemas import (
    add_partitions_to_txn_response,
    create_topics_response,
    find_coordinator_response,
    init_producer_id_response,
    offset_fetch_response,
)

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, TRANSACTION = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
DESCRIBE = Operation.DESCRIBE

FIRST_FIND_OF_MANY = 4
FIRST_FETCH_OF_MANY = 8
FIRST_FETCH_WITH_ERROR = 2
FIRST_ADD_OF_MANY = 4
OF_GROUP, OF_TRANSACTION = 0, 1
"""What a coordinator is looked for."""

CONFIG_RESOURCES = {2: TOPIC, 32: GROUP}
"""Settings of topics and groups belong to them, all others to the cluster."""


def find_coordinator(gate: Gate, call: Call) -> Call | None:
    request: Any = call.request
    kind = GROUP if request.key_type == OF_GROUP else TRANSACTION

    def is_allowed(key: str) -> bool:
        if request.key_type in (OF_GROUP, OF_TRANSACTION):
            return gate.allows(call, DESCRIBE, kind, key)
        return gate.allows_on_cluster(call, Operation.CLUSTER_ACTION)

    error = ERROR_OF[kind]
    if request.key_type not in (OF_GROUP, OF_TRANSACTION):
        error = Error.CLUSTER_AUTHORIZATION_FAILED
    if call.version >= FIRST_FIND_OF_MANY:
        return split(
            call,
            "coordinator_keys",
            "coordinators",
            is_allowed,
            lambda key: find_coordinator_response.Coordinator(
                key=key, error_code=error, node_id=-1, port=-1
            ),
        )
    if is_allowed(request.key):
        return call
    call.answer(
        find_coordinator_response.FindCoordinatorResponse(error_code=error, node_id=-1, port=-1)
    )
    return None


# ---- offsets


def offset_fetch(gate: Gate, call: Call) -> Call | None:
    request: Any = call.request
    if call.version >= FIRST_FETCH_OF_MANY:
        return _offset_fetch_of_many(gate, call)
    if not gate.allows(call, DESCRIBE, GROUP, request.group_id):
        error = Error.GROUP_AUTHORIZATION_FAILED
        told_above = call.version >= FIRST_FETCH_WITH_ERROR
        topics = [] if told_above else [_unknown_offsets(each, error) for each in request.topics]
        call.answer(
            offset_fetch_response.OffsetFetchResponse(
                topics=topics, error_code=error if told_above else Error.NONE
            )
        )
        return None
    refused = _without_hidden(gate, call, request)
    return AmendedCall(call, partial(_complete, gate, call, request.topics is None, refused))


def _without_hidden(gate: Gate, call: Call, asked: Any) -> list[Any]:
    """Takes topics that may not be seen out of what is asked for, and returns their answers."""
    if asked.topics is None:
        return []
    hidden = [each for each in asked.topics if not _may_describe(gate, call, each)]
    if hidden:
        asked.topics = [each for each in asked.topics if each not in hidden]
    make = _unknown_offsets if not hasattr(asked, "member_epoch") else _unknown_offsets_of_many
    return [make(each, Error.TOPIC_AUTHORIZATION_FAILED) for each in hidden]


def _complete(gate: Gate, call: Call, asked_for_all: bool, refused: list[Any], answer: Any) -> None:
    """Of an answer, or of the part of it that is about one group."""
    if asked_for_all:
        answer.topics = [each for each in answer.topics if _may_see(gate, call, each)]
    elif refused:
        extend("topics", refused, answer)


def _may_describe(gate: Gate, call: Call, topic: Any) -> bool:
    name = gate.name_of(topic)
    return name is None or gate.allows(call, DESCRIBE, TOPIC, name)


def _may_see(gate: Gate, call: Call, topic: Any) -> bool:
    name = gate.name_of(topic)
    return name is None or gate.would_allow(call, DESCRIBE, TOPIC, name)


def _offset_fetch_of_many(gate: Gate, call: Call) -> Call | None:
    request: Any = call.request
    refused = {}
    asked_for_all = {}
    for group in request.groups:
        if gate.allows(call, DESCRIBE, GROUP, group.group_id):
            asked_for_all[group.group_id] = group.topics is None
            refused[group.group_id] = _without_hidden(gate, call, group)

    def complete(response: Any) -> None:
        for group in response.groups:
            if group.group_id in refused:
                all_of_it = asked_for_all[group.group_id]
                _complete(gate, call, all_of_it, refused[group.group_id], group)

    amended = AmendedCall(call, complete) if refused else call
    return split(
        amended,
        "groups",
        "groups",
        lambda group: group.group_id in refused,
        lambda group: offset_fetch_response.OffsetFetchResponseGroup(
            group_id=group.group_id, error_code=Error.GROUP_AUTHORIZATION_FAILED
        ),
    )


def _unknown_offsets(topic: Any, error: Error) -> Any:
    return offset_fetch_response.OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            offset_fetch_response.OffsetFetchResponsePartition(
                partition_index=index, committed_offset=-1, metadata="", error_code=error
            )
            for index in topic.partition_indexes
        ],
    )


def _unknown_offsets_of_many(topic: Any, error: Error) -> Any:
    return offset_fetch_response.OffsetFetchResponseTopics(
        topic_id=topic.topic_id,
        name=topic.name,
        partitions=[
            offset_fetch_response.OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, metadata="", error_code=error
            )
            for index in topic.partition_indexes
        ],
    )


def offset_for_leader_epoch(gate: Gate, call: Call) -> Call | None:
    """Replicas ask as the cluster, consumers for topics that they may describe."""
    if gate.would_allow(call, Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME):
        return call
    return split(
        call,
        "topics",
        "topics",
        lambda topic: gate.allows(call, DESCRIBE, TOPIC, topic.topic),
        lambda topic: refused_epoch(topic, Error.TOPIC_AUTHORIZATION_FAILED),
    )


# ---- producers and transactions


def init_producer_id(gate: Gate, call: Call) -> Call | None:
    request: Any = call.request
    caller = call.caller
    if request.transactional_id is not None:
        error = Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        allowed = gate.allows(call, Operation.WRITE, TRANSACTION, request.transactional_id)
    else:
        error = Error.CLUSTER_AUTHORIZATION_FAILED
        allowed = gate.authorizer.allows_some(
            caller.principal, caller.host, Operation.WRITE, TOPIC
        ) or gate.allows_on_cluster(call, Operation.IDEMPOTENT_WRITE)
    if allowed:
        return call
    call.answer(init_producer_id_response.InitProducerIdResponse(error_code=error, producer_id=-1))
    return None


def add_partitions_to_txn(gate: Gate, call: Call) -> Call | None:
    """Many transactions at once are added by brokers only, which ask for their clients."""
    request: Any = call.request
    if call.version >= FIRST_ADD_OF_MANY:
        if gate.allows_on_cluster(call, Operation.CLUSTER_ACTION):
            return call
        error = Error.CLUSTER_AUTHORIZATION_FAILED
        call.answer(add_partitions_to_txn_response.AddPartitionsToTxnResponse(error_code=error))
        return None
    topics = request.v3_and_below_topics
    transaction = request.v3_and_below_transactional_id
    if not gate.allows(call, Operation.WRITE, TRANSACTION, transaction):
        errors = dict.fromkeys(
            (topic.name for topic in topics), Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
    else:
        errors = {
            topic.name: Error.OPERATION_NOT_ATTEMPTED
            if gate.allows(call, Operation.WRITE, TOPIC, topic.name)
            else Error.TOPIC_AUTHORIZATION_FAILED
            for topic in topics
        }
        if Error.TOPIC_AUTHORIZATION_FAILED not in errors.values():
            return call
    results = [_not_added(topic, errors[topic.name]) for topic in topics]
    call.answer(
        add_partitions_to_txn_response.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=results
        )
    )
    return None


def _not_added(topic: Any, error: Error) -> Any:
    return add_partitions_to_txn_response.AddPartitionsToTxnTopicResult(
        name=topic.name,
        results_by_partition=[
            add_partitions_to_txn_response.AddPartitionsToTxnPartitionResult(
                partition_index=index, partition_error_code=error
            )
            for index in topic.partitions
        ],
    )


def hidden_topics_of_transactions(gate: Gate, call: Call) -> Call | None:
    def hide(response: Any) -> None:
        for state in response.transaction_states:
            state.topics = [
                each for each in state.topics if gate.would_allow(call, DESCRIBE, TOPIC, each.topic)
            ]

    return AmendedCall(call, hide)


# ---- topics and settings


def create_topics(gate: Gate, call: Call) -> Call | None:
    """On the cluster or on the topic. Its settings are told to whoever may see them."""
    for_all = gate.would_allow(call, Operation.CREATE, CLUSTER, CLUSTER_NAME)

    def hide(response: Any) -> None:
        for topic in response.topics:
            if topic.error_code == Error.NONE and not gate.would_allow(
                call, Operation.DESCRIBE_CONFIGS, TOPIC, topic.name
            ):
                topic.topic_config_error_code = Error.TOPIC_AUTHORIZATION_FAILED
                topic.configs = None
                topic.num_partitions = topic.replication_factor = -1

    return split(
        AmendedCall(call, hide),
        "topics",
        "topics",
        lambda topic: for_all or gate.allows(call, Operation.CREATE, TOPIC, topic.name),
        lambda topic: create_topics_response.CreatableTopicResult(
            name=topic.name, error_code=Error.TOPIC_AUTHORIZATION_FAILED
        ),
    )


def settings(operation: int, into: str, refused: Any) -> Any:
    """A guard for the settings of many resources."""

    def guard(gate: Gate, call: Call) -> Call | None:
        def is_allowed(resource: Any) -> bool:
            kind = CONFIG_RESOURCES.get(resource.resource_type, CLUSTER)
            name = CLUSTER_NAME if kind == CLUSTER else resource.resource_name
            return gate.allows(call, operation, kind, name)

        def refuse(resource: Any) -> Any:
            kind = CONFIG_RESOURCES.get(resource.resource_type, CLUSTER)
            return refused(resource, ERROR_OF[kind])

        return split(call, "resources", into, is_allowed, refuse)

    return guard


# ---- groups


def subscribed_topics(gate: Gate, call: Call) -> Call | None:
    """A member may subscribe to topics that it may describe."""
    request: Any = call.request
    names = request.subscribed_topic_names or ()
    if all(gate.allows(call, DESCRIBE, TOPIC, name) for name in names):
        return call
    call.answer(top_level(request, Error.TOPIC_AUTHORIZATION_FAILED))
    return None


def seen_groups(gate: Gate, call: Call) -> Call | None:
    """All of them for whoever may describe the cluster, else those that he may describe."""
    if gate.would_allow(call, DESCRIBE, CLUSTER, CLUSTER_NAME):
        return call

    def hide(response: Any) -> None:
        response.groups = [
            each
            for each in response.groups
            if gate.would_allow(call, DESCRIBE, GROUP, each.group_id)
        ]

    return AmendedCall(call, hide)


def topics_of_groups(gate: Gate, call: Call) -> Call | None:
    """A group with topics that the caller may not describe is not described, as in Kafka."""

    def names(member: Any) -> list[str]:
        parts = (*member.assignment.topic_partitions, *member.target_assignment.topic_partitions)
        return [*member.subscribed_topic_names, *(each.topic_name for each in parts)]

    def hide(response: Any) -> None:
        for group in response.groups:
            told = [name for member in group.members for name in names(member)]
            if not all(gate.would_allow(call, DESCRIBE, TOPIC, name) for name in told):
                group.error_code = Error.TOPIC_AUTHORIZATION_FAILED
                group.error_message = "The group has topics that the client may not describe."
                group.members = []

    return AmendedCall(call, hide)
