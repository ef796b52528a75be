"""Records in, image out: the same on every node, and from a snapshot as from the log."""

from random import Random

import pytest

from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.partition_index import NO_SEATS, PartitionIndex
from tidelog.core.metadata.replay import image_records, replay, seats_of
from tidelog.core.security.acls import Acl
from tidelog.core.security.scram import ScramCredential
from tidelog.core.types import PartitionId

QUOTA_OF_ANN = (("user", "ann"),)
TOPIC = b"T" * 16
P0 = PartitionId(TOPIC, 0)


def replayed(*records: r.MetadataRecord) -> MetadataImage:
    image = MetadataImage()
    for record in records:
        replay(image, record)
    return image


def brokers(*ids: int) -> list[r.MetadataRecord]:
    return [r.RegisterBroker(b, b"inc%d" % b, 10 + b, fenced=False) for b in ids]


def one_partition() -> MetadataImage:
    return replayed(
        *brokers(1, 2, 3),
        r.Topic("orders", TOPIC),
        r.Partition(0, TOPIC, (1, 2, 3), (1, 2, 3), leader=1),
    )


def rebuilt(image: MetadataImage) -> MetadataImage:
    return replayed(*image_records(image))


def obvious_index(image: MetadataImage) -> PartitionIndex:
    index = PartitionIndex()
    for partition in image.partitions():
        index.move(partition.id, NO_SEATS, seats_of(partition))
    return index


def test_a_partition_change_raises_the_partition_epoch_and_only_a_leader_the_leader_epoch() -> None:
    image = one_partition()
    partition = image.partition(P0)
    assert partition is not None
    replay(image, r.PartitionChange(0, TOPIC, isr=(1, 2)))
    assert (partition.partition_epoch, partition.leader_epoch) == (1, 0)
    replay(image, r.PartitionChange(0, TOPIC, isr=(2,), leader=2))
    assert (partition.partition_epoch, partition.leader_epoch) == (2, 1)
    assert (partition.leader, partition.isr, partition.replicas) == (2, (2,), (1, 2, 3))


def test_a_broker_finds_its_partitions_without_a_scan() -> None:
    image = one_partition()
    replay(image, r.Partition(1, TOPIC, (2, 3), (2, 3), leader=2))
    assert [p.id.partition for p in image.partitions_in_sync_on(2)] == [0, 1]
    assert [p.id.partition for p in image.partitions_led_by(2)] == [1]
    assert image.leads_any(1)
    assert not image.leads_any(3)

    replay(image, r.PartitionChange(0, TOPIC, isr=(2,), leader=2, elr=(1,)))
    assert not image.leads_any(1)
    assert [p.id.partition for p in image.partitions_displaced_from(1)] == [0]
    assert [p.id.partition for p in image.partitions_eligible_on(1)] == [0]
    assert image.partitions_in_sync_on(1) == []
    assert [p.id.partition for p in image.partitions_replicated_by(1)] == [0]

    replay(image, r.PartitionChange(0, TOPIC, isr=(), leader=-1, elr=(1, 2), last_known_elr=(2,)))
    assert [p.id.partition for p in image.partitions_without_leader()] == [0]

    replay(image, r.RemoveTopic(TOPIC))
    assert image.index == PartitionIndex()


def test_removing_a_topic_takes_its_partitions_and_settings_along() -> None:
    image = one_partition()
    replay(image, r.Config(r.RESOURCE_TOPIC, "orders", "retention.ms", "5"))
    replay(image, r.RemoveTopic(TOPIC))
    assert image == replayed(*brokers(1, 2, 3))
    replay(image, r.Topic("orders", b"U" * 16))
    assert image.topic_config("orders", "retention.ms") is None


def test_a_topic_setting_overrides_the_cluster_default() -> None:
    image = one_partition()
    replay(image, r.Config(r.RESOURCE_BROKER, "", "min.insync.replicas", "2"))
    assert image.topic_config("orders", "min.insync.replicas") == "2"
    replay(image, r.Config(r.RESOURCE_TOPIC, "orders", "min.insync.replicas", "3"))
    assert image.topic_config("orders", "min.insync.replicas") == "3"
    replay(image, r.Config(r.RESOURCE_TOPIC, "orders", "min.insync.replicas", None))
    assert image.topic_config("orders", "min.insync.replicas") == "2"
    assert (r.RESOURCE_TOPIC, "orders") not in image.configs


def test_registration_changes_say_only_what_changed() -> None:
    image = replayed(r.RegisterBroker(1, b"a", 7, rack="A", log_dirs=(b"d",)))
    broker = image.brokers[1]
    assert not image.is_active(1)
    replay(image, r.BrokerRegistrationChange(1, 7, fenced=-1))
    assert image.is_active(1)
    replay(image, r.BrokerRegistrationChange(1, 7, in_controlled_shutdown=1))
    assert not broker.fenced
    assert not image.is_active(1)
    replay(image, r.BrokerRegistrationChange(1, 7, log_dirs=(b"e",)))
    assert (broker.fenced, broker.in_controlled_shutdown, broker.log_dirs) == (False, True, (b"e",))
    replay(image, r.RegisterBroker(1, b"b", 9))
    assert (image.brokers[1].fenced, image.brokers[1].in_controlled_shutdown) == (True, False)
    replay(image, r.UnregisterBroker(1, 9))
    assert image == MetadataImage()


def test_features_and_producer_ids() -> None:
    image = replayed(*brokers(1), r.FeatureLevel("metadata.version", 25), r.NoOp())
    replay(image, r.ProducerIds(1, 11, 1000))
    replay(image, r.FeatureLevel("eligible.leader.replicas.version", 1))
    replay(image, r.FeatureLevel("metadata.version", 0))
    assert image.features == {"eligible.leader.replicas.version": 1}
    assert image.next_producer_id == 1000
    assert rebuilt(image) == image
    replay(image, r.ProducerIds(1, 11, 2000))
    assert image.next_producer_id == 2000


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        (r.PartitionChange(0, b"?", isr=(1,)), "no topic with id"),
        (r.PartitionChange(1, TOPIC, isr=(1,)), "does not exist"),
        (r.PartitionChange(0, TOPIC, isr=(1, 4)), "inactive 4 joins the ISR"),
        (r.PartitionChange(0, TOPIC, isr=(1, 1)), "repeats a broker"),
        (r.PartitionChange(0, TOPIC, isr=(2, 3)), "leader 1 is not in the ISR"),
        (r.PartitionChange(0, TOPIC, isr=(1,), elr=(1,)), "overlap"),
        (r.PartitionChange(0, TOPIC, isr=(1,), elr=(9,)), "names 9"),
        (r.PartitionChange(0, TOPIC, leader=1), "leader 1 -> 1"),
        (r.PartitionChange(0, TOPIC, isr=(1, 2), replicas=(1, 2)), "replicas"),
        (r.PartitionChange(0, TOPIC, replicas=()), "replicas"),
        (r.PartitionChange(0, TOPIC, leader=5), "not active"),
        (r.Partition(2, TOPIC, (1,), (1,), leader=1), "the next cannot be 2"),
        (r.Partition(1, TOPIC, (8,), (8,), leader=8), "registered"),
        (r.Partition(1, TOPIC, (1,), (1,), leader=1, leader_epoch=3), "above partition epoch 0"),
        (r.Partition(0, b"?", (1,), (1,), leader=1), "no topic with id"),
        (r.Topic("orders", b"U"), "orders"),
        (r.Topic("other", TOPIC), "exists"),
        (r.RemoveTopic(b"?"), "no topic with id"),
        (r.Config(r.RESOURCE_TOPIC, "other", "retention.ms", "1"), "no topic other"),
        (r.RegisterBroker(2, b"new", 12), "not above 12"),
        (r.RegisterBroker(2, b"inc2", 13), "registered with 12"),
        (r.RegisterBroker(1, b"new", 90), "while it leads 1 partitions"),
        (r.BrokerRegistrationChange(1, 11, fenced=1), "while it leads 1 partitions"),
        (r.BrokerRegistrationChange(2, 11, fenced=1), "epoch 12, not 11"),
        (r.BrokerRegistrationChange(7, 11, fenced=1), "not registered"),
        (r.BrokerRegistrationChange(2, 12, fenced=2), "fenced=2"),
        (r.UnregisterBroker(1, 11), "while it leads"),
        (r.UnregisterBroker(3, 12), "epoch 13, not 12"),
        (r.ProducerIds(2, 11, 1000), "epoch 12, not 11"),
        (r.ProducerIds(2, 12, 0), "not above 0"),
        (r.RemoveUserScramCredential("ann", 1), "user ann has no 1"),
        (r.RemoveAccessControlEntry(b"a" * 16), "no access rule 6161"),
        (r.FeatureLevel("x", -1), "level -1"),
    ],
)
def test_a_record_that_does_not_fit_stops_the_node(
    record: r.MetadataRecord, complaint: str
) -> None:
    with pytest.raises(AssertionError, match=complaint):
        replay(one_partition(), record)


def test_a_copy_goes_its_own_way() -> None:
    image = one_partition()
    replay(image, r.Config(r.RESOURCE_TOPIC, "orders", "retention.ms", "5"))
    replay(image, r.ClientQuota(QUOTA_OF_ANN, "producer_byte_rate", 1.0))
    before = rebuilt(image)
    copy = image.copy()
    assert copy == image
    replay(copy, r.PartitionChange(0, TOPIC, isr=(2,), leader=2))
    replay(copy, r.BrokerRegistrationChange(1, 11, fenced=1))
    replay(copy, r.Config(r.RESOURCE_TOPIC, "orders", "retention.ms", "6"))
    replay(copy, r.Topic("more", b"U" * 16))
    replay(copy, r.FeatureLevel("x", 1))
    replay(copy, r.AccessControlEntry(b"a" * 16, Acl(2, "t", 3, "User:ann", "*", 3, 3)))
    replay(copy, r.UserScramCredential("ann", 1, ScramCredential(b"", b"", b"", 4096)))
    replay(copy, r.ClientQuota(QUOTA_OF_ANN, "producer_byte_rate", 2.0))
    assert image == before
    assert copy != image


def random_rule(random: Random, image: MetadataImage, step: int) -> r.MetadataRecord:
    """Users, access rules and quotas."""
    kind = random.randrange(6)
    if kind == 0 and image.acls:
        return r.RemoveAccessControlEntry(random.choice(list(image.acls)))
    if kind == 1 and image.scram_credentials:
        mechanism, user = random.choice(list(image.scram_credentials))
        return r.RemoveUserScramCredential(user, mechanism)
    if kind in (0, 2):
        acl = Acl(2, f"t{step % 3}", random.choice([3, 4]), "User:ann", "*", 3, 3)
        return r.AccessControlEntry(b"%016d" % step, acl)
    if kind in (1, 3):
        credential = ScramCredential(b"salt", b"%d" % step, b"key", 4096)
        return r.UserScramCredential(f"u{step % 3}", random.choice([1, 2]), credential)
    entity = (("client-id", random.choice([None, "c"])), ("user", "ann"))
    return r.ClientQuota(entity[step % 2 :], f"q{step % 2}", random.choice([None, 1.0, 2.0]))


def random_record(random: Random, image: MetadataImage, step: int) -> r.MetadataRecord:
    """Any record that fits the image: not what a controller would do, all that it could."""
    partitions = list(image.partitions())
    choice = random.randrange(13)
    if choice == 0 or not image.brokers:
        broker = random.randrange(5)
        if broker in image.brokers and image.leads_any(broker):
            return r.NoOp()
        return r.RegisterBroker(broker, b"%d" % step, step, rack=random.choice([None, "A"]))
    if choice == 1:
        broker = image.brokers[random.choice(list(image.brokers))]
        if image.leads_any(broker.broker_id):
            return r.BrokerRegistrationChange(broker.broker_id, broker.broker_epoch, -1, 0)
        fence = random.choice([-1, 0, 1])
        return r.BrokerRegistrationChange(broker.broker_id, broker.broker_epoch, fence, 0, (b"x",))
    if choice == 2:
        return r.Topic(f"topic-{step}", b"%016d" % step)
    if choice == 3 and image.topics:
        topic = random.choice(list(image.topics.values()))
        replicas = tuple(random.sample(range(5), 3))
        return r.Partition(len(topic.partitions), topic.topic_id, replicas, replicas[:2])
    if choice == 4 and image.topics:
        name = random.choice(list(image.topic_ids))
        return r.Config(r.RESOURCE_TOPIC, name, f"c{step % 3}", random.choice([None, "1", "2"]))
    if choice == 5 and len(image.topics) > 3:
        return r.RemoveTopic(random.choice(list(image.topics)))
    if choice == 6:
        return r.FeatureLevel(f"f{step % 3}", random.randrange(3))
    if choice >= 10:
        return random_rule(random, image, step)
    if partitions:
        partition = random.choice(partitions)
        active = [b for b in partition.replicas if image.is_active(b)]
        leader = random.choice([-1, *active])
        isr = tuple(b for b in partition.replicas if b == leader or b in partition.isr)
        return r.PartitionChange(
            partition.id.partition,
            partition.id.topic_id,
            isr=isr,
            leader=leader if leader != partition.leader else r.LEADER_UNCHANGED,
            elr=tuple(b for b in partition.replicas if b not in isr),
            last_known_elr=partition.replicas[:1],
        )
    return r.NoOp()


@pytest.mark.parametrize("seed", range(30))
def test_a_snapshot_equals_the_log_it_replaces_after_any_prefix(seed: int) -> None:
    random = Random(seed)
    image = MetadataImage()
    log: list[r.MetadataRecord] = []
    from_snapshot = MetadataImage()
    for step in range(1, 250):
        record = random_record(random, image, step)
        replay(image, record)
        replay(from_snapshot, record)
        log.append(record)
        assert image.index == obvious_index(image)
        if step % 25 == 0:
            from_snapshot = rebuilt(image)
            assert replayed(*log) == from_snapshot == image == image.copy()
    assert from_snapshot == image
    for broker in range(5):  # and questions get the same answer, in the same order
        assert from_snapshot.partitions_in_sync_on(broker) == image.partitions_in_sync_on(broker)
    assert image_records(from_snapshot) == image_records(image)


def test_a_cleared_elr_is_a_new_partition_epoch_only_where_there_was_one() -> None:
    image = one_partition()
    replay(image, r.PartitionChange(0, TOPIC, isr=(1,), elr=(2,), last_known_elr=(3,)))
    replay(image, r.Topic("other", b"O" * 16))
    replay(image, r.Partition(0, b"O" * 16, (1,), (1,), leader=1))
    replay(image, r.ClearElr("nothing"))
    replay(image, r.ClearElr("orders"))
    cleared = image.partition(P0)
    assert cleared is not None
    assert (cleared.elr, cleared.last_known_elr, cleared.partition_epoch) == ((), (), 2)
    replay(image, r.ClearElr(""))
    assert [each.partition_epoch for each in image.partitions()] == [2, 0]
    assert rebuilt(image) == image
