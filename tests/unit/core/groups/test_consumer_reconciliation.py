"""Partitions go from hand to hand, and are never in two of them."""

import pytest

from support.consumer_groups import GROUP, SETTINGS, Coordinator, Topics, parts, topic_id
from tidelog.core.errors import Error
from tidelog.core.events import GroupStateChanged, MemberLeft
from tidelog.core.groups.assignors import flatten
from tidelog.core.groups.consumer import ConsumerGroups
from tidelog.core.groups.consumer_group import STABLE, UNRELEASED, UNREVOKED
from tidelog.core.groups.consumer_reconcile import Goal, reconcile
from tidelog.core.groups.records import (
    ConsumerGroupEpoch,
    ConsumerMember,
    ConsumerMemberValue,
    CurrentAssignment,
    CurrentAssignmentValue,
)


@pytest.fixture
def group():
    return Coordinator(Topics(a=4, b=2))


# ---- one step


def has(state=STABLE, epoch=3, assigned=(), pending=()):
    return CurrentAssignmentValue(epoch, epoch - 1, state, assigned, pending)


def everything_is_free(partition):
    return True


def nothing_is_free(partition):
    return False


def test_a_member_that_is_there_stays_there():
    current = has(assigned=parts(a=(0,)))
    assert reconcile(current, Goal(3, parts(a=(0,))), parts(), nothing_is_free) is current


def test_what_it_shall_not_have_is_given_up_first_and_the_epoch_waits():
    after = reconcile(
        has(assigned=parts(a=(0, 1))), Goal(4, parts(a=(1, 2))), None, nothing_is_free
    )
    assert after == has(UNREVOKED, 3, parts(a=(1,)), parts(a=(0,)))


def test_nothing_new_is_given_while_something_is_to_be_given_up():
    after = reconcile(has(assigned=parts(a=(0,))), Goal(4, parts(b=(0,))), None, everything_is_free)
    assert (after.assigned, after.pending_revocation) == ((), parts(a=(0,)))


@pytest.mark.parametrize("owned", [None, parts(a=(0,)), parts(a=(0, 1))])
def test_a_member_that_has_not_given_it_up_stays_where_it_is(owned):
    current = has(UNREVOKED, 3, parts(a=(1,)), parts(a=(0,)))
    assert reconcile(current, Goal(4, parts(a=(1,))), owned, everything_is_free) is current


def test_a_member_that_has_given_it_up_goes_on_to_the_new_epoch():
    current = has(UNREVOKED, 3, parts(a=(1,)), parts(a=(0,)))
    goal = Goal(5, parts(a=(1, 2)))
    after = reconcile(current, goal, parts(a=(1,)), everything_is_free)
    assert after == CurrentAssignmentValue(
        5, 3, STABLE, parts(a=(1, 2)), (), ((topic_id("a"), 1, 3),)
    )


def test_what_others_still_have_follows_later():
    waiting = reconcile(has(), Goal(4, parts(a=(0, 1))), None, lambda p: p[1] == 0)
    assert waiting == CurrentAssignmentValue(4, 3, UNRELEASED, parts(a=(0,)), ())
    after = reconcile(waiting, Goal(4, parts(a=(0, 1))), None, everything_is_free)
    assert after == CurrentAssignmentValue(4, 3, STABLE, parts(a=(0, 1)), ())


def test_what_it_does_not_own_anyway_needs_no_round_of_its_own():
    current = has(assigned=parts(a=(0, 1)))
    after = reconcile(current, Goal(4, parts(a=(1,))), parts(a=(1,)), everything_is_free)
    assert after == CurrentAssignmentValue(
        4, 3, STABLE, parts(a=(1,)), (), ((topic_id("a"), 1, 3),)
    )


def test_a_partition_remembers_the_epoch_in_which_it_was_given():
    """KIP-1251. It keeps it when the member moves on, while it is given up, and in a break."""
    first = reconcile(has(), Goal(4, parts(a=(0, 1))), None, everything_is_free)
    assert first.given_earlier == ()
    second = reconcile(first, Goal(6, parts(a=(0, 1, 2))), None, everything_is_free)
    epochs = {(topic_id("a"), 0): 4, (topic_id("a"), 1): 4, (topic_id("a"), 2): 6}
    assert second.epochs() == epochs
    revoking = reconcile(second, Goal(7, parts(a=(2,))), None, nothing_is_free)
    assert (revoking.state, revoking.epochs()) == (UNREVOKED, epochs)
    done = reconcile(revoking, Goal(7, parts(a=(2,))), parts(a=(2,)), nothing_is_free)
    assert done.epochs() == {(topic_id("a"), 2): 6}


def test_a_static_member_that_leaves_for_a_while_finds_its_partitions_as_they_were(group):
    group.joined("m1", instance_id="i1")
    before = group.machine.stored()[GROUP].currents["m1"].epochs()
    group.beat("m1", -2, instance_id="i1")
    assert group.machine.stored()[GROUP].currents["m1"].epochs() == before


def test_a_target_that_moves_on_is_followed_after_the_first_revocation():
    current = has(UNREVOKED, 3, parts(a=(1, 2)), parts(a=(0,)))
    after = reconcile(current, Goal(5, parts(a=(2,))), parts(a=(1, 2)), everything_is_free)
    assert after == has(UNREVOKED, 3, parts(a=(2,)), parts(a=(1,)))


# ---- a group


def states(group):
    return {name: value.state for name, value in group.machine.stored()[GROUP].currents.items()}


def test_a_newcomer_waits_until_the_old_owner_has_let_go(group):
    group.joined("m1")
    newcomer = group.joined("m2")
    assert (newcomer.member_epoch, newcomer.assignment) == (2, ())
    assert states(group) == {"m1": STABLE, "m2": UNRELEASED}
    assert group.describe().state == "Reconciling"

    told = group.beat("m1", 1)
    assert told.member_epoch == 1
    kept, given_up = (
        told.assignment,
        set(flatten(parts(a=range(4)))) - set(flatten(told.assignment)),
    )
    assert group.beat("m2", 2).assignment is None
    assert group.beat("m1", 1).assignment is None  # it knows, and is busy

    done = group.beat("m1", 1, owned=kept)
    assert (done.member_epoch, done.assignment) == (2, kept)
    assert set(flatten(group.beat("m2", 2).assignment)) == given_up
    assert group.describe().state == "Stable"


def test_whoever_leaves_while_revoking_frees_everything(group):
    group.joined("m1")
    group.joined("m2")
    group.beat("m1", 1)
    group.beat("m1", -1)
    assert group.beat("m2", 2).assignment == parts(a=range(4))


def test_a_member_that_keeps_what_it_shall_give_up_is_removed(group):
    group.joined("m1", rebalance_timeout_ms=10_000)
    group.joined("m2")
    group.pass_time(5_000)
    group.beat("m1", 1)
    for _ in range(3):
        group.pass_time(3_000)
        assert group.beat("m1", 1).error == Error.NONE
        assert group.beat("m2", 2).assignment is None
    group.pass_time(1_000)
    assert group.beat("m1", 1).error == Error.UNKNOWN_MEMBER_ID
    assert group.beat("m2", 2).assignment == parts(a=range(4))


def test_a_member_that_gave_up_in_time_stays(group):
    group.joined("m1", rebalance_timeout_ms=10_000)
    group.joined("m2")
    kept = group.beat("m1", 1).assignment
    group.pass_time(9_999)
    group.beat("m1", 1, owned=kept)
    group.pass_time(10_000)
    assert group.beat("m1", 2).error == Error.NONE


def test_a_member_without_a_session_has_no_time_to_revoke_either(group):
    group.joined("m1", rebalance_timeout_ms=300_000)
    group.joined("m2")
    group.beat("m1", 1)
    group.pass_time(44_000)
    group.beat("m2", 2)
    group.pass_time(1_000)
    assert group.beat("m2", 2).assignment == parts(a=range(4))


def test_another_subscription_moves_partitions_and_the_same_one_does_not(group):
    group.joined("m1", subscribed_topics=("a", "b"))
    group.beat("m1", 1, subscribed_topics=("b", "a", "a"))
    assert group.describe().epoch == 1
    told = group.beat("m1", 1, subscribed_topics=("b",))
    assert (told.member_epoch, told.assignment) == (1, parts(b=range(2)))
    done = group.beat("m1", 1, owned=parts(b=range(2)))
    assert (done.member_epoch, done.assignment) == (2, parts(b=range(2)))


def test_what_is_not_about_partitions_is_written_down_without_a_new_epoch(group):
    group.joined("m1")
    group.beat("m1", 1, rack_id="r2", rebalance_timeout_ms=7, server_assignor="range")
    (member,) = group.describe().members
    assert (member.rack_id, group.describe().epoch) == ("r2", 1)
    assert group.describe().assignor == "range"


# ---- topics


def test_new_partitions_are_handed_out(group):
    group.joined("m1")
    group.change_topics(a=6)
    assert group.describe().epoch == 2
    told = group.beat("m1", 1)
    assert (told.member_epoch, told.assignment) == (2, parts(a=range(6)))


def test_a_topic_that_comes_later_is_handed_out_by_name_and_by_expression(group):
    group.joined("m1", subscribed_topics=("c",), subscribed_regex="d.*")
    group.change_topics(c=1)
    assert group.beat("m1", 1).assignment == parts(c=(0,))
    group.change_topics(dd=2)
    assert group.beat("m1", 2).assignment == parts(c=(0,), dd=(0, 1))


def test_a_deleted_topic_is_taken_back(group):
    group.joined("m1", subscribed_topics=("a", "b"))
    group.change_topics(b=0)
    assert group.beat("m1", 1).assignment == parts(a=range(4))
    assert group.beat("m1", 1, owned=parts(a=range(4))).member_epoch == 2


def test_topics_of_others_concern_nobody(group):
    group.joined("m1")
    written = len(group.log)
    group.change_topics(b=9, x=3)
    assert len(group.log) == written


def test_an_empty_group_does_not_follow_topics(group):
    group.joined("m1")
    group.beat("m1", -1)
    group.change_topics(a=9)
    assert group.describe().epoch == 2
    assert group.joined("m1").assignment == parts(a=range(9))


# ---- failover


@pytest.mark.parametrize("compacted", [False, True])
def test_a_new_coordinator_goes_on_where_the_old_one_stopped(group, compacted):
    group.joined("m1")
    group.joined("m2")
    kept = group.beat("m1", 1).assignment
    group.fail_over(compacted=compacted)
    assert group.describe().epoch == 2
    assert group.beat("m2", 2).assignment is None
    assert group.beat("m1", 1).assignment is None
    assert group.beat("m1", 1, owned=kept).member_epoch == 2
    assert group.beat("m2", 2).assignment is not None
    assert group.describe().state == "Stable"


def test_sessions_and_revocations_begin_anew_with_a_new_coordinator(group):
    group.joined("m1", rebalance_timeout_ms=60_000)
    group.joined("m2")
    group.beat("m1", 1)
    group.pass_time(40_000)
    group.fail_over()
    group.pass_time(40_000)
    assert group.beat("m1", 1).error == Error.NONE
    assert group.beat("m2", 2).error == Error.NONE
    group.pass_time(20_000)  # one minute after the failover
    assert group.beat("m1", 1).error == Error.UNKNOWN_MEMBER_ID
    group.pass_time(45_000)
    assert group.describe().state == "Empty"


def test_what_happened_to_topics_during_a_failover_is_found_out(group):
    group.joined("m1")
    group.topics.known["a"] = group.topics.known["a"]._replace(partitions=5)
    group.fail_over()
    assert group.beat("m1", 1).assignment == parts(a=range(5))


def test_a_recreated_topic_is_another_topic(group):
    group.joined("m1")
    group.topics.known["a"] = group.topics.known["a"]._replace(topic_id=b"another")
    group.fail_over()
    assert group.targets() == {"m1": ((b"another", (0, 1, 2, 3)),)}


def test_a_group_that_was_not_assigned_yet_is_assigned_by_the_next_coordinator():
    """Another coordinator may write the epoch and the targets in two batches."""
    group = Coordinator(Topics(a=2))
    member = ConsumerMemberValue(None, None, "app", "host", ("a",), None, 60_000, None)
    group.log = [ConsumerMember(GROUP, "m1", member), ConsumerGroupEpoch(GROUP, 7)]
    for record in group.log:
        group.machine.replay(record)
    assert group.describe().state == "Assigning"
    group.fail_over()
    assert (group.describe().epoch, group.describe().assignment_epoch) == (8, 8)
    assert group.beat("m1", 0, owned=(), rebalance_timeout_ms=1, subscribed_topics=("a",))
    assert group.assigned() == {"m1": parts(a=(0, 1))}


def test_what_somebody_unknown_is_said_to_own_is_free():
    group = Coordinator(Topics(a=2))
    ghost = CurrentAssignmentValue(3, 2, STABLE, parts(a=(0, 1)), ())
    group.machine.replay(CurrentAssignment(GROUP, "ghost", ghost))
    request = {"rebalance_timeout_ms": 1, "subscribed_topics": ("a",), "owned": ()}
    group.check = lambda: None  # this log breaks the rule from the start
    assert group.beat("m1", 0, **request).assignment == parts(a=(0, 1))


def test_a_partition_that_a_log_gives_to_two_members_is_free_when_both_are_gone():
    group = Coordinator(Topics(a=1))
    group.check = lambda: None  # this log breaks the rule from the start
    member = ConsumerMemberValue(None, None, "app", "host", (), None, 60_000, None)
    owns = CurrentAssignmentValue(3, 2, STABLE, parts(a=(0,)), ())
    for name in ("m1", "m2"):
        group.machine.replay(ConsumerMember(GROUP, name, member))
        group.machine.replay(CurrentAssignment(GROUP, name, owns))
    group.machine.replay(ConsumerGroupEpoch(GROUP, 3))
    group.beat("m1", -1)
    waiting = group.joined("m3")
    assert waiting.assignment == ()
    group.beat("m2", -1)
    assert group.beat("m3", waiting.member_epoch).assignment == parts(a=(0,))


# ---- events


def test_what_happens_to_a_group_is_told(group):
    group.joined("m1")
    group.joined("m2")
    group.beat("m1", 1)
    kept = group.assigned()["m1"]
    group.beat("m1", 1, owned=kept)
    group.beat("m2", 2)
    group.beat("m2", -1)
    group.change_topics(a=5)
    group.pass_time(45_000)
    assert group.events == [
        GroupStateChanged(GROUP, "Stable", 1, 1, "m1 joined"),
        GroupStateChanged(GROUP, "Reconciling", 2, 2, "m2 joined"),
        GroupStateChanged(GROUP, "Stable", 2, 2, "m2 reconciles"),
        MemberLeft(GROUP, "m2", "left"),
        GroupStateChanged(GROUP, "Reconciling", 3, 1, "m2 left"),
        GroupStateChanged(GROUP, "Reconciling", 4, 1, "topics changed"),
        MemberLeft(GROUP, "m1", "session expired"),
        GroupStateChanged(GROUP, "Empty", 5, 0, "m1 left"),
    ]


def test_a_static_member_that_is_replaced_has_left(group):
    group.joined("m1", instance_id="i1")
    group.beat("m1", -2, instance_id="i1")
    group.joined("m2", instance_id="i1")
    assert group.events == [
        GroupStateChanged(GROUP, "Stable", 1, 1, "m1 joined"),
        MemberLeft(GROUP, "m1", "left for a while"),
        GroupStateChanged(GROUP, "Reconciling", 1, 1, "m1 left for a while"),
        MemberLeft(GROUP, "m1", "replaced"),
        GroupStateChanged(GROUP, "Stable", 1, 1, "m2 reconciles"),
    ]


def test_why_a_member_was_removed_is_told(group):
    group.joined("m1", rebalance_timeout_ms=1_000)
    group.joined("m2")
    group.beat("m1", 1)
    group.pass_time(1_000)
    group.connection_broke("m2")
    group.pass_time(10_500)
    left = [event for event in group.events if isinstance(event, MemberLeft)]
    assert left == [
        MemberLeft(GROUP, "m1", "did not give up its partitions in time"),
        MemberLeft(GROUP, "m2", "connection lost"),
    ]


# ---- the part as a whole


def test_an_assignor_that_does_not_exist_cannot_be_configured():
    settings = SETTINGS._replace(consumer_assignors=("uniform", "fair"))
    with pytest.raises(AssertionError, match="fair"):
        ConsumerGroups(settings, Topics())
