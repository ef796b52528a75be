"""The records of `__consumer_offsets` and `__transaction_state`, with the types and versions of
Kafka 4.3.

Written by hand: kio has none of them. A key is a number that names its type, then the key itself;
a value is its version, then the value. Kafka's own tools read what stands there.
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class OffsetCommitKey(Message, key=1, valid="0"):
    group: str = field("string", default="")
    topic: str = field("string", default="")
    partition: int = field("int32", default=0)


class OffsetCommitValue(Message, key=1, valid="0-4", flexible="4+"):
    offset: int = field("int64", default=0)
    leader_epoch: int = field("int32", "3+", default=-1)
    metadata: str = field("string", default="")
    commit_timestamp: int = field("int64", default=0)
    expire_timestamp: int = field("int64", "1", default=-1)
    topic_id: bytes = field("uuid", "4+", tag=0, default=ZERO_UUID)


class GroupMetadataKey(Message, key=2, valid="0"):
    group: str = field("string", default="")


class GroupMember(Struct):
    member_id: str = field("string", default="")
    group_instance_id: str | None = field("string", "3+", nullable="3+", default=None)
    client_id: str = field("string", default="")
    client_host: str = field("string", default="")
    rebalance_timeout: int = field("int32", "1+", default=0)
    session_timeout: int = field("int32", default=0)
    subscription: bytes = field("bytes", default=b"")
    assignment: bytes = field("bytes", default=b"")


class GroupMetadataValue(Message, key=2, valid="0-4", flexible="4+"):
    protocol_type: str = field("string", default="")
    generation: int = field("int32", default=0)
    protocol: str | None = field("string", nullable="0+", default=None)
    leader: str | None = field("string", nullable="0+", default=None)
    current_state_timestamp: int = field("int64", "2+", default=-1)
    members: Sequence[GroupMember] = field([GroupMember], default=())


class ConsumerGroupMetadataKey(Message, key=3, valid="0"):
    group_id: str = field("string", default="")


class ConsumerGroupMetadataValue(Message, key=3, valid="0", flexible="0+"):
    epoch: int = field("int32", default=0)
    metadata_hash: int = field("int64", tag=0, default=0)


class ConsumerGroupMemberMetadataKey(Message, key=5, valid="0"):
    group_id: str = field("string", default="")
    member_id: str = field("string", default="")


class ConsumerGroupMemberMetadataValue(Message, key=5, valid="0", flexible="0+"):
    instance_id: str | None = field("string", nullable="0+", default=None)
    rack_id: str | None = field("string", nullable="0+", default=None)
    client_id: str = field("string", default="")
    client_host: str = field("string", default="")
    subscribed_topic_names: Sequence[str] = field(["string"], default=())
    subscribed_topic_regex: str | None = field("string", nullable="0+", default=None)
    rebalance_timeout_ms: int = field("int32", default=-1)
    server_assignor: str | None = field("string", nullable="0+", default=None)
    # Tag 0 is for members that speak the classic protocol in such a group. We have none, and a
    # tag that is not described here is skipped.


class ConsumerGroupTargetAssignmentMetadataKey(Message, key=6, valid="0"):
    group_id: str = field("string", default="")


class ConsumerGroupTargetAssignmentMetadataValue(Message, key=6, valid="0", flexible="0+"):
    assignment_epoch: int = field("int32", default=0)
    assignment_timestamp: int = field("int64", tag=0, default=0)


class AssignedTopic(Struct):
    topic_id: bytes = field("uuid", default=ZERO_UUID)
    partitions: Sequence[int] = field(["int32"], default=())


class ConsumerGroupTargetAssignmentMemberKey(Message, key=7, valid="0"):
    group_id: str = field("string", default="")
    member_id: str = field("string", default="")


class ConsumerGroupTargetAssignmentMemberValue(Message, key=7, valid="0", flexible="0+"):
    topic_partitions: Sequence[AssignedTopic] = field([AssignedTopic], default=())


class ConsumerGroupCurrentMemberAssignmentKey(Message, key=8, valid="0"):
    group_id: str = field("string", default="")
    member_id: str = field("string", default="")


class HeldTopic(Struct):
    topic_id: bytes = field("uuid", default=ZERO_UUID)
    partitions: Sequence[int] = field(["int32"], default=())
    assignment_epochs: Sequence[int] | None = field(["int32"], nullable="0+", tag=0, default=None)


class ConsumerGroupCurrentMemberAssignmentValue(Message, key=8, valid="0", flexible="0+"):
    member_epoch: int = field("int32", default=0)
    previous_member_epoch: int = field("int32", default=0)
    state: int = field("int8", default=0)
    assigned_partitions: Sequence[HeldTopic] = field([HeldTopic], default=())
    partitions_pending_revocation: Sequence[HeldTopic] = field([HeldTopic], default=())


class TransactionLogKey(Message, key=0, valid="0"):
    transactional_id: str = field("string", default="")


class TransactionTopic(Struct):
    topic: str = field("string", default="")
    partition_ids: Sequence[int] = field(["int32"], default=())


class TransactionLogValue(Message, key=0, valid="0-1", flexible="1+"):
    producer_id: int = field("int64", default=-1)
    previous_producer_id: int = field("int64", "1+", tag=0, default=-1)
    next_producer_id: int = field("int64", "1+", tag=1, default=-1)
    producer_epoch: int = field("int16", default=-1)
    transaction_timeout_ms: int = field("int32", default=0)
    transaction_status: int = field("int8", default=0)
    transaction_partitions: Sequence[TransactionTopic] | None = field(
        [TransactionTopic], nullable="0+", default=None
    )
    transaction_last_update_timestamp_ms: int = field("int64", default=-1)
    transaction_start_timestamp_ms: int = field("int64", default=-1)
    client_transaction_version: int = field("int16", "1+", tag=2, default=0)
    next_producer_epoch: int = field("int16", "1+", tag=3, default=-1)
