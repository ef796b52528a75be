"""Entries of the metadata log, with the fields and defaults of Kafka's records.

A record says what changed, never why. Replaying the same records in the same order gives
the same image on every node.
"""

from typing import NamedTuple

from tidelog.core.security.acls import Acl
from tidelog.core.security.quota_keys import Entity
from tidelog.core.security.scram import ScramCredential
from tidelog.core.types import NO_LEADER

RECOVERED = 0
RECOVERING = 1

LEADER_UNCHANGED = -2
"""`PartitionChange.leader` when the leader and the leader epoch stay as they are."""


class Endpoint(NamedTuple):
    name: str
    host: str
    port: int
    security_protocol: int = 0


class RegisterBroker(NamedTuple):
    broker_id: int
    incarnation_id: bytes
    broker_epoch: int
    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[bytes, ...] = ()


class UnregisterBroker(NamedTuple):
    broker_id: int
    broker_epoch: int


class BrokerRegistrationChange(NamedTuple):
    """`fenced`: +1 fence, -1 unfence, 0 unchanged; `in_controlled_shutdown`: +1 or 0."""

    broker_id: int
    broker_epoch: int
    fenced: int = 0
    in_controlled_shutdown: int = 0
    log_dirs: tuple[bytes, ...] | None = None


class Topic(NamedTuple):
    name: str
    topic_id: bytes


class RemoveTopic(NamedTuple):
    topic_id: bytes


class Partition(NamedTuple):
    partition: int
    topic_id: bytes
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader: int = NO_LEADER
    leader_recovery_state: int = RECOVERED
    leader_epoch: int = 0
    partition_epoch: int = 0
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


class PartitionChange(NamedTuple):
    """Absent fields (`None`, `LEADER_UNCHANGED`) stay as they are; every change raises the
    partition epoch by one, a present `leader` also raises the leader epoch by one."""

    partition: int
    topic_id: bytes
    isr: tuple[int, ...] | None = None
    leader: int = LEADER_UNCHANGED
    replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    leader_recovery_state: int | None = None
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4
RESOURCE_CLIENT_METRICS = 16
RESOURCE_GROUP = 32


class Config(NamedTuple):
    """`value=None` deletes the entry. A broker resource named "" is the cluster default."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


class FeatureLevel(NamedTuple):
    name: str
    level: int


class ProducerIds(NamedTuple):
    broker_id: int
    broker_epoch: int
    next_producer_id: int


class NoOp(NamedTuple):
    """Keeps an idle log moving, so that observers can tell idle from cut off."""


class ClearElr(NamedTuple):
    """Nobody outside the ISR is eligible any more: a minimum of replicas in sync has changed.
    No name: in all topics. Kafka writes it, we do not."""

    topic_name: str


class UserScramCredential(NamedTuple):
    """What replaces the password of a user for one mechanism (`ScramMechanism`'s number)."""

    user: str
    mechanism: int
    credential: ScramCredential


class RemoveUserScramCredential(NamedTuple):
    user: str
    mechanism: int


class AccessControlEntry(NamedTuple):
    acl_id: bytes
    acl: Acl


class RemoveAccessControlEntry(NamedTuple):
    acl_id: bytes


class ClientQuota(NamedTuple):
    """`value=None` removes it."""

    entity: Entity
    key: str
    value: float | None


class Foreign(NamedTuple):
    """Something that Kafka keeps in its metadata and that means nothing here: kept as it is, so
    that nothing is lost when the directory goes back to Kafka. `wire` is Kafka's record."""

    kind: str
    name: str
    wire: bytes
    removed: bool = False


MetadataRecord = (
    RegisterBroker
    | UnregisterBroker
    | BrokerRegistrationChange
    | Topic
    | RemoveTopic
    | Partition
    | PartitionChange
    | Config
    | FeatureLevel
    | ProducerIds
    | NoOp
    | ClearElr
    | UserScramCredential
    | RemoveUserScramCredential
    | AccessControlEntry
    | RemoveAccessControlEntry
    | ClientQuota
    | Foreign
)
