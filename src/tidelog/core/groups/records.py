"""What a group coordinator writes to `__consumer_offsets`, as values.

`coordinators.group_records` knows how these look as bytes (Kafka's own formats). A record with
the value None is a tombstone: the key is forgotten.
"""

from collections.abc import Mapping
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
    given_earlier: tuple[tuple[bytes, int, int], ...] = ()
    """Topic id, partition and epoch of what was given to this member in another epoch than
    `member_epoch`, sorted (KIP-1251)."""

    def epochs(self) -> dict[tuple[bytes, int], int]:
        """The epoch in which each partition was given to this member."""
        usual = max(self.member_epoch, 0)
        earlier = {(topic_id, number): epoch for topic_id, number, epoch in self.given_earlier}
        return {
            (topic_id, number): earlier.get((topic_id, number), usual)
            for some in (self.assigned, self.pending_revocation)
            for topic_id, numbers in some
            for number in numbers
        }

    def given_in(self, epochs: Mapping[tuple[bytes, int], int]) -> "CurrentAssignmentValue":
        """The same, with what it has given in these epochs; in its own, what is not among them."""
        usual = max(self.member_epoch, 0)
        earlier = tuple(
            (*partition, epochs[partition])
            for partition in sorted(self.epochs())
            if epochs.get(partition, usual) != usual
        )
        return self._replace(given_earlier=earlier)


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
