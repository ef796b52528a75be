"""When leadership goes back to the preferred leaders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.metadata import records as r
from tidelog.core.metadata.balance import (
    anything_displaced,
    imbalanced_brokers,
    is_imbalanced,
    partitions_to_balance,
)
from tidelog.core.metadata.elections import Election
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.partition_change import (
    ChangeContext,
    WantedChange,
    build_change,
)
from tidelog.core.metadata.replay import replay

TOPIC = b"T" * 16


def cluster(partitions: int, *, led_by_2: int) -> MetadataImage:
    """Partitions that all prefer broker 1; some are led by broker 2."""
    image = MetadataImage()
    for broker in (1, 2, 3):
        replay(image, r.RegisterBroker(broker, b"%d" % broker, broker, fenced=False))
    replay(image, r.Topic("orders", TOPIC))
    for number in range(partitions):
        leader = 2 if number < led_by_2 else 1
        replay(image, r.Partition(number, TOPIC, (1, 2), (1, 2), leader=leader))
    return image


def numbers(image: MetadataImage, percentage: int, limit: int = 1000) -> list[int]:
    chosen = partitions_to_balance(image, percentage, limit).partitions
    return [partition.id.partition for partition in chosen]


def test_exactly_the_percentage_is_tolerated_and_one_more_is_not() -> None:
    assert numbers(cluster(100, led_by_2=10), 10) == []
    assert numbers(cluster(100, led_by_2=11), 10) == list(range(11))


def test_zero_percent_takes_back_every_partition() -> None:
    assert numbers(cluster(100, led_by_2=1), 0) == [0]
    assert numbers(cluster(100, led_by_2=0), 0) == []


def test_a_balanced_cluster_needs_no_timer() -> None:
    assert not anything_displaced(cluster(5, led_by_2=0))
    assert anything_displaced(cluster(5, led_by_2=1))


def test_only_partitions_where_the_preferred_leader_is_in_sync_are_chosen() -> None:
    image = cluster(4, led_by_2=4)
    replay(image, r.PartitionChange(2, TOPIC, isr=(2,)))
    assert numbers(image, 10) == [0, 1, 3]


@pytest.mark.parametrize(
    "change",
    [
        r.BrokerRegistrationChange(1, 1, fenced=1),
        r.BrokerRegistrationChange(1, 1, in_controlled_shutdown=1),
    ],
)
def test_a_broker_that_is_away_gets_nothing_back(change: r.BrokerRegistrationChange) -> None:
    image = cluster(4, led_by_2=4)
    replay(image, change)
    assert imbalanced_brokers(image, 10) == [1]
    assert numbers(image, 10) == []


def test_a_leaderless_partition_counts_as_displaced() -> None:
    image = cluster(4, led_by_2=0)
    replay(image, r.PartitionChange(3, TOPIC, leader=-1))
    assert imbalanced_brokers(image, 20) == [1]
    assert numbers(image, 20) == [3]


def test_a_batch_has_a_limit_and_says_when_there_is_more() -> None:
    image = cluster(10, led_by_2=10)
    first = partitions_to_balance(image, 10, limit=4)
    assert ([p.id.partition for p in first.partitions], first.full) == ([0, 1, 2, 3], True)
    assert partitions_to_balance(image, 10, limit=10).full is False


def test_electing_what_was_chosen_restores_the_balance() -> None:
    image = cluster(10, led_by_2=7)
    context = ChangeContext(1, True, image.is_active)
    for partition in partitions_to_balance(image, 10).partitions:
        change = build_change(partition, WantedChange(election=Election.PREFERRED), context)
        assert change is not None
        replay(image, change)
    assert not anything_displaced(image)
    assert all(partition.leader == 1 for partition in image.partitions())


@given(st.integers(1, 1000), st.data())
def test_the_ratio_is_compared_exactly(preferred: int, data: st.DataObject) -> None:
    displaced = data.draw(st.integers(0, preferred))
    percentage = data.draw(st.integers(0, 100))
    exact = displaced * 100 - percentage * preferred
    assert is_imbalanced(displaced, preferred, percentage) == (exact > 0)
