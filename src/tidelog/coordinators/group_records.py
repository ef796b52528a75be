"""Records of `__consumer_offsets`: the core's words and Kafka's."""

from collections.abc import Sequence

from tidelog.coordinators.record_forms import Form, Forms
from tidelog.core.coordination import TopicPartition
from tidelog.core.groups import records as r
from tidelog.wire.protocol import Message
from tidelog.wire.protocol import coordinator_schemas as s


def _offset_value(record: r.OffsetCommit) -> Message | None:
    value = record.value
    if value is None:
        return None
    return s.OffsetCommitValue(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp=value.commit_timestamp_ms,
    )


def _offset(key: s.OffsetCommitKey, value: s.OffsetCommitValue | None) -> r.OffsetCommit:
    committed = None
    if value is not None:
        committed = r.CommittedOffset(
            value.offset, value.leader_epoch, value.metadata, value.commit_timestamp
        )
    return r.OffsetCommit(key.group, TopicPartition(key.topic, key.partition), committed)


def _group_value(record: r.ClassicGroup) -> Message | None:
    value = record.value
    if value is None:
        return None
    return s.GroupMetadataValue(
        protocol_type=value.protocol_type,
        generation=value.generation,
        protocol=value.protocol,
        leader=value.leader,
        current_state_timestamp=value.state_timestamp_ms,
        members=[
            s.GroupMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                rebalance_timeout=each.rebalance_timeout_ms,
                session_timeout=each.session_timeout_ms,
                subscription=each.subscription,
                assignment=each.assignment,
            )
            for each in value.members
        ],
    )


def _group(key: s.GroupMetadataKey, value: s.GroupMetadataValue | None) -> r.ClassicGroup:
    if value is None:
        return r.ClassicGroup(key.group, None)
    members = tuple(
        r.ClassicMemberValue(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            each.rebalance_timeout,
            each.session_timeout,
            bytes(each.subscription),
            bytes(each.assignment),
        )
        for each in value.members
    )
    return r.ClassicGroup(
        key.group,
        r.ClassicGroupValue(
            value.protocol_type,
            value.generation,
            value.protocol,
            value.leader,
            value.current_state_timestamp,
            members,
        ),
    )


def _member_value(record: r.ConsumerMember) -> Message | None:
    value = record.value
    if value is None:
        return None
    return s.ConsumerGroupMemberMetadataValue(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=value.subscribed_topics,
        subscribed_topic_regex=value.subscribed_regex or "",  # as Kafka writes that there is none
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
    )


def _member(
    key: s.ConsumerGroupMemberMetadataKey, value: s.ConsumerGroupMemberMetadataValue | None
) -> r.ConsumerMember:
    if value is None:
        return r.ConsumerMember(key.group_id, key.member_id, None)
    return r.ConsumerMember(
        key.group_id,
        key.member_id,
        r.ConsumerMemberValue(
            value.instance_id,
            value.rack_id,
            value.client_id,
            value.client_host,
            tuple(value.subscribed_topic_names),
            value.subscribed_topic_regex or None,
            value.rebalance_timeout_ms,
            value.server_assignor,
        ),
    )


def _to_topics(partitions: r.TopicPartitions) -> list[s.AssignedTopic]:
    return [s.AssignedTopic(topic_id=each, partitions=some) for each, some in partitions]


def _from_topics(topics: Sequence[s.AssignedTopic | s.HeldTopic]) -> r.TopicPartitions:
    return tuple((each.topic_id, tuple(each.partitions)) for each in topics)


def _current_value(record: r.CurrentAssignment) -> Message | None:
    value = record.value
    if value is None:
        return None
    epochs = value.epochs()

    def to_held(partitions: r.TopicPartitions) -> list[s.HeldTopic]:
        return [
            s.HeldTopic(
                topic_id=topic_id,
                partitions=numbers,
                assignment_epochs=[epochs[topic_id, number] for number in numbers],
            )
            for topic_id, numbers in partitions
        ]

    return s.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=value.state,
        assigned_partitions=to_held(value.assigned),
        partitions_pending_revocation=to_held(value.pending_revocation),
    )


def _epochs(topics: Sequence[s.HeldTopic]) -> dict[tuple[bytes, int], int]:
    """None before Kafka 4.3, and from members that did not say."""
    return {
        (topic.topic_id, number): epoch
        for topic in topics
        for number, epoch in zip(topic.partitions, topic.assignment_epochs or (), strict=False)
    }


def _current(
    key: s.ConsumerGroupCurrentMemberAssignmentKey,
    value: s.ConsumerGroupCurrentMemberAssignmentValue | None,
) -> r.CurrentAssignment:
    if value is None:
        return r.CurrentAssignment(key.group_id, key.member_id, None)
    assigned, revoking = value.assigned_partitions, value.partitions_pending_revocation
    current = r.CurrentAssignmentValue(
        value.member_epoch,
        value.previous_member_epoch,
        value.state,
        _from_topics(assigned),
        _from_topics(revoking),
    )
    epochs = {**_epochs(assigned), **_epochs(revoking)}
    return r.CurrentAssignment(key.group_id, key.member_id, current.given_in(epochs))


def _epoch_value(record: r.ConsumerGroupEpoch) -> Message | None:
    return None if record.epoch is None else s.ConsumerGroupMetadataValue(epoch=record.epoch)


def _target_epoch_value(record: r.TargetAssignmentEpoch) -> Message | None:
    if record.epoch is None:
        return None
    return s.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=record.epoch)


def _target_value(record: r.TargetAssignment) -> Message | None:
    if record.partitions is None:
        return None
    return s.ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=_to_topics(record.partitions)
    )


GROUP_RECORDS = Forms(
    {
        r.OffsetCommit: Form(
            1,
            s.OffsetCommitKey,
            s.OffsetCommitValue,
            3,
            lambda record: s.OffsetCommitKey(
                group=record.group_id,
                topic=record.partition.topic,
                partition=record.partition.partition,
            ),
            _offset_value,
            _offset,
        ),
        r.ClassicGroup: Form(
            2,
            s.GroupMetadataKey,
            s.GroupMetadataValue,
            3,
            lambda record: s.GroupMetadataKey(group=record.group_id),
            _group_value,
            _group,
        ),
        r.ConsumerGroupEpoch: Form(
            3,
            s.ConsumerGroupMetadataKey,
            s.ConsumerGroupMetadataValue,
            0,
            lambda record: s.ConsumerGroupMetadataKey(group_id=record.group_id),
            _epoch_value,
            lambda key, value: r.ConsumerGroupEpoch(key.group_id, value and value.epoch),
        ),
        r.ConsumerMember: Form(
            5,
            s.ConsumerGroupMemberMetadataKey,
            s.ConsumerGroupMemberMetadataValue,
            0,
            lambda record: s.ConsumerGroupMemberMetadataKey(
                group_id=record.group_id, member_id=record.member_id
            ),
            _member_value,
            _member,
        ),
        r.TargetAssignmentEpoch: Form(
            6,
            s.ConsumerGroupTargetAssignmentMetadataKey,
            s.ConsumerGroupTargetAssignmentMetadataValue,
            0,
            lambda record: s.ConsumerGroupTargetAssignmentMetadataKey(group_id=record.group_id),
            _target_epoch_value,
            lambda key, value: r.TargetAssignmentEpoch(
                key.group_id, value and value.assignment_epoch
            ),
        ),
        r.TargetAssignment: Form(
            7,
            s.ConsumerGroupTargetAssignmentMemberKey,
            s.ConsumerGroupTargetAssignmentMemberValue,
            0,
            lambda record: s.ConsumerGroupTargetAssignmentMemberKey(
                group_id=record.group_id, member_id=record.member_id
            ),
            _target_value,
            lambda key, value: r.TargetAssignment(
                key.group_id, key.member_id, value and _from_topics(value.topic_partitions)
            ),
        ),
        r.CurrentAssignment: Form(
            8,
            s.ConsumerGroupCurrentMemberAssignmentKey,
            s.ConsumerGroupCurrentMemberAssignmentValue,
            0,
            lambda record: s.ConsumerGroupCurrentMemberAssignmentKey(
                group_id=record.group_id, member_id=record.member_id
            ),
            _current_value,
            _current,
        ),
    },
    aliases={0: 1},  # Kafka has two numbers for an offset
)
