"""Topics are created, grow and are removed (kraft.md §8.1).

A topic appears with all of its settings and partitions in one atomic batch, or not at all.
"""

from collections.abc import Callable

from tidelog.core.errors import Error
from tidelog.core.metadata import partition_change, placement, reassignment
from tidelog.core.metadata.decision import Decision, View
from tidelog.core.metadata.image import MetadataImage, TopicState
from tidelog.core.metadata.placement import Draw, PlacementBroker
from tidelog.core.metadata.records import (
    RESOURCE_TOPIC,
    Config,
    MetadataRecord,
    Partition,
    RemoveTopic,
    Topic,
)
from tidelog.core.metadata.refusal import RefusedError
from tidelog.core.metadata.topic_configs import check_config, check_together
from tidelog.core.metadata.topic_names import check_topic_name, colliding_topic
from tidelog.core.requests import (
    AdminResponse,
    CreatePartitionsRequest,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteTopicRequest,
)

USE_DEFAULT = -1

Assignments = tuple[tuple[int, ...], ...]


class TopicError(RefusedError):
    """The topic cannot be created or changed like that."""


def decide_create_topic(
    view: View, request: CreateTopicRequest, draw: Draw, make_uuid: Callable[[], bytes]
) -> Decision:
    try:
        check_name(view.image, request.name)
        check_configs(request.configs)
        assignments = new_topic_assignments(view, request, draw)
        topic_id = make_uuid()
        partitions = new_partitions(view.image, topic_id, 0, assignments)
    except RefusedError as refused:
        return Decision(CreateTopicResponse(refused.error, refused.reason))
    response = CreateTopicResponse(
        Error.NONE, partitions=len(assignments), replication_factor=len(assignments[0])
    )
    if request.validate_only:
        return Decision(response)
    assert topic_id not in view.image.topics, f"topic id {topic_id.hex()} was drawn twice"
    records: list[MetadataRecord] = [Topic(request.name, topic_id)]
    records.extend(Config(RESOURCE_TOPIC, request.name, *setting) for setting in request.configs)
    records.extend(partitions)
    return Decision(response._replace(topic_id=topic_id), tuple(records))


def decide_create_partitions(view: View, request: CreatePartitionsRequest, draw: Draw) -> Decision:
    topic = topic_named(view.image, request.name)
    if topic is None:
        return unknown_topic(request.name)
    try:
        assignments = added_assignments(view, topic, request, draw)
        first = len(topic.partitions)
        records = new_partitions(view.image, topic.topic_id, first, assignments)
    except RefusedError as refused:
        return Decision(AdminResponse(refused.error, refused.reason))
    return Decision(AdminResponse(Error.NONE), () if request.validate_only else tuple(records))


def decide_delete_topic(view: View, request: DeleteTopicRequest) -> Decision:
    """One record takes the partitions and settings along. A new topic of the same name has
    another id, so nothing of the old one can be mistaken for it (T26)."""
    if request.topic_id:
        topic = view.image.topics.get(request.topic_id)
        if topic is None:
            reason = f"there is no topic with the id {request.topic_id.hex()}"
            return Decision(AdminResponse(Error.UNKNOWN_TOPIC_ID, reason))
    else:
        topic = topic_named(view.image, request.name)
        if topic is None:
            return unknown_topic(request.name)
    return Decision(AdminResponse(Error.NONE), (RemoveTopic(topic.topic_id),))


def topic_named(image: MetadataImage, name: str) -> TopicState | None:
    topic_id = image.topic_ids.get(name)
    return None if topic_id is None else image.topics[topic_id]


def unknown_topic(name: str) -> Decision:
    return Decision(AdminResponse(Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}"))


def check_name(image: MetadataImage, name: str) -> None:
    reason = check_topic_name(name)
    if reason is not None:
        raise TopicError(Error.INVALID_TOPIC_EXCEPTION, reason)
    if name in image.topic_ids:
        raise TopicError(Error.TOPIC_ALREADY_EXISTS, f"topic {name} exists")
    other = colliding_topic(name, image.topic_ids)
    if other is not None:
        raise TopicError(
            Error.INVALID_TOPIC_EXCEPTION, f"{name} and {other} would share their metrics"
        )


def check_configs(configs: tuple[tuple[str, str], ...]) -> None:
    values = dict(configs)
    if len(values) != len(configs):
        raise TopicError(Error.INVALID_CONFIG, "a setting is named twice")
    for name, value in configs:
        reason = check_config(name, value)
        if reason is not None:
            raise TopicError(Error.INVALID_CONFIG, reason)
    reason = check_together(values)
    if reason is not None:
        raise TopicError(Error.INVALID_CONFIG, reason)


def new_topic_assignments(view: View, request: CreateTopicRequest, draw: Draw) -> Assignments:
    if request.assignment:
        if request.partitions != USE_DEFAULT or request.replication_factor != USE_DEFAULT:
            raise TopicError(
                Error.INVALID_REQUEST, "an assignment leaves no choice of partitions or replicas"
            )
        check_batch_size(view, len(request.assignment) + len(request.configs))
        check_assignments(view.image, request.assignment, len(request.assignment[0]))
        return request.assignment
    settings = view.settings
    count = request.partitions
    if count == USE_DEFAULT:
        count = settings.default_partitions
    if count < 1:
        raise TopicError(Error.INVALID_PARTITIONS, f"a topic cannot have {count} partitions")
    check_batch_size(view, count + len(request.configs))
    replication_factor = request.replication_factor
    if replication_factor == USE_DEFAULT:
        replication_factor = settings.default_replication_factor
    return placement.place(placement_brokers(view.image), count, replication_factor, draw)


def added_assignments(
    view: View, topic: TopicState, request: CreatePartitionsRequest, draw: Draw
) -> Assignments:
    count = request.total - len(topic.partitions)
    if count <= 0:
        raise TopicError(
            Error.INVALID_PARTITIONS,
            f"topic {topic.name} has {len(topic.partitions)} partitions and can only grow,"
            f" not to {request.total}",
        )
    check_batch_size(view, count)
    first = topic.partitions[0]
    replication_factor = len(reassignment.excluding(first.replicas, first.removing_replicas))
    if not request.assignment:
        return placement.place(placement_brokers(view.image), count, replication_factor, draw)
    if len(request.assignment) != count:
        raise TopicError(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"{count} partitions are added and {len(request.assignment)} are assigned",
        )
    check_assignments(view.image, request.assignment, replication_factor)
    return request.assignment


def check_batch_size(view: View, records: int) -> None:
    """A topic is one batch, and a batch has a limit. Checked before anything is built."""
    limit = view.settings.max_records_per_batch - 1
    if records > limit:
        raise TopicError(
            Error.POLICY_VIOLATION,
            f"{records} partitions and settings at once, {limit} are possible:"
            " add partitions later",
        )


def check_assignments(
    image: MetadataImage, assignments: Assignments, replication_factor: int
) -> None:
    for replicas in assignments:
        reassignment.check_target(replicas, image.brokers.__contains__)
        if len(replicas) != replication_factor:
            raise TopicError(
                Error.INVALID_REPLICA_ASSIGNMENT,
                f"{list(replicas)} has {len(replicas)} replicas, others {replication_factor}",
            )


def placement_brokers(image: MetadataImage) -> list[PlacementBroker]:
    """Sorted, because brokers come in another order from a snapshot than from the log."""
    return [
        PlacementBroker(broker.broker_id, broker.rack, broker.fenced)
        for _, broker in sorted(image.brokers.items())
        if not broker.in_controlled_shutdown
    ]


def new_partitions(
    image: MetadataImage, topic_id: bytes, first: int, assignments: Assignments
) -> list[Partition]:
    """Raises PlacementError when nobody could lead one of them."""
    return [
        partition_change.new_partition(topic_id, first + index, replicas, image.is_active)
        for index, replicas in enumerate(assignments)
    ]
