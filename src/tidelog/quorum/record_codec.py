"""Records of the metadata log: between the core's types and Kafka's (kraft.md §3).

A record is always written in the same version, the newest that says something the core knows:
the same record gives the same bytes on every node. What the core does not keep (features of a
broker, directories of a replica) is written empty, which Kafka reads as "not told".
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tidelog.core.metadata import records as r
from tidelog.core.security.acls import Acl
from tidelog.core.security.quota_keys import entity_of
from tidelog.core.security.scram import ScramCredential
from tidelog.quorum.foreign_records import read_foreign
from tidelog.wire.protocol import (
    Message,
    ProtocolError,
    UnsupportedVersion,
    decode_record,
    encode_record,
)
from tidelog.wire.protocol import metadata_schemas as s
from tidelog.wire.records import InvalidRecord, UnknownRecord


class RecordForm(NamedTuple):
    """How one kind of record is written and read."""

    message: type[Message]
    version: int
    to_wire: Callable[[Any], Message]  # Any: each takes the one type it is filed under
    from_wire: Callable[[Any], r.MetadataRecord]


def encode_metadata(record: r.MetadataRecord) -> bytes:
    """The value of a record in the log."""
    if isinstance(record, r.Foreign):
        return record.wire
    form = FORMS[type(record)]
    return encode_record(form.to_wire(record), form.version)


def decode_metadata(value: bytes) -> r.MetadataRecord:
    """InvalidRecord if the value is damaged, UnknownRecord if this release does not know it."""
    try:
        message, version = decode_record(value)
    except UnsupportedVersion as reason:
        raise UnknownRecord(f"{reason}: not known to this release") from reason
    except ProtocolError as reason:
        raise InvalidRecord(f"metadata record: {reason}") from reason
    from_wire = READERS.get(type(message))
    if from_wire is None:
        foreign = read_foreign(message, value)
        if foreign is not None:
            return foreign
        raise UnknownRecord(f"{type(message).__name__} v{version}: not known to this release")
    return from_wire(message)


def _some(values: tuple[int, ...]) -> tuple[int, ...] | None:
    """An ELR is written only where there is one (KIP-966)."""
    return values or None


def _optional(values: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)


def _register_broker(record: r.RegisterBroker) -> Message:
    return s.RegisterBrokerRecord(
        broker_id=record.broker_id,
        incarnation_id=record.incarnation_id,
        broker_epoch=record.broker_epoch,
        end_points=[
            s.Endpoint(
                name=each.name,
                host=each.host,
                port=each.port,
                security_protocol=each.security_protocol,
            )
            for each in record.endpoints
        ],
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=record.log_dirs,
    )


def _read_register_broker(message: s.RegisterBrokerRecord) -> r.RegisterBroker:
    return r.RegisterBroker(
        message.broker_id,
        message.incarnation_id,
        message.broker_epoch,
        tuple(
            r.Endpoint(each.name, each.host, each.port, each.security_protocol)
            for each in message.end_points
        ),
        message.rack,
        message.fenced,
        message.in_controlled_shutdown,
        tuple(message.log_dirs),
    )


def _registration_change(record: r.BrokerRegistrationChange) -> Message:
    assert record.log_dirs != (), f"{record}: no directories at all cannot be written as a change"
    return s.BrokerRegistrationChangeRecord(
        broker_id=record.broker_id,
        broker_epoch=record.broker_epoch,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=record.log_dirs or (),
    )


def _read_registration_change(
    message: s.BrokerRegistrationChangeRecord,
) -> r.BrokerRegistrationChange:
    return r.BrokerRegistrationChange(
        message.broker_id,
        message.broker_epoch,
        message.fenced,
        message.in_controlled_shutdown,
        tuple(message.log_dirs) or None,
    )


def _partition(record: r.Partition) -> Message:
    return s.PartitionRecord(
        partition_id=record.partition,
        topic_id=record.topic_id,
        replicas=record.replicas,
        isr=record.isr,
        removing_replicas=record.removing_replicas,
        adding_replicas=record.adding_replicas,
        leader=record.leader,
        leader_recovery_state=record.leader_recovery_state,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        eligible_leader_replicas=_some(record.elr),
        last_known_elr=_some(record.last_known_elr),
    )


def _read_partition(message: s.PartitionRecord) -> r.Partition:
    return r.Partition(
        message.partition_id,
        message.topic_id,
        tuple(message.replicas),
        tuple(message.isr),
        tuple(message.removing_replicas),
        tuple(message.adding_replicas),
        message.leader,
        message.leader_recovery_state,
        message.leader_epoch,
        message.partition_epoch,
        tuple(message.eligible_leader_replicas or ()),
        tuple(message.last_known_elr or ()),
    )


_STATE_UNCHANGED = -1


def _partition_change(record: r.PartitionChange) -> Message:
    state = record.leader_recovery_state
    return s.PartitionChangeRecord(
        partition_id=record.partition,
        topic_id=record.topic_id,
        isr=record.isr,
        leader=record.leader,
        replicas=record.replicas,
        removing_replicas=record.removing_replicas,
        adding_replicas=record.adding_replicas,
        leader_recovery_state=_STATE_UNCHANGED if state is None else state,
        eligible_leader_replicas=record.elr,
        last_known_elr=record.last_known_elr,
    )


def _read_partition_change(message: s.PartitionChangeRecord) -> r.PartitionChange:
    state = message.leader_recovery_state
    return r.PartitionChange(
        message.partition_id,
        message.topic_id,
        _optional(message.isr),
        message.leader,
        _optional(message.replicas),
        _optional(message.removing_replicas),
        _optional(message.adding_replicas),
        None if state == _STATE_UNCHANGED else state,
        _optional(message.eligible_leader_replicas),
        _optional(message.last_known_elr),
    )


def _unregister_broker(record: r.UnregisterBroker) -> Message:
    return s.UnregisterBrokerRecord(broker_id=record.broker_id, broker_epoch=record.broker_epoch)


def _read_unregister_broker(message: s.UnregisterBrokerRecord) -> r.UnregisterBroker:
    return r.UnregisterBroker(message.broker_id, message.broker_epoch)


def _topic(record: r.Topic) -> Message:
    return s.TopicRecord(name=record.name, topic_id=record.topic_id)


def _read_topic(message: s.TopicRecord) -> r.Topic:
    return r.Topic(message.name, message.topic_id)


def _remove_topic(record: r.RemoveTopic) -> Message:
    return s.RemoveTopicRecord(topic_id=record.topic_id)


def _read_remove_topic(message: s.RemoveTopicRecord) -> r.RemoveTopic:
    return r.RemoveTopic(message.topic_id)


def _config(record: r.Config) -> Message:
    return s.ConfigRecord(
        resource_type=record.resource_type,
        resource_name=record.resource_name,
        name=record.name,
        value=record.value,
    )


def _read_config(message: s.ConfigRecord) -> r.Config:
    return r.Config(message.resource_type, message.resource_name, message.name, message.value)


def _feature_level(record: r.FeatureLevel) -> Message:
    return s.FeatureLevelRecord(name=record.name, feature_level=record.level)


def _read_feature_level(message: s.FeatureLevelRecord) -> r.FeatureLevel:
    return r.FeatureLevel(message.name, message.feature_level)


def _producer_ids(record: r.ProducerIds) -> Message:
    return s.ProducerIdsRecord(
        broker_id=record.broker_id,
        broker_epoch=record.broker_epoch,
        next_producer_id=record.next_producer_id,
    )


def _read_producer_ids(message: s.ProducerIdsRecord) -> r.ProducerIds:
    return r.ProducerIds(message.broker_id, message.broker_epoch, message.next_producer_id)


def _no_op(_record: r.NoOp) -> Message:
    return s.NoOpRecord()


def _read_no_op(_message: s.NoOpRecord) -> r.NoOp:
    return r.NoOp()


def _clear_elr(record: r.ClearElr) -> Message:
    return s.ClearElrRecord(topic_name=record.topic_name)


def _read_clear_elr(message: s.ClearElrRecord) -> r.ClearElr:
    return r.ClearElr(message.topic_name)


def _scram_credential(record: r.UserScramCredential) -> Message:
    salt, stored_key, server_key, iterations = record.credential
    return s.UserScramCredentialRecord(
        name=record.user,
        mechanism=record.mechanism,
        salt=salt,
        stored_key=stored_key,
        server_key=server_key,
        iterations=iterations,
    )


def _read_scram_credential(message: s.UserScramCredentialRecord) -> r.UserScramCredential:
    credential = ScramCredential(
        bytes(message.salt),
        bytes(message.stored_key),
        bytes(message.server_key),
        message.iterations,
    )
    return r.UserScramCredential(message.name, message.mechanism, credential)


def _remove_scram_credential(record: r.RemoveUserScramCredential) -> Message:
    return s.RemoveUserScramCredentialRecord(name=record.user, mechanism=record.mechanism)


def _read_remove_scram_credential(
    message: s.RemoveUserScramCredentialRecord,
) -> r.RemoveUserScramCredential:
    return r.RemoveUserScramCredential(message.name, message.mechanism)


def _access_control_entry(record: r.AccessControlEntry) -> Message:
    acl = record.acl
    return s.AccessControlEntryRecord(
        id=record.acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _read_access_control_entry(message: s.AccessControlEntryRecord) -> r.AccessControlEntry:
    acl = Acl(
        message.resource_type,
        message.resource_name,
        message.pattern_type,
        message.principal,
        message.host,
        message.operation,
        message.permission_type,
    )
    return r.AccessControlEntry(message.id, acl)


def _remove_access_control_entry(record: r.RemoveAccessControlEntry) -> Message:
    return s.RemoveAccessControlEntryRecord(id=record.acl_id)


def _read_remove_access_control_entry(
    message: s.RemoveAccessControlEntryRecord,
) -> r.RemoveAccessControlEntry:
    return r.RemoveAccessControlEntry(message.id)


def _client_quota(record: r.ClientQuota) -> Message:
    return s.ClientQuotaRecord(
        entity=[s.QuotaEntity(entity_type=kind, entity_name=name) for kind, name in record.entity],
        key=record.key,
        value=record.value or 0.0,
        remove=record.value is None,
    )


def _read_client_quota(message: s.ClientQuotaRecord) -> r.ClientQuota:
    entity = entity_of((each.entity_type, each.entity_name) for each in message.entity)
    return r.ClientQuota(entity, message.key, None if message.remove else message.value)


FORMS: dict[type, RecordForm] = {
    r.RegisterBroker: RecordForm(
        s.RegisterBrokerRecord, 3, _register_broker, _read_register_broker
    ),
    r.UnregisterBroker: RecordForm(
        s.UnregisterBrokerRecord, 0, _unregister_broker, _read_unregister_broker
    ),
    r.BrokerRegistrationChange: RecordForm(
        s.BrokerRegistrationChangeRecord, 2, _registration_change, _read_registration_change
    ),
    r.Topic: RecordForm(s.TopicRecord, 0, _topic, _read_topic),
    r.RemoveTopic: RecordForm(s.RemoveTopicRecord, 0, _remove_topic, _read_remove_topic),
    r.Partition: RecordForm(s.PartitionRecord, 2, _partition, _read_partition),
    r.PartitionChange: RecordForm(
        s.PartitionChangeRecord, 2, _partition_change, _read_partition_change
    ),
    r.Config: RecordForm(s.ConfigRecord, 0, _config, _read_config),
    r.FeatureLevel: RecordForm(s.FeatureLevelRecord, 0, _feature_level, _read_feature_level),
    r.ProducerIds: RecordForm(s.ProducerIdsRecord, 0, _producer_ids, _read_producer_ids),
    r.NoOp: RecordForm(s.NoOpRecord, 0, _no_op, _read_no_op),
    r.ClearElr: RecordForm(s.ClearElrRecord, 0, _clear_elr, _read_clear_elr),
    r.UserScramCredential: RecordForm(
        s.UserScramCredentialRecord, 0, _scram_credential, _read_scram_credential
    ),
    r.RemoveUserScramCredential: RecordForm(
        s.RemoveUserScramCredentialRecord,
        0,
        _remove_scram_credential,
        _read_remove_scram_credential,
    ),
    r.AccessControlEntry: RecordForm(
        s.AccessControlEntryRecord, 0, _access_control_entry, _read_access_control_entry
    ),
    r.RemoveAccessControlEntry: RecordForm(
        s.RemoveAccessControlEntryRecord,
        0,
        _remove_access_control_entry,
        _read_remove_access_control_entry,
    ),
    r.ClientQuota: RecordForm(s.ClientQuotaRecord, 0, _client_quota, _read_client_quota),
}
READERS = {form.message: form.from_wire for form in FORMS.values()}
