"""The fault ledger and flipped bits: when may one happen, and what may be expected afterwards."""

from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.replay import replay
from tidelog.core.types import PartitionId
from tidelog.sim.ledger import Ledger

TOPIC = b"topic id of test"
PARTITION = PartitionId(TOPIC, 0)


def cluster(*isr: int) -> MetadataImage:
    image = MetadataImage()
    replay(image, r.Topic("orders", TOPIC))
    replay(
        image,
        r.Partition(0, TOPIC, replicas=(1, 2, 3), isr=isr),
    )
    return image


def shrink(ledger: Ledger, image: MetadataImage, *isr: int) -> None:
    change = r.PartitionChange(0, TOPIC, isr=isr)
    replay(image, change)
    ledger.observe(image, change)


def test_the_last_intact_copy_may_not_rot() -> None:
    ledger, image = Ledger(), cluster(1, 2)
    assert ledger.survives_rot(image, PARTITION, 1)
    ledger.rot(PARTITION, 1)
    assert not ledger.survives_rot(image, PARTITION, 2)
    assert ledger.survives_rot(image, PARTITION, 3)  # holds nothing that others count on
    assert not ledger.survives(image, 2)


def test_rot_that_nobody_found_counts_when_its_holder_is_left_alone() -> None:
    ledger, image = Ledger(), cluster(1, 2)
    ledger.rot(PARTITION, 1)
    assert ledger.expected_durable(PARTITION)
    shrink(ledger, image, 1)
    assert not ledger.expected_durable(PARTITION)


def test_who_cut_its_rot_away_lacks_records_until_it_has_left_the_isr() -> None:
    ledger, image = Ledger(), cluster(1, 2)
    ledger.rot(PARTITION, 1)
    ledger.mended(image, PARTITION, 1)
    assert ledger.expected_durable(PARTITION)
    assert not ledger.survives_rot(image, PARTITION, 2)


def test_a_cut_of_the_last_copy_is_a_declared_loss() -> None:
    ledger, image = Ledger(), cluster(1, 2)
    ledger.rot(PARTITION, 2)
    ledger.damage(image, 1)
    assert not ledger.expected_durable(PARTITION)
    ledger.mended(image, PARTITION, 2)
    assert not ledger.expected_durable(PARTITION)
