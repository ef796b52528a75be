"""Replay: how one metadata record changes an image, and the records that rebuild an image.

Replay decides nothing. Whoever wrote the record decided; here every node, active or standby,
controller or broker, folds the same records in the same order into the same image (kraft.md
§12, rules 11 and 17). A record that does not fit the image is our own bug on some controller:
carrying on would let nodes disagree, so replay stops the node instead.
"""

from collections.abc import Callable
from typing import Any

from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import (
    BrokerRegistration,
    MetadataImage,
    PartitionState,
    TopicState,
)
from tidelog.core.metadata.partition_index import NO_SEATS, Seats, seats
from tidelog.core.types import NO_EPOCH, NO_LEADER, PartitionId

NO_BROKER = -1
"""Names nobody in a `ProducerIds` record of a snapshot: who asked last is not part of an image."""


def replay(image: MetadataImage, record: r.MetadataRecord) -> None:
    """Apply one record. The only function that changes an image."""
    APPLY[type(record)](image, record)


def image_records(image: MetadataImage) -> tuple[r.MetadataRecord, ...]:
    """Records that turn an empty image into an equal one: the content of a snapshot.

    Brokers come before the partitions they lead, and topics before their configs, because
    replay asserts that whatever a record names exists.
    """
    records: list[r.MetadataRecord] = []
    records.extend(r.FeatureLevel(name, level) for name, level in image.features.items())
    records.extend(registration_record(broker) for broker in image.brokers.values())
    for topic in image.topics.values():
        records.append(r.Topic(topic.name, topic.topic_id))
        records.extend(partition_record(partition) for partition in topic.partitions.values())
    for (resource_type, resource_name), values in image.configs.items():
        records.extend(
            r.Config(resource_type, resource_name, name, value) for name, value in values.items()
        )
    if image.next_producer_id:
        records.append(r.ProducerIds(NO_BROKER, NO_EPOCH, image.next_producer_id))
    records.extend(
        r.UserScramCredential(user, mechanism, credential)
        for (mechanism, user), credential in image.scram_credentials.items()
    )
    records.extend(r.AccessControlEntry(acl_id, acl) for acl_id, acl in image.acls.items())
    for entity, quotas in image.client_quotas.items():
        records.extend(r.ClientQuota(entity, key, value) for key, value in quotas.items())
    records.extend(r.Foreign(*key, wire) for key, wire in image.foreign.items())
    return tuple(records)


def registration_record(broker: BrokerRegistration) -> r.RegisterBroker:
    return r.RegisterBroker(
        broker.broker_id,
        broker.incarnation_id,
        broker.broker_epoch,
        broker.endpoints,
        broker.rack,
        broker.fenced,
        broker.in_controlled_shutdown,
        broker.log_dirs,
    )


def partition_record(partition: PartitionState) -> r.Partition:
    return r.Partition(
        partition.id.partition,
        partition.id.topic_id,
        partition.replicas,
        partition.isr,
        partition.removing_replicas,
        partition.adding_replicas,
        partition.leader,
        partition.leader_recovery_state,
        partition.leader_epoch,
        partition.partition_epoch,
        partition.elr,
        partition.last_known_elr,
    )


def replay_register_broker(image: MetadataImage, record: r.RegisterBroker) -> None:
    known = image.brokers.get(record.broker_id)
    if known is not None and known.incarnation_id == record.incarnation_id:
        assert record.broker_epoch == known.broker_epoch, (
            f"broker {record.broker_id} amended its registration with epoch"
            f" {record.broker_epoch}, registered with {known.broker_epoch}"
        )
    elif known is not None:
        assert record.broker_epoch > known.broker_epoch, (
            f"broker {record.broker_id} restarted with epoch {record.broker_epoch},"
            f" not above {known.broker_epoch}"
        )
    image.brokers[record.broker_id] = BrokerRegistration(*record)
    if record.fenced:
        assert_leads_nothing(image, record.broker_id, "registered fenced")


def replay_unregister_broker(image: MetadataImage, record: r.UnregisterBroker) -> None:
    registered(image, record.broker_id, record.broker_epoch)
    assert_leads_nothing(image, record.broker_id, "unregistered")
    del image.brokers[record.broker_id]


def replay_registration_change(image: MetadataImage, record: r.BrokerRegistrationChange) -> None:
    broker = registered(image, record.broker_id, record.broker_epoch)
    assert -1 <= record.fenced <= 1, f"fenced={record.fenced} is none of -1, 0, +1"
    assert 0 <= record.in_controlled_shutdown <= 1, (
        f"in_controlled_shutdown={record.in_controlled_shutdown} is none of 0, +1"
    )
    if record.fenced:
        broker.fenced = record.fenced > 0
    if record.in_controlled_shutdown:
        broker.in_controlled_shutdown = True
    if record.log_dirs is not None:
        broker.log_dirs = record.log_dirs
    # A controlled shutdown is announced first and then drained, so it may still lead (§5.2).
    if record.fenced > 0:
        assert_leads_nothing(image, record.broker_id, "fenced")


def replay_topic(image: MetadataImage, record: r.Topic) -> None:
    assert record.topic_id not in image.topics, f"topic id {record.topic_id.hex()} exists"
    assert record.name not in image.topic_ids, (
        f"topic {record.name} is {image.topic_ids[record.name].hex()},"
        f" not {record.topic_id.hex()} too"
    )
    image.topics[record.topic_id] = TopicState(record.name, record.topic_id, {})
    image.topic_ids[record.name] = record.topic_id


def replay_remove_topic(image: MetadataImage, record: r.RemoveTopic) -> None:
    topic = known_topic(image, record.topic_id)
    for partition in topic.partitions.values():
        image.index.move(partition.id, seats_of(partition), NO_SEATS)
    del image.topics[record.topic_id]
    del image.topic_ids[topic.name]
    image.configs.pop((r.RESOURCE_TOPIC, topic.name), None)


def replay_partition(image: MetadataImage, record: r.Partition) -> None:
    topic = known_topic(image, record.topic_id)
    assert record.partition == len(topic.partitions), (
        f"topic {topic.name} has {len(topic.partitions)} partitions,"
        f" the next cannot be {record.partition}"
    )
    partition = PartitionState(
        PartitionId(record.topic_id, record.partition),
        record.replicas,
        record.isr,
        record.removing_replicas,
        record.adding_replicas,
        record.leader,
        record.leader_recovery_state,
        record.leader_epoch,
        record.partition_epoch,
        record.elr,
        record.last_known_elr,
    )
    assert record.leader_epoch <= record.partition_epoch, (
        f"{partition.id} has leader epoch {record.leader_epoch}"
        f" above partition epoch {record.partition_epoch}"
    )
    assert_consistent(image, partition)
    topic.partitions[record.partition] = partition
    image.index.move(partition.id, NO_SEATS, seats_of(partition))


def replay_partition_change(image: MetadataImage, record: r.PartitionChange) -> None:
    """Each change is a new partition epoch; a present leader field is a new leader epoch."""
    partition = known_topic(image, record.topic_id).partitions.get(record.partition)
    assert partition is not None, (
        f"partition {record.partition} of topic {record.topic_id.hex()} does not exist"
    )
    assert_epoch_bump_is_due(partition, record)
    assert_newcomers_are_active(image, partition, record)
    before = seats_of(partition)
    if record.replicas is not None:
        partition.replicas = record.replicas
    if record.isr is not None:
        partition.isr = record.isr
    if record.removing_replicas is not None:
        partition.removing_replicas = record.removing_replicas
    if record.adding_replicas is not None:
        partition.adding_replicas = record.adding_replicas
    if record.leader_recovery_state is not None:
        partition.leader_recovery_state = record.leader_recovery_state
    if record.elr is not None:
        partition.elr = record.elr
    if record.last_known_elr is not None:
        partition.last_known_elr = record.last_known_elr
    if record.leader != r.LEADER_UNCHANGED:
        partition.leader = record.leader
        partition.leader_epoch += 1
    partition.partition_epoch += 1
    assert_consistent(image, partition)
    image.index.move(partition.id, before, seats_of(partition))


def replay_config(image: MetadataImage, record: r.Config) -> None:
    resource = (record.resource_type, record.resource_name)
    if record.resource_type == r.RESOURCE_TOPIC:
        assert record.resource_name in image.topic_ids, f"no topic {record.resource_name}"
    if record.value is not None:
        image.configs.setdefault(resource, {})[record.name] = record.value
        return
    values = image.configs.get(resource, {})
    values.pop(record.name, None)
    if not values:  # no empty leftovers: a snapshot could not rebuild them
        image.configs.pop(resource, None)


def replay_feature_level(image: MetadataImage, record: r.FeatureLevel) -> None:
    """Level 0 switches a feature off."""
    assert record.level >= 0, f"feature {record.name} cannot have level {record.level}"
    if record.level:
        image.features[record.name] = record.level
    else:
        image.features.pop(record.name, None)


def replay_producer_ids(image: MetadataImage, record: r.ProducerIds) -> None:
    """Blocks never overlap because the next free id only grows (rule 19)."""
    if record.broker_id != NO_BROKER:
        registered(image, record.broker_id, record.broker_epoch)
    assert record.next_producer_id > image.next_producer_id, (
        f"next producer id {record.next_producer_id} is not above {image.next_producer_id}"
    )
    image.next_producer_id = record.next_producer_id


def replay_no_op(_image: MetadataImage, _record: r.NoOp) -> None:
    """Moves only the offset."""


def replay_clear_elr(image: MetadataImage, record: r.ClearElr) -> None:
    """A new partition epoch only where there was something to clear, as in Kafka."""
    for topic in image.topics.values():
        if record.topic_name not in ("", topic.name):
            continue
        for number, partition in topic.partitions.items():
            if partition.elr or partition.last_known_elr:
                cleared = r.PartitionChange(number, topic.topic_id, elr=(), last_known_elr=())
                replay_partition_change(image, cleared)


def replay_scram_credential(image: MetadataImage, record: r.UserScramCredential) -> None:
    image.scram_credentials[record.mechanism, record.user] = record.credential


def replay_remove_scram_credential(
    image: MetadataImage, record: r.RemoveUserScramCredential
) -> None:
    key = (record.mechanism, record.user)
    assert key in image.scram_credentials, f"user {record.user} has no {record.mechanism}"
    del image.scram_credentials[key]


def replay_access_control_entry(image: MetadataImage, record: r.AccessControlEntry) -> None:
    assert record.acl_id not in image.acls, f"access rule {record.acl_id.hex()} exists"
    image.acls[record.acl_id] = record.acl


def replay_remove_access_control_entry(
    image: MetadataImage, record: r.RemoveAccessControlEntry
) -> None:
    assert record.acl_id in image.acls, f"no access rule {record.acl_id.hex()}"
    del image.acls[record.acl_id]


def replay_client_quota(image: MetadataImage, record: r.ClientQuota) -> None:
    if record.value is not None:
        image.client_quotas.setdefault(record.entity, {})[record.key] = record.value
        return
    quotas = image.client_quotas.get(record.entity, {})
    quotas.pop(record.key, None)
    if not quotas:  # no empty leftovers, as for settings
        image.client_quotas.pop(record.entity, None)


def replay_foreign(image: MetadataImage, record: r.Foreign) -> None:
    if record.removed:
        image.foreign.pop((record.kind, record.name), None)
    else:
        image.foreign[record.kind, record.name] = record.wire


# Any: each function takes exactly the record type it is filed under.
APPLY: dict[type, Callable[[MetadataImage, Any], None]] = {
    r.RegisterBroker: replay_register_broker,
    r.UnregisterBroker: replay_unregister_broker,
    r.BrokerRegistrationChange: replay_registration_change,
    r.Topic: replay_topic,
    r.RemoveTopic: replay_remove_topic,
    r.Partition: replay_partition,
    r.PartitionChange: replay_partition_change,
    r.Config: replay_config,
    r.FeatureLevel: replay_feature_level,
    r.ProducerIds: replay_producer_ids,
    r.NoOp: replay_no_op,
    r.ClearElr: replay_clear_elr,
    r.UserScramCredential: replay_scram_credential,
    r.RemoveUserScramCredential: replay_remove_scram_credential,
    r.AccessControlEntry: replay_access_control_entry,
    r.RemoveAccessControlEntry: replay_remove_access_control_entry,
    r.ClientQuota: replay_client_quota,
    r.Foreign: replay_foreign,
}


def seats_of(partition: PartitionState) -> Seats:
    return seats(partition.leader, partition.replicas, partition.isr, partition.elr)


def known_topic(image: MetadataImage, topic_id: bytes) -> TopicState:
    topic = image.topics.get(topic_id)
    assert topic is not None, f"no topic with id {topic_id.hex()} among {len(image.topics)}"
    return topic


def registered(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerRegistration:
    broker = image.brokers.get(broker_id)
    assert broker is not None, f"broker {broker_id} is not registered"
    assert broker.broker_epoch == broker_epoch, (
        f"broker {broker_id} is registered with epoch {broker.broker_epoch}, not {broker_epoch}"
    )
    return broker


def assert_leads_nothing(image: MetadataImage, broker: int, change: str) -> None:
    """The batch that takes a broker away first takes its partitions away (rule 14)."""
    assert not image.leads_any(broker), (
        f"broker {broker} {change} while it leads {len(image.index.led_by[broker])} partitions"
    )


def assert_epoch_bump_is_due(partition: PartitionState, record: r.PartitionChange) -> None:
    """kraft.md §6.3: a new leader epoch exactly when the leader changes or a replica is dropped."""
    kept = record.replicas
    drops = kept is not None and any(replica not in kept for replica in partition.replicas)
    changes = record.leader not in (r.LEADER_UNCHANGED, partition.leader)
    bumps = record.leader != r.LEADER_UNCHANGED
    assert bumps == (drops or changes), (
        f"{partition.id} at leader epoch {partition.leader_epoch}: leader {partition.leader} ->"
        f" {record.leader}, replicas {partition.replicas} -> {record.replicas}"
    )


def assert_newcomers_are_active(
    image: MetadataImage, partition: PartitionState, record: r.PartitionChange
) -> None:
    """No fenced or departing broker is given leadership or a new seat in the ISR (rule 14)."""
    if record.leader >= 0:
        assert image.is_active(record.leader), (
            f"{partition.id} elects {record.leader} after {partition.leader}, which is not active"
        )
    for member in record.isr or ():
        assert member in partition.isr or image.is_active(member), (
            f"{partition.id}: inactive {member} joins the ISR {partition.isr}"
        )


def assert_consistent(image: MetadataImage, partition: PartitionState) -> None:
    """Rule 14, after every record."""
    name = partition.id
    replicas = partition.replicas
    assert replicas, f"{name} has {len(replicas)} replicas"
    assert_part_of_replicas(partition, "replicas", replicas)
    assert_part_of_replicas(partition, "isr", partition.isr)
    assert_part_of_replicas(partition, "elr", partition.elr)
    assert_part_of_replicas(partition, "adding", partition.adding_replicas)
    assert_part_of_replicas(partition, "removing", partition.removing_replicas)
    assert_part_of_replicas(partition, "last known", partition.last_known_elr)
    assert not any(replica in partition.isr for replica in partition.elr), (
        f"{name}: ISR {partition.isr} and ELR {partition.elr} overlap"
    )
    assert partition.leader == NO_LEADER or partition.leader in partition.isr, (
        f"{name}: leader {partition.leader} is not in the ISR {partition.isr}"
    )
    assert partition.leader == NO_LEADER or partition.leader in image.brokers, (
        f"{name}: leader {partition.leader} is none of {len(image.brokers)} registered brokers"
    )


def assert_part_of_replicas(partition: PartitionState, role: str, members: tuple[int, ...]) -> None:
    assert len(set(members)) == len(members), f"{partition.id}: {role} {members} repeats a broker"
    for member in members:
        assert member in partition.replicas, (
            f"{partition.id}: {role} {members} names {member}, not of {partition.replicas}"
        )
