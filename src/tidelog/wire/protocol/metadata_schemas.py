"""The records of the metadata log (kraft.md §3), with Kafka's keys, versions and tags.

Written by hand: kio has none of them. In a change record a tagged field that is absent
means "as before", which its default says: None, -2 for a leader, 0 or -1 for a state.
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class Endpoint(Struct):
    name: str = field("string", default="")
    host: str = field("string", default="")
    port: int = field("uint16", default=0)
    security_protocol: int = field("int16", default=0)


class Feature(Struct):
    name: str = field("string", default="")
    min_supported_version: int = field("int16", default=0)
    max_supported_version: int = field("int16", default=0)


class RegisterBrokerRecord(Message, key=0, valid="0-4", flexible="0+"):
    broker_id: int = field("int32", default=0)
    is_migrating_broker: bool = field("bool", "2+", default=False)
    incarnation_id: bytes = field("uuid", default=ZERO_UUID)
    broker_epoch: int = field("int64", default=0)
    end_points: Sequence[Endpoint] = field([Endpoint], default=())
    features: Sequence[Feature] = field([Feature], default=())
    rack: str | None = field("string", nullable="0+", default=None)
    fenced: bool = field("bool", default=True)
    in_controlled_shutdown: bool = field("bool", "1+", default=False)
    log_dirs: Sequence[bytes] = field(["uuid"], "3+", tag=0, default=())
    cordoned_log_dirs: Sequence[bytes] | None = field(
        ["uuid"], "4+", nullable="4+", tag=1, default=None
    )


class UnregisterBrokerRecord(Message, key=1, valid="0", flexible="0+"):
    broker_id: int = field("int32", default=0)
    broker_epoch: int = field("int64", default=0)


class TopicRecord(Message, key=2, valid="0", flexible="0+"):
    name: str = field("string", default="")
    topic_id: bytes = field("uuid", default=ZERO_UUID)


class PartitionRecord(Message, key=3, valid="0-2", flexible="0+"):
    partition_id: int = field("int32", default=-1)
    topic_id: bytes = field("uuid", default=ZERO_UUID)
    replicas: Sequence[int] = field(["int32"], default=())
    isr: Sequence[int] = field(["int32"], default=())
    removing_replicas: Sequence[int] = field(["int32"], default=())
    adding_replicas: Sequence[int] = field(["int32"], default=())
    leader: int = field("int32", default=-1)
    leader_recovery_state: int = field("int8", tag=0, default=0)
    leader_epoch: int = field("int32", default=-1)
    partition_epoch: int = field("int32", default=-1)
    directories: Sequence[bytes] = field(["uuid"], "1+", default=())
    eligible_leader_replicas: Sequence[int] | None = field(
        ["int32"], "2+", nullable="2+", tag=1, default=None
    )
    last_known_elr: Sequence[int] | None = field(
        ["int32"], "2+", nullable="2+", tag=2, default=None
    )


class ConfigRecord(Message, key=4, valid="0", flexible="0+"):
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")
    name: str = field("string", default="")
    value: str | None = field("string", nullable="0+", default=None)


class PartitionChangeRecord(Message, key=5, valid="0-2", flexible="0+"):
    partition_id: int = field("int32", default=-1)
    topic_id: bytes = field("uuid", default=ZERO_UUID)
    isr: Sequence[int] | None = field(["int32"], nullable="0+", tag=0, default=None)
    leader: int = field("int32", tag=1, default=-2)
    replicas: Sequence[int] | None = field(["int32"], nullable="0+", tag=2, default=None)
    removing_replicas: Sequence[int] | None = field(["int32"], nullable="0+", tag=3, default=None)
    adding_replicas: Sequence[int] | None = field(["int32"], nullable="0+", tag=4, default=None)
    leader_recovery_state: int = field("int8", tag=5, default=-1)
    directories: Sequence[bytes] | None = field(["uuid"], "1+", nullable="1+", tag=8, default=None)
    eligible_leader_replicas: Sequence[int] | None = field(
        ["int32"], "2+", nullable="2+", tag=6, default=None
    )
    last_known_elr: Sequence[int] | None = field(
        ["int32"], "2+", nullable="2+", tag=7, default=None
    )


class FenceBrokerRecord(Message, key=7, valid="0", flexible="0+"):
    id: int = field("int32", default=0)
    epoch: int = field("int64", default=0)


class UnfenceBrokerRecord(Message, key=8, valid="0", flexible="0+"):
    id: int = field("int32", default=0)
    epoch: int = field("int64", default=0)


class RemoveTopicRecord(Message, key=9, valid="0", flexible="0+"):
    topic_id: bytes = field("uuid", default=ZERO_UUID)


class DelegationTokenRecord(Message, key=10, valid="0", flexible="0+"):
    owner: str = field("string", default="")
    requester: str = field("string", default="")
    renewers: Sequence[str] = field(["string"], default=())
    issue_timestamp: int = field("int64", default=0)
    max_timestamp: int = field("int64", default=0)
    expiration_timestamp: int = field("int64", default=0)
    token_id: str = field("string", default="")


class UserScramCredentialRecord(Message, key=11, valid="0", flexible="0+"):
    name: str = field("string", default="")
    mechanism: int = field("int8", default=0)
    salt: bytes = field("bytes", default=b"")
    stored_key: bytes = field("bytes", default=b"")
    server_key: bytes = field("bytes", default=b"")
    iterations: int = field("int32", default=0)


class FeatureLevelRecord(Message, key=12, valid="0", flexible="0+"):
    name: str = field("string", default="")
    feature_level: int = field("int16", default=0)


class QuotaEntity(Struct):
    entity_type: str = field("string", default="")
    entity_name: str | None = field("string", nullable="0+", default=None)


class ClientQuotaRecord(Message, key=14, valid="0", flexible="0+"):
    entity: Sequence[QuotaEntity] = field([QuotaEntity], default=())
    key: str = field("string", default="")
    value: float = field("float64", default=0.0)
    remove: bool = field("bool", default=False)


class ProducerIdsRecord(Message, key=15, valid="0", flexible="0+"):
    broker_id: int = field("int32", default=0)
    broker_epoch: int = field("int64", default=-1)
    next_producer_id: int = field("int64", default=0)


class BrokerRegistrationChangeRecord(Message, key=17, valid="0-3", flexible="0+"):
    broker_id: int = field("int32", default=0)
    broker_epoch: int = field("int64", default=0)
    fenced: int = field("int8", tag=0, default=0)
    in_controlled_shutdown: int = field("int8", "1+", tag=1, default=0)
    log_dirs: Sequence[bytes] = field(["uuid"], "2+", tag=2, default=())
    cordoned_log_dirs: Sequence[bytes] | None = field(
        ["uuid"], "3+", nullable="3+", tag=3, default=None
    )


class AccessControlEntryRecord(Message, key=18, valid="0", flexible="0+"):
    id: bytes = field("uuid", default=ZERO_UUID)
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")
    pattern_type: int = field("int8", default=0)
    principal: str = field("string", default="")
    host: str = field("string", default="")
    operation: int = field("int8", default=0)
    permission_type: int = field("int8", default=0)


class RemoveAccessControlEntryRecord(Message, key=19, valid="0", flexible="0+"):
    id: bytes = field("uuid", default=ZERO_UUID)


class NoOpRecord(Message, key=20, valid="0", flexible="0+"):
    pass


class MigrationStateRecord(Message, key=21, valid="0", flexible="0+"):
    migration_state: int = field("int8", default=0)


class RemoveUserScramCredentialRecord(Message, key=22, valid="0", flexible="0+"):
    name: str = field("string", default="")
    mechanism: int = field("int8", default=0)


class BeginTransactionRecord(Message, key=23, valid="0", flexible="0+"):
    name: str | None = field("string", nullable="0+", tag=0, default=None)


class EndTransactionRecord(Message, key=24, valid="0", flexible="0+"):
    pass


class AbortTransactionRecord(Message, key=25, valid="0", flexible="0+"):
    reason: str | None = field("string", nullable="0+", tag=0, default=None)


class RemoveDelegationTokenRecord(Message, key=26, valid="0", flexible="0+"):
    token_id: str = field("string", default="")


class RegisterControllerRecord(Message, key=27, valid="0", flexible="0+"):
    controller_id: int = field("int32", default=0)
    incarnation_id: bytes = field("uuid", default=ZERO_UUID)
    migration_ready: bool = field("bool", default=False)
    end_points: Sequence[Endpoint] = field([Endpoint], default=())
    features: Sequence[Feature] = field([Feature], default=())


class ClearElrRecord(Message, key=28, valid="0", flexible="0+"):
    topic_name: str = field("string", default="")


RECORDS: tuple[type[Message], ...] = (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    TopicRecord,
    PartitionRecord,
    ConfigRecord,
    PartitionChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    RemoveTopicRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
    FeatureLevelRecord,
    ClientQuotaRecord,
    ProducerIdsRecord,
    BrokerRegistrationChangeRecord,
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    NoOpRecord,
    MigrationStateRecord,
    RemoveUserScramCredentialRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    AbortTransactionRecord,
    RemoveDelegationTokenRecord,
    RegisterControllerRecord,
    ClearElrRecord,
)
