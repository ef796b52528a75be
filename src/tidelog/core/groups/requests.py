"""What clients ask a group coordinator, and what they are told: plain values.

Ids that have to be unique are made by the shell and come in with the request.
"""

from typing import NamedTuple

from tidelog.core.coordination import TopicPartition
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.groups.records import CommittedOffset, TopicPartitions
from tidelog.core.types import NO_EPOCH, NO_OFFSET

UNKNOWN_MEMBER = ""
NO_GENERATION = -1


class ClientName(NamedTuple):
    client_id: str
    client_host: str


# -- the classic protocol


class JoinProtocol(NamedTuple):
    name: str
    metadata: bytes


class JoinGroup(NamedTuple):
    group_id: str
    member_id: str
    """UNKNOWN_MEMBER for one that comes for the first time."""
    instance_id: str | None
    client: ClientName
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[JoinProtocol, ...]
    fresh_member_id: str
    """Made by the shell; used if the member has none."""
    needs_known_member_id: bool
    """v4 and later: a dynamic member is first given an id, and comes back with it."""
    may_skip_assignment: bool
    """v9: a static leader that came back may be told not to assign again."""


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResponse(NamedTuple):
    error: Error
    member_id: str = UNKNOWN_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()
    """For the leader only."""


class SyncGroup(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    """None if the request is too old to say."""
    protocol: str | None
    assignments: tuple[tuple[str, bytes], ...]


class SyncResponse(NamedTuple):
    error: Error
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Heartbeat(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


class HeartbeatResponse(NamedTuple):
    error: Error


class Leaver(NamedTuple):
    member_id: str
    instance_id: str | None
    reason: str | None = None


class LeaveGroup(NamedTuple):
    group_id: str
    members: tuple[Leaver, ...]


class LeaveResponse(NamedTuple):
    """`errors` has one entry per leaver, in their order; empty if `error` speaks for all."""

    error: Error
    errors: tuple[Error, ...] = ()


class ConnectionLost(NamedTuple):
    """A hint of the shell, nobody waits for an answer: the other side closed the connection
    through which this member spoke last. Static members are left alone."""

    group_id: str
    member_id: str
    client_is_there: bool
    """Whether its client (address and client id) has another connection here, or opened one
    since. It may change, and is told again then."""


class CallerGone(NamedTuple):
    """The same for a request that was not answered yet: nobody will read the answer."""

    group_id: str
    caller: object
    """The token of that request."""


# -- the consumer protocol (KIP-848)


class ConsumerHeartbeat(NamedTuple):
    group_id: str
    member_id: str
    member_epoch: int
    """0 joins, -1 leaves, -2 leaves for a while (static)."""
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    """-1: as before. The same holds for None below."""
    client: ClientName
    subscribed_topics: tuple[str, ...] | None
    subscribed_regex: str | None
    server_assignor: str | None
    owned: TopicPartitions | None
    fresh_member_id: str


class ConsumerHeartbeatResponse(NamedTuple):
    error: Error
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: TopicPartitions | None = None
    """None: nothing changed since the last answer."""


# -- offsets


class NewOffset(NamedTuple):
    partition: TopicPartition
    value: CommittedOffset


class CommitOffsets(NamedTuple):
    group_id: str
    member_id: str
    generation: int
    """Or the member epoch of the consumer protocol. NO_GENERATION with UNKNOWN_MEMBER: a
    consumer that assigns its partitions itself."""
    instance_id: str | None
    offsets: tuple[NewOffset, ...]
    knows_epochs: bool = True
    """Whether its sender was written with KIP-848 in mind, and knows the errors of that."""


class CommitTransactionalOffsets(NamedTuple):
    """TxnOffsetCommit: the offsets count when the producer's transaction commits."""

    group_id: str
    member_id: str
    generation: int
    instance_id: str | None
    producer_id: int
    producer_epoch: int
    offsets: tuple[NewOffset, ...]


class CommitResponse(NamedTuple):
    """`errors` has one entry per offset, in their order; empty if `error` speaks for all."""

    error: Error
    errors: tuple[Error, ...] = ()


class FetchOffsets(NamedTuple):
    group_id: str
    member_id: str | None
    member_epoch: int
    partitions: tuple[TopicPartition, ...] | None
    """None: all there are."""
    require_stable: bool


class FetchedOffset(NamedTuple):
    partition: TopicPartition
    error: Error = NO_ERROR
    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH
    metadata: str = ""


class FetchOffsetsResponse(NamedTuple):
    error: Error
    offsets: tuple[FetchedOffset, ...] = ()


class DeleteOffsets(NamedTuple):
    group_id: str
    partitions: tuple[TopicPartition, ...]


class DeleteOffsetsResponse(NamedTuple):
    """As in CommitResponse."""

    error: Error
    errors: tuple[Error, ...] = ()


class ForgetPartitions(NamedTuple):
    """A topic is deleted: no group keeps offsets of it. Nobody waits for an answer."""

    topic: str


# -- looking at groups


class DescribeGroup(NamedTuple):
    """DescribeGroups, one group."""

    group_id: str


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client: ClientName
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    error: Error
    state: str = "Dead"
    """Kafka's words: Empty, PreparingRebalance, CompletingRebalance, Stable, Dead."""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


class DescribeConsumerGroup(NamedTuple):
    """ConsumerGroupDescribe, one group."""

    group_id: str


class DescribedConsumer(NamedTuple):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client: ClientName
    subscribed_topics: tuple[str, ...]
    subscribed_regex: str | None
    assignment: TopicPartitions
    target: TopicPartitions


class DescribedConsumerGroup(NamedTuple):
    error: Error
    message: str | None = None
    state: str = ""
    """Kafka's words: Empty, Assigning, Reconciling, Stable, Dead."""
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()


class ListGroups(NamedTuple):
    """All groups of this shard; the shell filters and joins shards."""


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    group_type: str
    """classic or consumer."""


class ListGroupsResponse(NamedTuple):
    error: Error
    groups: tuple[ListedGroup, ...] = ()


class DeleteGroup(NamedTuple):
    group_id: str


class DeleteGroupResponse(NamedTuple):
    error: Error
