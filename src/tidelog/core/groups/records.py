"""What a group coordinator writes to `__consumer_offsets`, as values.

`coordinators.group_records` knows how these look as bytes (Kafka's own formats). A record with
the value None is a tombstone: the key is forgotten.
"""

from typing import NamedTuple

from tidelog.core.coordination import TopicPartition


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    """Wall clock: it is written down and must mean the same to the next coordinator."""


class OffsetCommit(NamedTuple):
    group_id: str
    partition: TopicPartition
    value: CommittedOffset | None


class ClassicMemberValue(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class ClassicGroupValue(NamedTuple):
    """A generation of a classic group, as it was agreed on."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[ClassicMemberValue, ...]


class ClassicGroup(NamedTuple):
    group_id: str
    value: ClassicGroupValue | None


# -- the consumer protocol (KIP-848)

TopicPartitions = tuple[tuple[bytes, tuple[int, ...]], ...]
"""(topic id, partitions), sorted: what a member has or shall have."""


class ConsumerGroupEpoch(NamedTuple):
    group_id: str
    epoch: int | None


class ConsumerMemberValue(NamedTuple):
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]
    subscribed_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None


class ConsumerMember(NamedTuple):
    group_id: str
    member_id: str
    value: ConsumerMemberValue | None


class TargetAssignmentEpoch(NamedTuple):
    group_id: str
    epoch: int | None


class TargetAssignment(NamedTuple):
    group_id: str
    member_id: str
    partitions: TopicPartitions | None


class CurrentAssignmentValue(NamedTuple):
    member_epoch: int
    previous_member_epoch: int
    state: int
    """0 stable, 1 unrevoked partitions, 2 unreleased partitions: Kafka's numbers."""
    assigned: TopicPartitions
    pending_revocation: TopicPartitions


class CurrentAssignment(NamedTuple):
    group_id: str
    member_id: str
    value: CurrentAssignmentValue | None


GroupRecord = (
    OffsetCommit
    | ClassicGroup
    | ConsumerGroupEpoch
    | ConsumerMember
    | TargetAssignmentEpoch
    | TargetAssignment
    | CurrentAssignment
)
