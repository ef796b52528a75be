"""Who may join, beat and leave, and what becomes of those who may not."""

import pytest

from support.consumer_groups import CLIENT, GROUP, PLAIN, SETTINGS, Coordinator, Topics, parts
from tidelog.core.errors import Error
from tidelog.core.groups.records import ConsumerGroupEpoch, TargetAssignmentEpoch
from tidelog.core.groups.requests import (
    NO_GENERATION,
    UNKNOWN_MEMBER,
    CommitOffsets,
    CommitTransactionalOffsets,
    FetchOffsets,
    ListedGroup,
)
from tidelog.core.groups.settings import Rhythm
from tidelog.core.types import NEVER_MS


@pytest.fixture
def group():
    return Coordinator(Topics(a=4, b=2))


# ---- the rhythm of a group


def test_a_group_may_have_a_rhythm_of_its_own_and_change_it_while_it_runs():
    rhythms = {GROUP: Rhythm(1_000, 6_000)}
    usual = Rhythm(5_000, 45_000)
    group = Coordinator(Topics(a=4), rhythm_of=lambda group_id: rhythms.get(group_id, usual))
    assert group.join("m1").heartbeat_interval_ms == 1_000
    group.pass_time(5_999)
    assert group.beat("m1", 1).error == Error.NONE
    group.pass_time(6_000)
    assert group.beat("m1", 1).error == Error.UNKNOWN_MEMBER_ID
    rhythms.clear()
    second = group.join("m2")
    assert second.heartbeat_interval_ms == 5_000
    group.pass_time(44_999)
    assert group.beat("m2", second.member_epoch).error == Error.NONE


# ---- joining


def test_the_first_member_gets_everything_at_once(group):
    response = group.join("m1")
    assert response.error == Error.NONE
    assert (response.member_id, response.member_epoch) == ("m1", 1)
    assert response.assignment == parts(a=range(4))
    assert group.describe().state == "Stable"


def test_a_member_without_an_id_is_given_one(group):
    assert group.join("", fresh_member_id="made-up").member_id == "made-up"
    assert group.beat("made-up", 1).error == Error.NONE


def test_a_member_without_an_id_is_refused_if_the_shell_made_none(group):
    response = group.join("", fresh_member_id="")
    assert response.error == Error.INVALID_REQUEST
    assert "MemberId" in response.message


def test_a_plain_heartbeat_changes_nothing_and_repeats_nothing(group):
    group.join("m1")
    written = len(group.log)
    response = group.beat("m1", 1)
    assert (response.error, response.member_epoch) == (Error.NONE, 1)
    assert response.assignment is None
    assert len(group.log) == written


def test_a_heartbeat_with_owned_partitions_is_told_its_assignment(group):
    group.join("m1")
    assert group.beat("m1", 1, owned=parts(a=(0,))).assignment == parts(a=range(4))


def test_joining_twice_is_joining_once(group):
    first = group.join("m1")
    written = len(group.log)
    assert group.join("m1") == first
    assert len(group.log) == written


def test_a_member_may_subscribe_to_nothing_and_to_what_does_not_exist(group):
    assert group.joined("m1", subscribed_topics=()).assignment == ()
    assert group.joined("m2", subscribed_topics=("later",)).assignment == ()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"subscribed_topics": None}, "SubscribedTopicNames"),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs"),
        ({"rebalance_timeout_ms": -7}, "RebalanceTimeoutMs"),
        ({"owned": None}, "TopicPartitions"),
        ({"owned": parts(a=(0,))}, "TopicPartitions"),
        ({"instance_id": ""}, "InstanceId"),
        ({"rack_id": ""}, "RackId"),
        ({"group_id": ""}, "GroupId"),
    ],
)
def test_a_malformed_join_is_told_what_is_wrong(group, fields, said):
    response = group.join("m1", **fields)
    assert response.error == Error.INVALID_REQUEST
    assert said in response.message
    assert group.log == []


@pytest.mark.parametrize("fields", [{"member_epoch": -3}, {"member_epoch": -2}])
def test_a_malformed_leave_is_refused(group, fields):
    group.join("m1")
    assert group.ask(PLAIN._replace(member_id="m1", **fields)).error == Error.INVALID_REQUEST


def test_a_full_group_takes_nobody_but_those_it_has():
    group = Coordinator(Topics(a=4), SETTINGS._replace(consumer_max_size=1))
    group.joined("m1")
    assert group.join("m2").error == Error.GROUP_MAX_SIZE_REACHED
    group.joined("m1")
    assert group.beat("m1", 1).error == Error.NONE


def test_an_unknown_assignor_is_refused_with_those_that_exist(group):
    response = group.join("m1", server_assignor="sticky")
    assert response.error == Error.UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in response.message


def test_the_assignor_most_members_ask_for_is_taken(group):
    group.join("m1", server_assignor="range")
    assert group.describe().assignor == "range"
    group.join("m2")
    assert group.describe().assignor == "range"
    group.join("m3", server_assignor="uniform")
    assert group.describe().assignor == "uniform"  # a draw: our first one
    group.join("m4", server_assignor="range")
    assert group.targets() == {f"m{n + 1}": parts(a=(n,)) for n in range(4)}


# ---- expressions


def test_an_expression_subscribes_to_all_that_match_it(group):
    response = group.joined("m1", subscribed_topics=(), subscribed_regex="[ab]")
    assert response.assignment == parts(a=range(4), b=range(2))


def test_names_may_be_left_out_when_there_is_an_expression(group):
    response = group.joined("m1", subscribed_topics=None, subscribed_regex="b")
    assert response.assignment == parts(b=range(2))


def test_names_and_expression_add_up(group):
    response = group.joined("m1", subscribed_topics=("a",), subscribed_regex="b|c")
    assert response.assignment == parts(a=range(4), b=range(2))


def test_a_broken_expression_is_refused_and_says_why(group):
    response = group.join("m1", subscribed_regex="(")
    assert response.error == Error.INVALID_REGULAR_EXPRESSION
    assert "'('" in response.message
    assert not group.machine.holds(GROUP)


def test_an_empty_expression_takes_the_subscription_back(group):
    group.joined("m1", subscribed_topics=("b",), subscribed_regex="a")
    group.beat("m1", 1, subscribed_regex="")
    assert group.targets() == {"m1": parts(b=range(2))}


# ---- epochs


def test_a_stranger_is_unknown(group):
    assert group.beat("m1", 3).error == Error.GROUP_ID_NOT_FOUND
    assert group.beat("m1", -1).error == Error.GROUP_ID_NOT_FOUND
    group.join("m1")
    assert group.beat("m2", 1).error == Error.UNKNOWN_MEMBER_ID
    assert group.beat("m2", -1).error == Error.UNKNOWN_MEMBER_ID
    assert group.beat("m1", 1, instance_id="i").error == Error.UNKNOWN_MEMBER_ID


def test_a_member_ahead_of_us_is_fenced(group):
    group.join("m1")
    response = group.beat("m1", 2)
    assert response.error == Error.FENCED_MEMBER_EPOCH
    assert "2" in response.message


def test_a_member_that_missed_an_answer_goes_on(group):
    group.join("m1")
    group.join("m2")
    kept = group.beat("m1", 1).assignment
    lost = group.beat("m1", 1, owned=kept)
    assert lost.member_epoch == 2
    again = group.beat("m1", 1, owned=kept)
    assert (again.error, again.member_epoch, again.assignment) == (Error.NONE, 2, kept)


def test_a_member_in_an_old_epoch_that_owns_too_much_is_fenced(group):
    group.join("m1")
    group.join("m2")
    group.beat("m1", 1, owned=())
    for owned in (None, parts(a=range(4)), parts(b=(0,))):
        assert group.beat("m1", 1, owned=owned).error == Error.FENCED_MEMBER_EPOCH


def test_a_member_two_epochs_behind_is_fenced(group):
    group.join("m1")
    group.join("m2")
    group.beat("m1", 1, owned=())
    group.join("m3")
    group.beat("m1", 2, owned=())
    assert group.beat("m1", 1, owned=()).error == Error.FENCED_MEMBER_EPOCH


def test_a_fenced_member_starts_over_with_epoch_zero_and_keeps_its_place(group):
    group.join("m1")
    assert group.beat("m1", 9).error == Error.FENCED_MEMBER_EPOCH
    assert group.join("m1").member_epoch == 1


# ---- leaving


def test_whoever_leaves_frees_its_partitions(group):
    group.join("m1")
    group.join("m2")
    response = group.beat("m1", -1)
    assert (response.error, response.member_id, response.member_epoch) == (Error.NONE, "m1", -1)
    assert group.beat("m2", 2).assignment == parts(a=range(4))


def test_a_group_that_everybody_left_stays_and_its_epoch_goes_on(group):
    group.join("m1")
    group.beat("m1", -1)
    assert group.machine.holds(GROUP)
    assert group.machine.is_empty(GROUP)
    assert group.describe().state == "Empty"
    assert group.machine.listed() == (ListedGroup(GROUP, "consumer", "Empty", "consumer"),)
    group.fail_over(compacted=True)
    assert group.join("m1").member_epoch == 3


def test_a_forgotten_group_leaves_nothing_behind(group):
    group.join("m1")
    group.beat("m1", -1)
    tombstones = group.machine.forget(GROUP)
    assert tombstones == (TargetAssignmentEpoch(GROUP, None), ConsumerGroupEpoch(GROUP, None))
    for record in tombstones:
        group.machine.replay(record)
    assert not group.machine.holds(GROUP)
    assert group.machine.forget(GROUP) == ()
    assert group.machine.listed() == ()
    assert group.join("m1").member_epoch == 1


def test_a_group_with_members_is_forgotten_whole(group):
    group.join("m1")
    group.join("m2")
    for record in group.machine.forget(GROUP):
        group.machine.replay(record)
        group.machine.replay(record)  # a log may say things twice
    assert group.machine.stored() == {}


# ---- static members


def test_a_static_member_comes_back_to_its_partitions_under_a_new_id(group):
    group.joined("m1", instance_id="i1")
    group.joined("m2", instance_id="i2")
    group.beat("m1", 1, instance_id="i1", owned=())
    had = group.assigned()["m1"]
    assert group.beat("m1", -2, instance_id="i1").member_epoch == -2
    assert group.targets()["m1"] == had

    epoch = group.describe().epoch
    back = group.joined("m3", instance_id="i1")
    assert back.assignment == had
    assert back.member_epoch == epoch == group.describe().epoch  # nobody else has to move
    assert group.targets()["m3"] == had
    assert group.machine.stored()[GROUP].currents["m3"].previous_member_epoch == 0
    assert group.beat("m1", 2).error == Error.UNKNOWN_MEMBER_ID
    assert group.beat("m1", 2, instance_id="i1").error == Error.FENCED_INSTANCE_ID


def test_a_static_member_that_comes_back_with_another_subscription_moves_partitions(group):
    group.joined("m1", instance_id="i1")
    group.beat("m1", -2, instance_id="i1")
    back = group.joined("m2", instance_id="i1", subscribed_topics=("b",))
    assert (back.member_epoch, back.assignment) == (2, parts(b=range(2)))


def test_what_was_moved_while_a_static_member_was_away_is_given_up_when_it_is_back(group):
    group.joined("m1", instance_id="i1")
    group.beat("m1", -2, instance_id="i1")
    assert group.joined("m2").assignment == ()  # reserved
    back = group.joined("m3", instance_id="i1")
    assert len(back.assignment[0][1]) == 2
    assert len(group.beat("m2", 2).assignment[0][1]) == 2
    assert group.describe().state == "Stable"


def test_the_instance_id_of_a_living_member_cannot_be_taken(group):
    group.joined("m1", instance_id="i1")
    response = group.join("m2", instance_id="i1")
    assert response.error == Error.UNRELEASED_INSTANCE_ID
    assert "m1" in response.message


def test_a_static_member_may_rejoin_under_its_own_id(group):
    group.joined("m1", instance_id="i1")
    assert group.joined("m1", instance_id="i1").assignment == parts(a=range(4))
    group.beat("m1", -2, instance_id="i1")
    assert group.beat("m1", 1, instance_id="i1").error == Error.FENCED_MEMBER_EPOCH
    assert group.joined("m1", instance_id="i1").assignment == parts(a=range(4))


@pytest.mark.parametrize("epoch", [1, -1, -2])
def test_only_the_holder_of_an_instance_id_may_use_it(group, epoch):
    group.joined("m1", instance_id="i1")
    group.joined("m2")
    assert group.beat("m2", epoch, instance_id="i1").error == Error.FENCED_INSTANCE_ID
    assert group.beat("m2", epoch, instance_id="i9").error == Error.UNKNOWN_MEMBER_ID


def test_a_member_of_the_group_cannot_take_the_place_of_another(group):
    group.joined("m1", instance_id="i1")
    group.joined("m2")
    group.beat("m1", -2, instance_id="i1")
    assert group.join("m2", instance_id="i1").error == Error.INVALID_REQUEST


def test_a_static_member_may_leave_for_good(group):
    group.joined("m1", instance_id="i1")
    group.beat("m1", -1, instance_id="i1")
    assert group.machine.is_empty(GROUP)
    assert group.joined("m2", instance_id="i1").error == Error.NONE


def test_a_static_member_that_stays_away_is_removed(group):
    group.joined("m1", instance_id="i1")
    group.joined("m2")
    group.beat("m1", -2, instance_id="i1")
    group.pass_time(44_000)
    group.beat("m2", 2)
    assert set(group.targets()) == {"m1", "m2"}
    group.pass_time(1_000)
    assert group.targets() == {"m2": parts(a=range(4))}
    assert group.beat("m2", 2).assignment == parts(a=range(4))


# ---- sessions


def test_a_member_that_is_not_heard_of_is_removed(group):
    group.join("m1")
    group.pass_time(44_999)
    assert group.describe().state == "Stable"
    group.pass_time(1)
    assert group.describe().state == "Empty"
    assert group.beat("m1", 1).error == Error.UNKNOWN_MEMBER_ID
    assert group.machine.next_deadline_ms() == NEVER_MS


def test_every_heartbeat_prolongs_the_session(group):
    group.join("m1")
    for _ in range(5):
        group.pass_time(44_000)
        assert group.beat("m1", 1).error == Error.NONE


def test_all_who_are_due_together_make_one_epoch(group):
    for name in ("m1", "m2", "m3"):
        group.join(name)
    group.pass_time(45_000)
    assert (group.describe().state, group.describe().epoch) == ("Empty", 4)


def test_a_broken_connection_is_believed_when_a_heartbeat_is_missed(group):
    group.join("m1")
    group.connection_broke("m1")
    group.pass_time(10_000)
    group.pass_time(499)
    assert group.describe().state == "Stable"
    group.pass_time(1)
    assert group.describe().state == "Empty"


def test_a_member_that_reconnects_with_its_next_heartbeat_stays(group):
    group.join("m1")
    for _ in range(5):
        group.connection_broke("m1")
        group.pass_time(5_000)
        assert group.beat("m1", 1).error == Error.NONE


def test_a_member_whose_client_is_there_has_a_third_of_its_session(group):
    group.join("m1")
    group.connection_broke("m1")
    group.pass_time(10_499)
    group.connection_broke("m1", client_is_there=True)
    group.pass_time(15_000 - 10_499)
    group.pass_time(499)
    assert group.describe().state == "Stable"
    group.pass_time(1)
    assert group.describe().state == "Empty"


def test_a_member_with_a_new_connection_has_its_session_back(group):
    group.join("m1")
    group.connection_broke("m1")
    group.connection_broke("m1")
    assert group.machine.check_commit(commit("m1", 1)) == Error.NONE
    group.pass_time(44_999)
    assert group.describe().state == "Stable"
    group.connection_broke("m1")
    group.beat("m1", 1)
    group.pass_time(44_999)
    assert group.describe().state == "Stable"


def test_a_broken_connection_never_prolongs_a_session_nor_ends_that_of_a_static_member(group):
    group.join("m1")
    group.join("m2", instance_id="i2")
    group.connection_broke("m2")
    group.connection_broke("nobody")
    group.pass_time(44_999)
    group.connection_broke("m1")
    group.connection_broke("m1", client_is_there=True)
    assert set(group.targets()) == {"m1", "m2"}
    group.pass_time(1)
    assert group.describe().state == "Empty"


# ---- offsets


def commit(member_id, epoch, **changes):
    return CommitOffsets(GROUP, member_id, epoch, None, (), **changes)


def test_members_commit_in_their_epoch_only(group):
    group.join("m1")
    check = group.machine.check_commit
    assert check(commit("m1", 1)) == Error.NONE
    assert check(commit("m1", 0)) == Error.STALE_MEMBER_EPOCH
    assert check(commit("m1", 2)) == Error.STALE_MEMBER_EPOCH
    assert check(commit("m2", 1)) == Error.UNKNOWN_MEMBER_ID
    transactional = CommitTransactionalOffsets(GROUP, "m1", 7, None, 1, 0, ())
    assert check(transactional) == Error.STALE_MEMBER_EPOCH


def test_a_commit_that_knows_no_epochs_is_refused_whatever_it_says(group):
    """OffsetCommit v8: its sender would not understand that an epoch is stale."""
    group.join("m1")
    check = group.machine.check_commit
    assert check(commit("m1", 1, knows_epochs=False)) == Error.UNSUPPORTED_VERSION
    assert check(commit("m1", 0, knows_epochs=False)) == Error.UNSUPPORTED_VERSION
    assert check(commit("m2", 1, knows_epochs=False)) == Error.UNKNOWN_MEMBER_ID
    group.beat("m1", -1)
    nobody = commit(UNKNOWN_MEMBER, NO_GENERATION, knows_epochs=False)
    assert check(nobody) == Error.NONE


def test_an_administrator_may_commit_when_nobody_is_there(group):
    nobody = commit(UNKNOWN_MEMBER, NO_GENERATION)
    group.join("m1")
    assert group.machine.check_commit(nobody) == Error.UNKNOWN_MEMBER_ID
    group.beat("m1", -1)
    assert group.machine.check_commit(nobody) == Error.NONE
    assert group.machine.check_commit(commit("m1", 1)) == Error.UNKNOWN_MEMBER_ID


def test_fetches_of_members_are_checked_and_others_are_not(group):
    group.join("m1")
    check = group.machine.check_fetch
    assert check(FetchOffsets(GROUP, None, -1, None, False)) == Error.NONE
    assert check(FetchOffsets(GROUP, "m1", 1, None, False)) == Error.NONE
    assert check(FetchOffsets(GROUP, "m1", 0, None, False)) == Error.STALE_MEMBER_EPOCH
    assert check(FetchOffsets(GROUP, "m2", 1, None, False)) == Error.UNKNOWN_MEMBER_ID


# ---- looking


def test_a_group_tells_all_about_its_members(group):
    group.join("m1", rack_id="r1", instance_id="i1", subscribed_regex="z")
    described = group.describe()
    assert (described.epoch, described.assignment_epoch) == (1, 1)
    (member,) = described.members
    assert member.client == CLIENT
    assert (member.instance_id, member.rack_id, member.member_epoch) == ("i1", "r1", 1)
    assert (member.subscribed_topics, member.subscribed_regex) == (("a",), "z")
    assert member.assignment == member.target == parts(a=range(4))


def test_an_unknown_group_cannot_be_described(group):
    described = group.describe("nobody's")
    assert described.error == Error.GROUP_ID_NOT_FOUND
    assert "nobody's" in described.message


def test_a_group_knows_what_it_subscribes_to(group):
    group.join("m1", subscribed_regex="b")
    subscribes = group.machine.subscribes
    assert subscribes(GROUP, "a")
    assert subscribes(GROUP, "b")
    assert not subscribes(GROUP, "c")
    assert not subscribes("other", "a")
