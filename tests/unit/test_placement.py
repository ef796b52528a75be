"""Where replicas go."""

from collections import Counter
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tidelog.core.errors import Error
from tidelog.core.metadata.placement import PlacementBroker, place
from tidelog.core.metadata.refusal import PlacementError


def always_first(_count: int) -> int:
    return 0


def drawing(seed: int):
    return Random(seed).randrange


def racks(*sizes: int) -> list[PlacementBroker]:
    """Rack A has brokers 0, 1, …; rack B 10, 11, …"""
    return [
        PlacementBroker(10 * rack + number, "ABCDEFG"[rack])
        for rack, size in enumerate(sizes)
        for number in range(size)
    ]


def test_three_racks_of_three_are_striped() -> None:
    assert place(racks(3, 3, 3), 3, 3, always_first) == (
        (0, 10, 20),  # A0 B0 C0
        (11, 21, 1),  # B1 C1 A1
        (22, 2, 12),  # C2 A2 B2
    )


def test_without_racks_leaders_go_round() -> None:
    brokers = [PlacementBroker(number) for number in range(4)]
    assert place(brokers, 4, 2, always_first) == ((0, 1), (1, 2), (2, 3), (3, 0))


def test_brokers_without_a_rack_count_as_one_rack_that_comes_first() -> None:
    brokers = [PlacementBroker(5, "A"), PlacementBroker(9), PlacementBroker(7)]
    assert place(brokers, 1, 2, always_first) == ((7, 5),)


def test_a_random_start_turns_the_stripes() -> None:
    starts = {place(racks(3, 3, 3), 1, 3, drawing(seed))[0] for seed in range(50)}
    assert len(starts) > 10


def test_racks_repeat_when_there_are_fewer_than_replicas() -> None:
    assert place(racks(2, 2), 1, 4, always_first) == ((0, 10, 1, 11),)


def test_a_fenced_broker_follows_but_never_leads() -> None:
    brokers = [PlacementBroker(0, "A", fenced=True), PlacementBroker(10, "B")]
    assert place(brokers, 3, 2, always_first) == ((10, 0),) * 3


def test_a_fenced_broker_is_taken_only_after_the_others_of_its_rack() -> None:
    brokers = [
        PlacementBroker(0, "A", fenced=True),
        PlacementBroker(1, "A"),
        PlacementBroker(10, "B"),
    ]
    for replicas in place(brokers, 6, 2, drawing(1)):
        assert sorted(replicas) == [1, 10]


@pytest.mark.parametrize(
    ("brokers", "factor", "hint"),
    [
        ([], 1, "unfenced"),
        ([PlacementBroker(1, fenced=True)], 1, "unfenced"),
        ([PlacementBroker(1)], 0, "at least 1"),
        ([PlacementBroker(1)], -2, "at least 1"),
        ([PlacementBroker(1)], 2, "1 are registered"),
    ],
)
def test_an_impossible_replication_factor_is_refused(
    brokers: list[PlacementBroker], factor: int, hint: str
) -> None:
    with pytest.raises(PlacementError, match=hint) as refused:
        place(brokers, 1, factor, always_first)
    assert refused.value.error == Error.INVALID_REPLICATION_FACTOR


clusters = st.lists(
    st.tuples(st.sampled_from([None, "A", "B", "C"]), st.booleans()), min_size=1, max_size=12
).map(lambda each: [PlacementBroker(i, rack, fenced) for i, (rack, fenced) in enumerate(each)])


@given(clusters, st.data(), st.integers(0, 2**32))
def test_every_assignment_is_legal_and_wide(
    brokers: list[PlacementBroker], data: st.DataObject, seed: int
) -> None:
    assume(not all(broker.fenced for broker in brokers))
    factor = data.draw(st.integers(1, len(brokers)))
    by_id = {broker.id: broker for broker in brokers}
    unfenced = sum(not broker.fenced for broker in brokers)
    rack_sizes = Counter(broker.rack for broker in brokers)
    for replicas in place(brokers, 40, factor, drawing(seed)):
        assert len(set(replicas)) == len(replicas) == factor
        assert not by_id[replicas[0]].fenced
        assert len({by_id[replica].rack for replica in replicas}) == min(factor, len(rack_sizes))
        if len(rack_sizes) == 1:
            assert sum(by_id[replica].fenced for replica in replicas) == max(0, factor - unfenced)


@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32))
def test_equal_racks_share_replicas_and_leaders_evenly(
    rack_count: int, rack_size: int, factor: int, seed: int
) -> None:
    brokers = racks(*[rack_size] * rack_count)
    assume(factor <= len(brokers))
    rack_of = {broker.id: broker.rack for broker in brokers}
    placed = place(brokers, len(brokers), factor, drawing(seed))
    leaders_by_rack = Counter(rack_of[replicas[0]] for replicas in placed)
    assert set(leaders_by_rack.values()) == {rack_size}
    if factor % rack_count == 0:
        replicas_by_broker = Counter(replica for replicas in placed for replica in replicas)
        assert set(replicas_by_broker.values()) == {factor}


@given(st.integers(1, 9), st.integers(0, 2**32))
def test_without_racks_every_broker_leads_the_same_number(count: int, seed: int) -> None:
    brokers = [PlacementBroker(number) for number in range(count)]
    leaders = Counter(replicas[0] for replicas in place(brokers, 3 * count, 1, drawing(seed)))
    assert set(leaders.values()) == {3}


def test_over_many_partitions_the_leaders_of_a_rack_even_out() -> None:
    placed = place(racks(3, 3, 3), 9000, 3, drawing(7))
    leaders = Counter(replicas[0] for replicas in placed)
    assert len(leaders) == 9
    assert max(leaders.values()) < 1.2 * min(leaders.values())


def test_a_fenced_broker_is_not_worn_out_by_the_first_round() -> None:
    """The lists start over for each partition, also after the first shuffle."""
    brokers = [*racks(2, 2), PlacementBroker(90, "Z", fenced=True)]
    for replicas in place(brokers, 50, 5, drawing(3)):
        assert 90 in replicas
