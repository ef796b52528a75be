"""Everything visible that can happen, as values.

Logs, metrics, stories, traces, the lab and the console all render these same values, so
they can never disagree. An event is a fact: nothing in `core` reads one back.
"""

from typing import NamedTuple

from tidelog.core.types import PartitionId


class RecordsAppended(NamedTuple):
    partition: PartitionId
    broker: int
    base_offset: int
    next_offset: int
    leader_epoch: int


class HighWatermarkAdvanced(NamedTuple):
    partition: PartitionId
    broker: int
    previous: int
    high_watermark: int


class HighWatermarkLowered(NamedTuple):
    """A follower learned of a lower high watermark from a newer leader."""

    partition: PartitionId
    broker: int
    previous: int
    high_watermark: int


class BecameLeader(NamedTuple):
    partition: PartitionId
    broker: int
    leader_epoch: int
    start_offset: int
    high_watermark: int


class BecameFollower(NamedTuple):
    partition: PartitionId
    broker: int
    leader: int
    leader_epoch: int


class IsrProposed(NamedTuple):
    partition: PartitionId
    broker: int
    isr: tuple[int, ...]
    proposed: tuple[int, ...]


class IsrChanged(NamedTuple):
    """The leader adopted a committed in-sync set."""

    partition: PartitionId
    broker: int
    previous: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int


class FetchDiverged(NamedTuple):
    partition: PartitionId
    broker: int
    replica: int
    fetch_offset: int
    last_fetched_epoch: int
    end_epoch: int
    end_offset: int


class LogTruncated(NamedTuple):
    partition: PartitionId
    broker: int
    previous_end: int
    log_end_offset: int
    below_high_watermark: bool
    is_damaged: bool = False
    """It could not read its own records from there on, and fetches them again from the leader."""


class LogDeleted(NamedTuple):
    """Metadata no longer places this replica here, or its topic is gone."""

    partition: PartitionId
    broker: int
    log_end_offset: int


class StraySetAside(NamedTuple):
    """A log that metadata does not place here: its records are kept and not served."""

    partition: PartitionId
    broker: int
    directory: str


class LeaderElected(NamedTuple):
    """The controller decided: who leads from now on (-1: nobody can)."""

    partition: PartitionId
    previous: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    unclean: bool


class IsrCommitted(NamedTuple):
    """The metadata log holds a new in-sync set, or a new set of eligible leader replicas."""

    partition: PartitionId
    previous: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    partition_epoch: int


class BrokerRegistered(NamedTuple):
    broker: int
    broker_epoch: int


class BrokerFenced(NamedTuple):
    broker: int
    broker_epoch: int


class BrokerUnfenced(NamedTuple):
    broker: int
    broker_epoch: int


class ControlledShutdownStarted(NamedTuple):
    broker: int
    broker_epoch: int


class QuorumLeaderElected(NamedTuple):
    node: int
    leader_epoch: int
    start_offset: int


class QuorumRoleChanged(NamedTuple):
    node: int
    previous: str
    role: str
    leader_epoch: int


class ControllerClaimed(NamedTuple):
    node: int
    controller_epoch: int


class ControllerRenounced(NamedTuple):
    node: int
    controller_epoch: int


class GroupStateChanged(NamedTuple):
    """A consumer group went on to another state; Kafka's words for them."""

    group_id: str
    state: str
    generation: int
    members: int
    reason: str


class MemberLeft(NamedTuple):
    group_id: str
    member_id: str
    reason: str


class TransactionAborted(NamedTuple):
    """By its coordinator; the markers follow. What producers decide themselves is no news."""

    transactional_id: str
    producer_id: int
    partitions: int
    reason: str


class FindingRaised(NamedTuple):
    """A problem of this node that lasts (`host.findings`)."""

    kind: str
    subject: str
    problem: str


class FindingCleared(NamedTuple):
    kind: str
    subject: str


class AccessDenied(NamedTuple):
    """Somebody was refused something, so many times since this was last told."""

    principal: str
    host: str
    api: str
    operation: str
    resource: str
    times: int = 1


class AdministrativeChange(NamedTuple):
    """The active controller carried out what somebody asked for."""

    principal: str
    host: str
    api: str
    subject: str


Event = (
    RecordsAppended
    | HighWatermarkAdvanced
    | HighWatermarkLowered
    | BecameLeader
    | BecameFollower
    | IsrProposed
    | IsrChanged
    | FetchDiverged
    | LogTruncated
    | LogDeleted
    | StraySetAside
    | LeaderElected
    | IsrCommitted
    | BrokerRegistered
    | BrokerFenced
    | BrokerUnfenced
    | ControlledShutdownStarted
    | QuorumLeaderElected
    | QuorumRoleChanged
    | ControllerClaimed
    | ControllerRenounced
    | GroupStateChanged
    | MemberLeft
    | TransactionAborted
    | AccessDenied
    | AdministrativeChange
    | FindingRaised
    | FindingCleared
)
