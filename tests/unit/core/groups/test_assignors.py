"""Who shall read what: fair, sticky, and the same on every broker."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.core.groups.assignors import (
    ASSIGNORS,
    Assignee,
    assign_range,
    assign_uniform,
    flatten,
    fold,
)

A, B, C = (letter * 16 for letter in (b"a", b"b", b"c"))


def member(name, topics, held=(), instance_id=None):
    return Assignee(name, instance_id, tuple(topics), fold(held))


def sizes(assignment):
    return {name: len(flatten(share)) for name, share in assignment.items()}


def again(members, assignment):
    """The same members, with what they were given."""
    return [each._replace(held=assignment.get(each.member_id, ())) for each in members]


def moved(before, after):
    """Partitions that somebody had and somebody else has now."""
    owner = {p: name for name, share in before.items() for p in flatten(share)}
    return [
        p for name, share in after.items() for p in flatten(share) if owner.get(p, name) != name
    ]


# ---- range


def test_range_gives_neighbouring_partitions_and_the_first_get_one_more():
    members = [member("m2", [A]), member("m1", [A]), member("m3", [A])]
    assert assign_range(members, {A: 7}) == {
        "m1": ((A, (0, 1, 2)),),
        "m2": ((A, (3, 4)),),
        "m3": ((A, (5, 6)),),
    }


def test_range_partitions_equally_large_topics_alike():
    members = [member("m1", [A, B]), member("m2", [A, B])]
    for share in assign_range(members, {A: 5, B: 5}).values():
        (_, of_a), (_, of_b) = share
        assert of_a == of_b


def test_range_sorts_static_members_by_their_instance_so_a_restart_moves_nothing():
    before = assign_range([member("zz", [A], instance_id="i1"), member("m", [A])], {A: 2})
    after = assign_range([member("aa", [A], instance_id="i1"), member("m", [A])], {A: 2})
    assert before["zz"] == after["aa"]
    assert before["m"] == after["m"]


def test_range_gives_a_topic_only_to_its_subscribers_and_nothing_to_those_left_over():
    members = [member("m1", [A]), member("m2", [A, B]), member("m3", [])]
    assert assign_range(members, {A: 1, B: 2}) == {
        "m1": ((A, (0,)),),
        "m2": ((B, (0, 1)),),
        "m3": (),
    }


# ---- uniform, everybody subscribes to the same


def test_uniform_spreads_all_topics_over_all_members():
    members = [member(name, [A, B]) for name in ("m1", "m2", "m3")]
    assignment = assign_uniform(members, {A: 4, B: 4})
    assert sorted(sizes(assignment).values()) == [2, 3, 3]
    for share in assignment.values():
        assert {topic for topic, _ in share} == {A, B}


def test_uniform_takes_from_each_only_what_a_newcomer_is_due():
    members = [member("m1", [A]), member("m2", [A])]
    before = assign_uniform(members, {A: 9})
    after = assign_uniform([*again(members, before), member("m0", [A])], {A: 9})
    assert set(sizes(after).values()) == {3}
    assert len(moved(before, after)) == 3


def test_uniform_leaves_the_larger_share_with_those_who_have_it():
    members = [member("m1", [A], [(A, 0)]), member("m2", [A], [(A, 1), (A, 2)])]
    assert assign_uniform(members, {A: 3}) == {"m1": ((A, (0,)),), "m2": ((A, (1, 2)),)}


def test_uniform_drops_what_is_gone_and_hands_out_what_is_new():
    members = [member("m1", [A], [(A, 0), (B, 0)]), member("m2", [A], [(A, 7), (A, 1)])]
    assert assign_uniform(members, {A: 4}) == {"m1": ((A, (0, 2)),), "m2": ((A, (1, 3)),)}


def test_a_partition_that_two_members_are_said_to_hold_goes_to_one():
    members = [member("m1", [A], [(A, 0), (A, 1)]), member("m2", [A], [(A, 1)])]
    assert assign_uniform(members, {A: 2}) == {"m1": ((A, (0,)),), "m2": ((A, (1,)),)}


def test_nobody_gets_nothing():
    for assign in ASSIGNORS.values():
        assert assign([], {}) == {}
        assert assign([member("m1", [])], {}) == {"m1": ()}


# ---- uniform, mixed subscriptions


def test_a_member_with_a_choice_leaves_a_topic_to_the_one_without():
    members = [member("m1", [A, B]), member("m2", [A])]
    assert assign_uniform(members, {A: 2, B: 2}) == {"m1": ((B, (0, 1)),), "m2": ((A, (0, 1)),)}


def test_balance_is_found_through_a_third_member():
    """m1 can only give to m2, and m2 has to give something else to m3."""
    members = [
        member("m1", [A], [(A, 0), (A, 1), (A, 2)]),
        member("m2", [A, B], [(B, 0), (B, 1)]),
        member("m3", [B], []),
    ]
    assignment = assign_uniform(members, {A: 3, B: 2})
    assert sorted(sizes(assignment).values()) == [1, 2, 2]


def test_what_subscriptions_forbid_is_not_balanced():
    members = [member("m1", [A]), member("m2", [B])]
    assert sizes(assign_uniform(members, {A: 6, B: 1})) == {"m1": 6, "m2": 1}


# ---- whatever the input

TOPICS = st.sampled_from([A, B, C])
NAMES = ("m1", "m2", "m3", "m4")


@st.composite
def groups(draw, most=5, equal=False):
    counts = {topic: draw(st.integers(1, most)) for topic in (A, B, C)}
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    everybody = draw(st.sets(TOPICS))
    members = []
    for name in names:
        topics = everybody if equal else draw(st.sets(TOPICS))
        held = draw(st.sets(st.tuples(TOPICS, st.integers(0, most)), max_size=4))
        members.append(member(name, sorted(topics), held))
    return members, counts


def wanted(members, counts):
    topics = {topic for each in members for topic in each.topics}
    return sorted((topic, n) for topic in topics for n in range(counts[topic]))


@pytest.mark.parametrize("name", ASSIGNORS)
@given(groups())
def test_every_subscribed_partition_goes_to_exactly_one_subscriber(name, group):
    members, counts = group
    assignment = ASSIGNORS[name](members, counts)
    assert set(assignment) == {each.member_id for each in members}
    given_out = [p for share in assignment.values() for p in flatten(share)]
    assert sorted(given_out) == wanted(members, counts)
    for each in members:
        share = assignment[each.member_id]
        assert {topic for topic, _ in share} <= set(each.topics)
        assert share == fold(flatten(share))


@pytest.mark.parametrize("name", ASSIGNORS)
@given(groups(), st.randoms(use_true_random=False))
def test_the_order_of_members_does_not_matter(name, group, chance):
    members, counts = group
    shuffled = list(members)
    chance.shuffle(shuffled)
    assert ASSIGNORS[name](members, counts) == ASSIGNORS[name](shuffled, counts)


@given(groups())
def test_uniform_changes_nothing_when_nothing_changed(group):
    members, counts = group
    before = assign_uniform(members, counts)
    assert assign_uniform(again(members, before), counts) == before


@given(groups(equal=True))
def test_equal_subscriptions_differ_by_one_at_most_and_only_what_is_too_much_moves(group):
    members, counts = group
    assignment = assign_uniform(members, counts)
    sized = sizes(assignment)
    assert max(sized.values()) - min(sized.values()) <= 1

    valid = Counter()
    seen = set()
    for each in sorted(members):
        mine = {p for p in flatten(each.held) if p in wanted(members, counts)} - seen
        seen |= mine
        valid[each.member_id] = len(mine)
    total, n = sum(sized.values()), len(members)
    quota, larger = divmod(total, n)
    over = sorted((size - quota for size in valid.values() if size > quota), reverse=True)
    least = sum(over) - min(larger, len(over))
    kept = {each.member_id: set(flatten(each.held)) for each in members}
    lost = [
        p
        for each in sorted(members)
        for p in flatten(each.held)
        if p in wanted(members, counts)
        and p not in flatten(assignment[each.member_id])
        and not any(p in kept[other] for other in kept if other != each.member_id)
    ]
    assert len(lost) <= least


def best_possible(members, counts):
    """Try everything: the smallest sum of squares is the most even assignment."""
    choices = [
        [each.member_id for each in members if topic in each.topics]
        for topic, _ in wanted(members, counts)
    ]
    return min(
        sum(n * n for n in Counter(combination).values()) for combination in product(*choices)
    )


@settings(max_examples=60, deadline=None)
@given(groups(most=2))
def test_mixed_subscriptions_are_balanced_as_well_as_any_assignment_could(group):
    members, counts = group
    found = sum(size * size for size in sizes(assign_uniform(members, counts)).values())
    assert found == best_possible(members, counts)
