"""What brokers, clients and the active controller say to each other, as plain values.

`wire` knows how these look as bytes; the state machines only see these shapes.
"""

from typing import NamedTuple

from tidelog.core.errors import Error
from tidelog.core.security.acls import Acl, AclFilter
from tidelog.core.security.quota_keys import Entity
from tidelog.core.security.scram import ScramCredential
from tidelog.core.types import NO_EPOCH, NO_LEADER, PartitionId


class RegisterBrokerRequest(NamedTuple):
    broker_id: int
    cluster_id: str
    incarnation_id: bytes
    rack: str | None = None
    log_dirs: tuple[bytes, ...] = ()
    previous_broker_epoch: int = NO_EPOCH
    endpoints: tuple[tuple[str, str, int], ...] = ()


class RegisterBrokerResponse(NamedTuple):
    error: Error
    broker_epoch: int = NO_EPOCH


class HeartbeatRequest(NamedTuple):
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False


class HeartbeatResponse(NamedTuple):
    error: Error
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


class IsrMember(NamedTuple):
    broker_id: int
    broker_epoch: int


class IsrProposal(NamedTuple):
    """One partition of an AlterPartition request: the in-sync set its leader asks for."""

    partition: PartitionId
    leader_epoch: int
    partition_epoch: int
    isr: tuple[IsrMember, ...]
    leader_recovery_state: int = 0


class AlterPartitionRequest(NamedTuple):
    broker_id: int
    broker_epoch: int
    proposals: tuple[IsrProposal, ...]


class IsrResult(NamedTuple):
    partition: PartitionId
    error: Error
    leader: int = NO_LEADER
    leader_epoch: int = NO_EPOCH
    isr: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    partition_epoch: int = NO_EPOCH


class AlterPartitionResponse(NamedTuple):
    """`error` is for the whole request; then `results` is empty."""

    error: Error
    results: tuple[IsrResult, ...] = ()


class CreateTopicRequest(NamedTuple):
    """-1 takes the configured default; `assignment` gives the replicas of each partition."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignment: tuple[tuple[int, ...], ...] = ()
    configs: tuple[tuple[str, str], ...] = ()
    validate_only: bool = False


class CreateTopicResponse(NamedTuple):
    """The numbers are those of the topic, also when the request left them to the defaults."""

    error: Error
    message: str = ""
    topic_id: bytes = b""
    partitions: int = -1
    replication_factor: int = -1


class DeleteTopicRequest(NamedTuple):
    """By id if there is one: a topic that was created again under the name is another one."""

    name: str
    topic_id: bytes = b""


class CreatePartitionsRequest(NamedTuple):
    name: str
    total: int
    assignment: tuple[tuple[int, ...], ...] = ()
    validate_only: bool = False


class AlterConfigRequest(NamedTuple):
    """`value=None` deletes. All changes of one request apply together or not at all."""

    resource_type: int
    resource_name: str
    changes: tuple[tuple[str, str | None], ...]
    validate_only: bool = False


ELECT_PREFERRED = 0
ELECT_UNCLEAN = 1


class ElectLeadersRequest(NamedTuple):
    election_type: int
    partitions: tuple[PartitionId, ...] | None = None


class ElectLeadersResponse(NamedTuple):
    error: Error
    results: tuple[tuple[PartitionId, Error], ...] = ()


class AlterReassignmentRequest(NamedTuple):
    """`replicas=None` cancels a reassignment in progress."""

    partition: PartitionId
    replicas: tuple[int, ...] | None
    may_change_replication_factor: bool = True


class AllocateProducerIdsRequest(NamedTuple):
    broker_id: int
    broker_epoch: int


class AllocateProducerIdsResponse(NamedTuple):
    error: Error
    start: int = -1
    size: int = 0


class UnregisterBrokerRequest(NamedTuple):
    broker_id: int


class UpdateFeaturesRequest(NamedTuple):
    """Levels that this release can do. All of them are set together."""

    levels: tuple[tuple[str, int], ...]


class AlterScramRequest(NamedTuple):
    """Passwords of one user by mechanism; None removes one. All of them together or none."""

    user: str
    changes: tuple[tuple[int, ScramCredential | None], ...]


class CreateAclsRequest(NamedTuple):
    """All of them together: somebody who is given two rights never has one of them alone."""

    acls: tuple[Acl, ...]


class DeleteAclsRequest(NamedTuple):
    filters: tuple[AclFilter, ...]


class DeleteAclsResponse(NamedTuple):
    error: Error
    message: str = ""
    removed: tuple[tuple[Acl, ...], ...] = ()
    """By filter."""


class AlterQuotaRequest(NamedTuple):
    """`value=None` removes. All changes of one entity apply together or not at all."""

    entity: Entity
    changes: tuple[tuple[str, float | None], ...]
    validate_only: bool = False


class AdminResponse(NamedTuple):
    """Answer of the admin requests that only succeed or fail."""

    error: Error
    message: str = ""


ControllerRequest = (
    RegisterBrokerRequest
    | HeartbeatRequest
    | AlterPartitionRequest
    | CreateTopicRequest
    | DeleteTopicRequest
    | CreatePartitionsRequest
    | AlterConfigRequest
    | ElectLeadersRequest
    | AlterReassignmentRequest
    | AllocateProducerIdsRequest
    | UnregisterBrokerRequest
    | UpdateFeaturesRequest
    | AlterScramRequest
    | CreateAclsRequest
    | DeleteAclsRequest
    | AlterQuotaRequest
)
ControllerResponse = (
    RegisterBrokerResponse
    | HeartbeatResponse
    | AlterPartitionResponse
    | CreateTopicResponse
    | ElectLeadersResponse
    | AllocateProducerIdsResponse
    | DeleteAclsResponse
    | AdminResponse
)
