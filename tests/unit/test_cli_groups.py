"""What the commands about groups say, and what they plan, without a cluster."""

import pytest

from tidelog.cli.explain_group import GroupFacts, next_command, sentences
from tidelog.cli.group.describe import as_document, head_of
from tidelog.client.groups import CLASSIC, CONSUMER, Committed, GroupMember, GroupView, total_lag
from tidelog.client.range_assignor import assign_ranges
from tidelog.survey.group_seek import refuse_members
from tidelog.survey.groups import GroupSurvey, PartitionLag
from tidelog.survey.lag_state import LagWindow, Look, judge, one_look, worst
from tidelog.survey.refusal import NotPossible
from tidelog.survey.seek_targets import (
    Move,
    Target,
    Toward,
    parse_target,
    parse_topics,
    settle,
)

NOW_MS = 1_769_850_000_000  # 2026-01-31T09:00:00Z
HOUR_MS = 3_600_000
WINDOW_MS = 10_000


def member(name="billing-1", partitions=(("orders", 0),), target=None):
    owned = tuple(partitions)
    return GroupMember(
        f"{name}-id",
        name,
        "10.0.0.4",
        None,
        ("orders",),
        owned,
        owned if target is None else tuple(target),
        None,
    )


def group(*members, state="Stable"):
    return GroupView("billing", CLASSIC, state, 2, "range", None, tuple(members))


def lag(committed, end, owner=None, index=0):
    return PartitionLag("orders", index, committed, end, owner)


# ---- how a partition keeps up ----


@pytest.mark.parametrize(
    ("partition", "words"),
    [
        (lag(100, 100, member()), "caught up"),
        (lag(90, 100, member()), "behind"),
        (lag(90, 100), "behind, nobody reads it"),
        (lag(None, 100, member()), "no offset yet"),
        (lag(90, None, member()), "no leader"),
    ],
)
def test_one_look_says_only_what_is_so_now(partition, words):
    assert one_look(partition) == words


def looks(*pairs, owned=True, every_ms=5_000):
    return [
        Look(number * every_ms, committed, behind, owned)
        for number, (committed, behind) in enumerate(pairs)
    ]


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (looks((10, 5), (20, 5), (30, 6)), "WARN"),
        (looks((10, 9), (20, 5), (30, 6)), "OK"),
        (looks((10, 5), (10, 5), (10, 5)), "STALL"),
        (looks((10, 5), (10, 5), (10, 5), owned=False), "STOP"),
        (looks((10, 0), (10, 7), (10, 9)), "OK"),
        (looks((10, 5), (3, 12), (3, 12)), "REWIND"),
        (looks((10, 5), (10, 5)), None),
        (looks((10, 0)), "OK"),
        ([], None),
    ],
)
def test_a_window_is_judged_as_burrow_would(seen, state):
    assert judge(seen, WINDOW_MS) == state


def test_the_worst_partition_speaks_for_the_group():
    assert worst(["OK", "STOP", "WARN", None]) == "STOP"
    assert worst([None]) is None


def test_a_state_is_told_when_the_window_is_full_and_forgets_what_is_older():
    window, owner = LagWindow(WINDOW_MS), member()
    assert window.add([lag(50, 60, owner)], 0) == {}
    assert window.words(0) is None
    assert window.add([lag(50, 70, owner)], 10_000) == {("orders", 0): "STALL"}
    assert window.words(12_000) == "STALL: its member commits nothing new for 12 s"
    window.add([lag(60, 75, owner)], 20_000)
    assert window.add([lag(75, 75, owner)], 21_000) == {("orders", 0): "OK"}
    assert window.words(21_000) == "OK"


# ---- describe ----


def test_the_head_of_a_group_says_who_how_many_where_and_how_far_behind():
    found = GroupSurvey(group(member(), member("b", ())), (lag(923, 1041, member()),))
    assert head_of(as_document(found, None)).splitlines() == [
        "billing · Stable · 2 members · coordinator 2 · lag 118",
        "without a partition: b-id",
    ]


def test_partitions_without_an_offset_are_not_hidden_behind_a_lag_of_nothing():
    found = GroupSurvey(group(member()), (lag(5, 5, member()), lag(None, 40, member(), index=1)))
    assert head_of(as_document(found, None)).endswith("lag 0 · 1 partition without an offset")


def test_a_group_that_never_committed_has_no_lag():
    found = GroupSurvey(group(member()), (lag(None, 40, member()),))
    document = as_document(found, None)
    assert document["lag"] is None
    assert "nothing committed" in head_of(document)


def test_an_offset_beyond_the_end_is_no_negative_lag():
    assert lag(12, 10).lag == 0
    assert total_lag({("orders", 0): Committed(12, -1, "")}, {("orders", 0): 10}) == 0
    assert total_lag({("gone", 0): Committed(12, -1, "")}, {}) is None


# ---- seek ----


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", Target(Toward.EARLIEST)),
        ("end", Target(Toward.LATEST)),
        ("1041", Target(Toward.OFFSET, 1041)),
        ("+5", Target(Toward.SHIFT, 5)),
        ("-5", Target(Toward.SHIFT, -5)),
        ("-1h", Target(Toward.TIME, NOW_MS - HOUR_MS)),
        ("@-1h", Target(Toward.TIME, NOW_MS - HOUR_MS)),
        ("2026-01-31T10:00:00Z", Target(Toward.TIME, NOW_MS + HOUR_MS)),
        ("2026-01-31", Target(Toward.TIME, NOW_MS - 9 * HOUR_MS)),
    ],
)
def test_targets_are_read_as_people_write_them(text, target):
    assert parse_target(text, NOW_MS) == target


@pytest.mark.parametrize("text", ["soon", "", "-", "1e3", "-1x", "²"])
def test_what_is_no_target_is_wrong_usage(text):
    with pytest.raises(NotPossible) as caught:
        parse_target(text, NOW_MS)
    assert caught.value.is_usage


def test_topics_of_a_seek_may_name_partitions():
    assert parse_topics(("orders:2,0", "audit", "orders:1")) == {
        "orders": [0, 1, 2],
        "audit": None,
    }
    assert parse_topics(("orders", "orders:1")) == {"orders": None}


@pytest.mark.parametrize("text", [":1", "orders:", "orders:x", "orders:-1"])
def test_a_partition_of_a_seek_is_a_number(text):
    with pytest.raises(NotPossible, match="--topic"):
        parse_topics((text,))


def test_a_seek_stays_within_the_log_and_says_so():
    assert settle(50, 10, 100) == (50, "")
    assert settle(5, 10, 100) == (10, "5 asked for, the log starts at 10")
    assert settle(105, 10, 100) == (100, "105 asked for, the log ends at 100")


def test_the_difference_of_a_move_is_known_only_after_a_commit():
    assert Move("orders", 0, 100, 40).difference == -60
    assert Move("orders", 0, None, 40).difference is None


def test_a_group_with_members_is_not_moved_and_they_are_named():
    refuse_members(group(), "would commit over it")
    with pytest.raises(NotPossible) as caught:
        refuse_members(group(member(), member("billing-2")), "would commit over it")
    assert caught.value.what == "group billing has 2 members"
    assert "billing-1 at 10.0.0.4, billing-2 at 10.0.0.4" in caught.value.why
    assert "stop them first" in caught.value.why


# ---- explain ----


def facts(before, after, *, events=(), stable=()):
    return GroupFacts(before, after, 1.0, dict(stable), list(events), NOW_MS)


def happened(event, seconds_ago, **fields):
    return {"event": event, "time_ms": NOW_MS - seconds_ago * 1000, **fields}


def test_a_rebalance_is_explained_by_what_set_it_off():
    found = GroupSurvey(group(member(), state="PreparingRebalance"), (lag(10, 10, member()),))
    events = [
        happened("MemberLeft", 4, member_id="b-id", reason="session expired"),
        happened(
            "GroupStateChanged",
            4,
            state="PreparingRebalance",
            reason="member b-id: session expired",
        ),
    ]
    told = " ".join(sentences(facts(found, found, events=events)))
    assert "billing is PreparingRebalance at coordinator 2: its members have to join" in told
    assert "The last rebalance began 4.0 s ago: member b-id: session expired." in told
    assert "It lost b-id 4.0 s ago: session expired." in told


def test_members_on_the_way_to_their_assignment_are_named():
    holder = member("a", [("orders", 0), ("orders", 1)], target=[("orders", 0)])
    waiter = member("b", [], target=[("orders", 1)])
    moving = group(holder, waiter, state="Reconciling")._replace(kind=CONSUMER)
    found = GroupSurvey(moving, (lag(10, 10, holder),))
    told = " ".join(sentences(facts(found, found)))
    assert "members have to give partitions up before others may have them" in told
    assert "a has to give up orders-1. b waits for orders-1." in told


def test_a_new_epoch_is_a_rebalance_of_the_consumer_protocol():
    consumers = group(member())._replace(kind=CONSUMER)
    found = GroupSurvey(consumers, (lag(10, 10, member()),))
    changes = [("Reconciling", 3, "b-id left"), ("Stable", 3, "a-id has it all")]
    events = [
        happened("GroupStateChanged", 9 - number, state=state, generation=epoch, reason=why)
        for number, (state, epoch, why) in enumerate(changes)
    ]
    told = " ".join(sentences(facts(found, found, events=events)))
    assert "The last rebalance began 9.0 s ago: b-id left." in told


def test_a_lag_is_explained_by_two_looks():
    before = GroupSurvey(group(member()), (lag(100, 200, member()),))
    after = GroupSurvey(group(member()), (lag(140, 300, member()),))
    told = " ".join(sentences(facts(before, after)))
    assert "It is 160 records behind: orders-0 by 160." in told
    assert "In 1.0 s it committed 40 and 100 were written: it falls behind." in told
    assert next_command(facts(before, after)) == "tidelog group describe billing --watch"


def test_a_lag_that_a_transaction_makes_leads_to_the_transaction():
    found = GroupSurvey(group(member()), (lag(100, 300, member()),))
    held = facts(found, found, stable={("orders", 0): 100})
    assert "wait at 100 in orders-0, 200 records before its end" in " ".join(sentences(held))
    assert next_command(held) == "tidelog explain orders-0"


def test_a_group_that_nobody_is_in_needs_members():
    found = GroupSurvey(group(state="Empty"), (lag(100, 300),))
    told = facts(found, found, stable={("orders", 0): 300})
    assert "nobody is a member of it" in " ".join(sentences(told))
    assert next_command(told).startswith("tidelog consume orders -g billing")


# ---- the assignor of our own members ----


def test_ranges_are_given_as_kafka_gives_them():
    subscriptions = {"b": ["orders", "audit"], "a": ["orders"], "c": ["orders"]}
    assert assign_ranges(subscriptions, {"orders": 7, "audit": 1}) == {
        "a": [("orders", 0), ("orders", 1), ("orders", 2)],
        "b": [("audit", 0), ("orders", 3), ("orders", 4)],
        "c": [("orders", 5), ("orders", 6)],
    }


def test_more_members_than_partitions_leaves_some_without_any():
    assert assign_ranges({"a": ["t"], "b": ["t"]}, {"t": 1}) == {"a": [("t", 0)], "b": []}
    assert assign_ranges({"a": ["missing"]}, {}) == {"a": []}
