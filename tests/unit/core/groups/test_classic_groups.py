"""Classic groups: members join, elect a leader, and get what the leader assigns."""

import pytest

from support.groups import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Ask,
    GroupBench,
    assign,
    commit,
    heartbeat,
    join,
    leave,
    new_offset,
    protocols,
    stable_group,
    sync,
)
from tidelog.core.errors import Error
from tidelog.core.events import GroupStateChanged, MemberLeft
from tidelog.core.groups.records import ClassicGroup
from tidelog.core.groups.requests import (
    CallerGone,
    ConnectionLost,
    DeleteGroup,
    DescribeGroup,
    JoinedMember,
    LeaveGroup,
    Leaver,
    ListGroups,
)
from tidelog.core.groups.settings import GroupSettings

GRACE_MS = GroupSettings().disconnect_grace_ms
USUAL_MS = GroupSettings().usual_heartbeat_interval_ms
UNKNOWN_RHYTHM_PATIENCE_MS = SESSION_MS // 2


@pytest.fixture
def bench() -> GroupBench:
    return GroupBench()


def state(bench: GroupBench) -> str:
    return str(bench.ask(DescribeGroup(GROUP)).response.state)


def members(bench: GroupBench) -> list[str]:
    return [each.member_id for each in bench.ask(DescribeGroup(GROUP)).response.members]


def left(bench: GroupBench) -> list[tuple[str, str]]:
    return [(each.member_id, each.reason) for each in bench.events if isinstance(each, MemberLeft)]


def joined(bench: GroupBench, *tokens: Ask) -> int:
    bench.pass_time(0)
    return assign(bench, list(tokens))


# -- a group comes to be


def test_the_first_to_come_leads_and_is_given_the_papers_of_all(bench):
    ann, bob = bench.ask(join(fresh="ann")), bench.ask(join(fresh="bob"))
    assert ann.waits
    assert bob.waits
    bench.pass_time(0)
    papers = protocols("range")[0].metadata
    assert ann.response.members == (
        JoinedMember("ann", None, papers),
        JoinedMember("bob", None, papers),
    )
    assert ann.response.leader == bob.response.leader == "ann"
    assert bob.response.members == ()
    assert bob.response.generation == 1
    assert (bob.response.protocol_type, bob.response.protocol) == ("consumer", "range")


def test_nobody_is_assigned_anything_before_the_leader_has_spoken(bench):
    bench.ask(join(fresh="ann"))
    bench.ask(join(fresh="bob"))
    bench.pass_time(0)
    bob = bench.ask(sync("bob", 1))
    assert bob.waits
    assert state(bench) == "CompletingRebalance"
    assert bench.log == []
    ann = bench.ask(sync("ann", 1, ann=b"0", bob=b"1"))
    assert (ann.response.assignment, bob.response.assignment) == (b"0", b"1")
    assert (bob.response.protocol_type, bob.response.protocol) == ("consumer", "range")
    assert state(bench) == "Stable"


def test_an_agreement_is_written_down_as_one_record(bench):
    stable_group(bench, "ann", "bob")
    (write,) = bench.log
    (record,) = write.records
    assert isinstance(record, ClassicGroup)
    assert record.value is not None
    assert (record.value.generation, record.value.leader) == (1, "ann")
    assert [(each.member_id, each.assignment) for each in record.value.members] == [
        ("ann", b"ann"),
        ("bob", b"bob"),
    ]


def test_a_member_that_the_leader_forgot_is_assigned_nothing(bench):
    bench.ask(join(fresh="ann"))
    bench.ask(join(fresh="bob"))
    bench.pass_time(0)
    bob = bench.ask(sync("bob", 1))
    bench.ask(sync("ann", 1, ann=b"all", nobody=b"x"))
    assert bob.response.assignment == b""


def test_a_dynamic_member_is_given_an_id_first_and_comes_back_with_it(bench):
    first = bench.ask(join(fresh="ann", needs_known_member_id=True))
    assert (first.error, first.response.member_id) == (Error.MEMBER_ID_REQUIRED, "ann")
    again = bench.ask(join("ann", needs_known_member_id=True))
    generation = joined(bench, again)
    assert members(bench) == ["ann"]
    for _ in range(3):
        bench.pass_time(SESSION_MS - 1)
        assert bench.ask(heartbeat("ann", generation)).error == Error.NONE


def test_an_id_that_was_given_out_to_a_dynamic_member_is_none_of_a_static_one(bench):
    bench.ask(join(fresh="ann", needs_known_member_id=True))
    token = bench.ask(join("ann", instance_id="i"))
    assert token.error == Error.UNKNOWN_MEMBER_ID


def test_an_id_that_leaves_before_it_is_used_is_not_waited_for(bench):
    stable_group(bench, "ann")
    bench.ask(join(fresh="bob", needs_known_member_id=True))
    ann = bench.ask(join("ann"))
    assert ann.waits
    bench.ask(leave("bob"))
    assert ann.error == Error.NONE


def test_an_id_whose_connection_broke_is_not_waited_for(bench):
    stable_group(bench, "ann")
    bench.ask(join(fresh="bob", needs_known_member_id=True))
    ann = bench.ask(join("ann"))
    bench.tell(ConnectionLost(GROUP, "bob", client_is_there=False))
    bench.pass_time(2 * USUAL_MS - 1)
    assert ann.waits
    bench.pass_time(1)
    assert ann.error == Error.NONE


def test_an_id_that_was_given_out_is_waited_for_until_its_session_is_over(bench):
    stable_group(bench, "ann")
    bench.ask(join(fresh="bob", needs_known_member_id=True))
    ann = bench.ask(join("ann"))
    bench.pass_time(SESSION_MS - 1)
    assert ann.waits
    bench.pass_time(1)
    assert ann.error == Error.NONE


def test_an_id_that_is_never_used_leaves_no_group_behind(bench):
    bench.ask(join(fresh="ann", needs_known_member_id=True))
    assert len(bench.ask(ListGroups()).response.groups) == 1
    bench.pass_time(SESSION_MS)
    assert bench.ask(ListGroups()).response.groups == ()
    assert bench.log == []
    assert bench.ask(join("ann")).error == Error.UNKNOWN_MEMBER_ID


def test_an_id_that_is_never_used_holds_up_a_rebalance_no_longer_than_a_member(bench):
    stable_group(bench, "ann")
    bench.ask(join(fresh="bob", needs_known_member_id=True, session_timeout_ms=300_000))
    ann = bench.ask(join("ann"))
    bench.pass_time(REBALANCE_MS - 1)
    assert ann.waits
    bench.pass_time(1)
    assert ann.error == Error.NONE
    assert left(bench) == [("bob", "did not rejoin in time")]
    assert bench.ask(join("bob")).error == Error.UNKNOWN_MEMBER_ID


def test_an_id_of_a_deleted_group_is_nobody(bench):
    stable_group(bench, "ann")
    bench.ask(leave("ann"))
    bench.ask(join(fresh="bob", needs_known_member_id=True))
    assert bench.ask(DeleteGroup(GROUP)).error == Error.NONE
    bench.pass_time(SESSION_MS)
    assert bench.ask(join("bob")).error == Error.UNKNOWN_MEMBER_ID


def test_a_new_group_waits_for_company_as_long_as_somebody_comes():
    bench = GroupBench(GroupSettings(initial_rebalance_delay_ms=3_000))
    ann = bench.ask(join(fresh="ann"))
    bench.pass_time(2_000)
    bob = bench.ask(join(fresh="bob"))
    bench.pass_time(1_000)
    assert ann.waits
    bench.pass_time(2_999)
    assert bob.waits
    bench.pass_time(1)
    assert len(ann.response.members) == 2


def test_a_new_group_does_not_wait_longer_than_its_rebalance_timeout():
    bench = GroupBench(GroupSettings(initial_rebalance_delay_ms=3_000))
    ann = bench.ask(join(fresh="ann", rebalance_timeout_ms=7_000))
    for index in range(6):
        bench.pass_time(1_000)
        bench.ask(join(fresh=f"m{index}", rebalance_timeout_ms=7_000))
    assert ann.waits
    bench.pass_time(1_000)
    assert len(ann.response.members) == 7


def test_the_protocol_that_most_members_prefer_wins_among_those_all_have(bench):
    ann = bench.ask(join(fresh="ann", protocols=protocols("own", "range", "sticky")))
    bench.ask(join(fresh="bob", protocols=protocols("sticky", "range")))
    bench.ask(join(fresh="cid", protocols=protocols("sticky", "range")))
    bench.pass_time(0)
    assert ann.response.protocol == "sticky"


# -- rebalances


def test_a_newcomer_makes_everybody_join_again(bench):
    generation = stable_group(bench, "ann", "bob")
    cid = bench.ask(join(fresh="cid"))
    assert cid.waits
    beat = bench.ask(heartbeat("bob", generation))
    assert beat.error == Error.REBALANCE_IN_PROGRESS
    bob, ann = bench.ask(join("bob")), bench.ask(join("ann"))
    assert assign(bench, [ann, bob, cid]) == generation + 1
    assert ann.response.leader == "ann"
    assert bench.ask(heartbeat("bob", generation + 1)).error == Error.NONE


def test_members_hand_papers_over_unread_so_cooperative_ones_work(bench):
    stable_group(bench, "ann")
    bob = bench.ask(join(fresh="bob"))
    owned = protocols("range")[0]._replace(metadata=b"owned: 0,1")
    ann = bench.ask(join("ann", protocols=(owned,)))
    assert ann.response.members[0].metadata == b"owned: 0,1"
    assert bob.error == Error.NONE


def test_whoever_does_not_join_again_in_time_is_out(bench):
    generation = stable_group(bench, "ann", "bob")
    cid = bench.ask(join(fresh="cid"))
    for _ in range(REBALANCE_MS // 5_000):
        assert bench.ask(heartbeat("ann", generation)).error == Error.REBALANCE_IN_PROGRESS
        assert bench.ask(heartbeat("bob", generation)).error == Error.REBALANCE_IN_PROGRESS
        assert cid.waits
        bench.pass_time(5_000)
    assert cid.response.leader == "cid"
    assert members(bench) == ["cid"]
    assert left(bench) == [
        ("ann", "did not rejoin in time"),
        ("bob", "did not rejoin in time"),
    ]
    assert bench.ask(heartbeat("ann", generation)).error == Error.UNKNOWN_MEMBER_ID


def test_a_rebalance_takes_as_long_as_the_slowest_member_may(bench):
    stable_group(bench, "ann", "bob")
    quick = bench.ask(join("ann", rebalance_timeout_ms=1_000, protocols=protocols("range")))
    bench.pass_time(SESSION_MS - 1)
    assert quick.waits
    bench.ask(heartbeat("bob", 1))
    slow = bench.ask(join("bob"))
    assert quick.response.generation == slow.response.generation == 2


def test_whoever_does_not_ask_for_its_assignment_in_time_is_out(bench):
    bench.ask(join(fresh="ann"))
    bench.ask(join(fresh="bob"))
    bench.pass_time(0)
    bench.ask(sync("ann", 1))
    for _ in range(REBALANCE_MS // 5_000):
        assert bench.ask(heartbeat("bob", 1)).error == Error.NONE
        assert bench.ask(heartbeat("ann", 1)).error == Error.NONE
        bench.pass_time(5_000)
    assert left(bench) == [("bob", "did not rejoin in time")]
    assert bench.ask(heartbeat("ann", 1)).error == Error.REBALANCE_IN_PROGRESS


def test_heartbeats_between_join_and_sync_are_fine(bench):
    bench.ask(join(fresh="ann"))
    bench.pass_time(0)
    assert bench.ask(heartbeat("ann", 1)).error == Error.NONE


def test_a_sync_that_waits_is_told_of_the_next_rebalance(bench):
    bench.ask(join(fresh="ann"))
    bench.ask(join(fresh="bob"))
    bench.pass_time(0)
    bob = bench.ask(sync("bob", 1))
    bench.ask(join(fresh="cid"))
    assert bob.error == Error.REBALANCE_IN_PROGRESS
    assert bench.ask(sync("ann", 1)).error == Error.REBALANCE_IN_PROGRESS


def test_a_leader_that_joins_again_starts_a_rebalance_and_a_follower_does_not(bench):
    stable_group(bench, "ann", "bob")
    bob = bench.ask(join("bob"))
    assert (bob.response.generation, bob.response.members) == (1, ())
    assert state(bench) == "Stable"
    assert bench.ask(join("ann")).waits
    assert state(bench) == "PreparingRebalance"


def test_a_follower_that_wants_other_topics_starts_a_rebalance(bench):
    stable_group(bench, "ann", "bob")
    assert bench.ask(join("bob", protocols=protocols("range", topics=("invoices",)))).waits
    assert state(bench) == "PreparingRebalance"


# -- requests that are repeated


def test_a_join_that_is_repeated_takes_the_place_of_the_first(bench):
    stable_group(bench, "ann", "bob")
    first = bench.ask(join("ann"))
    second = bench.ask(join("ann"))
    assert first.error == Error.REBALANCE_IN_PROGRESS
    assert second.waits
    bench.ask(join("bob"))
    assert second.response.generation == 2


def test_a_join_repeated_after_its_answer_is_answered_again(bench):
    ann = bench.ask(join(fresh="ann"))
    bench.pass_time(0)
    assert bench.ask(join("ann")).response == ann.response


def test_a_sync_that_is_repeated_takes_the_place_of_the_first(bench):
    bench.ask(join(fresh="ann"))
    bench.ask(join(fresh="bob"))
    bench.pass_time(0)
    first = bench.ask(sync("bob", 1))
    second = bench.ask(sync("bob", 1))
    assert first.error == Error.REBALANCE_IN_PROGRESS
    bench.ask(sync("ann", 1, bob=b"x"))
    assert second.response.assignment == b"x"
    assert bench.ask(sync("bob", 1)).response.assignment == b"x"


# -- members go


def test_the_last_one_to_leave_leaves_an_empty_group(bench):
    generation = stable_group(bench, "ann", "bob")
    assert bench.ask(leave("ann", "bob")).response.errors == (Error.NONE, Error.NONE)
    assert state(bench) == "Empty"
    record = bench.log[-1].records[0]
    assert (record.value.generation, record.value.members) == (generation + 1, ())
    assert (record.value.protocol, record.value.leader) == (None, None)
    assert left(bench) == [("ann", "left"), ("bob", "left")]
    assert bench.ask(heartbeat("ann", generation + 1)).error == Error.UNKNOWN_MEMBER_ID


def test_each_leaver_has_an_error_of_its_own(bench):
    stable_group(bench, "ann")
    bench.ask(join(fresh="bob", needs_known_member_id=True))
    answer = bench.ask(leave("nobody", "bob", "ann")).response
    assert answer.error == Error.NONE
    assert answer.errors == (Error.UNKNOWN_MEMBER_ID, Error.NONE, Error.NONE)


def test_when_the_leader_leaves_another_member_leads(bench):
    stable_group(bench, "ann", "bob", "cid")
    bench.ask(leave("ann"))
    bob, cid = bench.ask(join("bob")), bench.ask(join("cid"))
    assert bob.response.leader == cid.response.leader == "bob"


def test_a_session_without_a_sign_of_life_expires(bench):
    generation = stable_group(bench, "ann", "bob")
    bench.pass_time(SESSION_MS - 1)
    assert bench.ask(heartbeat("ann", generation)).error == Error.NONE
    bench.pass_time(1)
    assert left(bench) == [("bob", "session expired")]
    assert bench.ask(heartbeat("ann", generation)).error == Error.REBALANCE_IN_PROGRESS


def test_a_commit_is_a_sign_of_life(bench):
    generation = stable_group(bench, "ann")
    bench.pass_time(SESSION_MS - 1)
    bench.ask(commit(new_offset(5), member_id="ann", generation=generation))
    bench.pass_time(SESSION_MS - 1)
    assert left(bench) == []


def test_a_parked_join_keeps_its_session(bench):
    stable_group(bench, "ann", "bob")
    ann = bench.ask(join("ann"))
    for _ in range(5):
        bench.pass_time(SESSION_MS - 1)
        bench.ask(heartbeat("bob", 1))
    assert ann.waits
    bench.ask(join("bob"))
    assert ann.response.leader == "ann"


def test_a_member_whose_connection_broke_is_out_when_it_missed_a_heartbeat(bench):
    generation = stable_group(bench, "ann", "bob")
    bench.tell(ConnectionLost(GROUP, "bob", client_is_there=False))
    bench.pass_time(UNKNOWN_RHYTHM_PATIENCE_MS)
    bench.pass_time(GRACE_MS - 1)
    assert left(bench) == []
    bench.pass_time(1)
    assert left(bench) == [("bob", "connection lost")]
    assert bench.ask(heartbeat("bob", generation)).error == Error.UNKNOWN_MEMBER_ID


def test_a_member_that_is_heard_of_again_keeps_its_session(bench):
    generation = stable_group(bench, "ann")
    bench.tell(ConnectionLost(GROUP, "ann", client_is_there=False))
    bench.ask(heartbeat("ann", generation))
    bench.pass_time(SESSION_MS - 1)
    assert left(bench) == []
    bench.pass_time(1)
    assert left(bench) == [("ann", "session expired")]


def test_a_member_is_heard_of_at_the_last_moment(bench):
    generation = stable_group(bench, "ann")
    bench.tell(ConnectionLost(GROUP, "ann", client_is_there=False))
    bench.pass_time(UNKNOWN_RHYTHM_PATIENCE_MS)
    bench.pass_time(GRACE_MS - 1)
    assert bench.ask(heartbeat("ann", generation)).error == Error.NONE
    bench.pass_time(SESSION_MS - 1)
    assert left(bench) == []


def test_a_client_that_connects_when_its_member_is_doubted_has_some_more_time(bench):
    session_ms = 10 * USUAL_MS
    token = bench.ask(join(fresh="ann", session_timeout_ms=session_ms))
    generation = joined(bench, token)
    for _ in range(2):
        bench.ask(heartbeat("ann", generation))
        bench.pass_time(100)
    bench.tell(ConnectionLost(GROUP, "ann", client_is_there=False))
    bench.pass_time(2 * USUAL_MS)
    bench.tell(ConnectionLost(GROUP, "ann", client_is_there=True))
    bench.pass_time(session_ms // 3 - 2 * USUAL_MS - 100)
    bench.pass_time(GRACE_MS - 1)
    assert left(bench) == []
    bench.pass_time(1)
    assert left(bench) == [("ann", "connection lost")]


def test_a_broken_connection_does_not_prolong_a_session(bench):
    generation = stable_group(bench, "ann")
    bench.ask(heartbeat("ann", generation))
    bench.pass_time(SESSION_MS - 1)
    bench.ask(heartbeat("ann", generation))
    bench.tell(ConnectionLost(GROUP, "ann", client_is_there=True))
    bench.pass_time(SESSION_MS)
    bench.pass_time(GRACE_MS)
    assert members(bench) == []


def test_one_that_hung_up_in_a_rebalance_holds_nobody_up_and_is_missed_soon(bench):
    stable_group(bench, "ann", "bob")
    papers = protocols("range", topics=("invoices",))
    ann = bench.ask(join("ann", protocols=papers))
    bench.tell(CallerGone(GROUP, ann))
    bob = bench.ask(join("bob", protocols=papers))
    assert bob.response.leader == "bob", "nobody waits for what ann would assign"
    assert len(bob.response.members) == 2
    bench.pass_time(2 * USUAL_MS)
    bench.pass_time(GRACE_MS - 1)
    assert left(bench) == []
    bench.pass_time(1)
    assert left(bench) == [("ann", "connection lost")]


def test_one_that_hung_up_in_a_rebalance_comes_back_for_the_answer(bench):
    stable_group(bench, "ann", "bob")
    papers = protocols("range", topics=("invoices",))
    bench.tell(CallerGone(GROUP, bench.ask(join("bob", protocols=papers))))
    ann = bench.ask(join("ann", protocols=papers))
    bob = bench.ask(join("bob", protocols=papers))
    assert bob.response.generation == ann.response.generation
    bench.pass_time(SESSION_MS - 1)
    assert left(bench) == []


def test_one_that_hung_up_leads_if_nobody_else_can():
    bench = GroupBench(GroupSettings(initial_rebalance_delay_ms=3_000))
    bench.ask(join(fresh="ann", needs_known_member_id=True))
    ann = bench.ask(join("ann"))
    bench.tell(CallerGone(GROUP, ann))
    bench.pass_time(3_000)
    assert ann.response.leader == "ann"


def test_a_join_that_was_sent_again_counts_though_the_first_connection_broke(bench):
    stable_group(bench, "ann", "bob")
    papers = protocols("range", topics=("invoices",))
    first = bench.ask(join("ann", protocols=papers))
    second = bench.ask(join("ann", protocols=papers))
    bench.tell(CallerGone(GROUP, first))
    bob = bench.ask(join("bob", protocols=papers))
    assert second.error == bob.error == Error.NONE


def test_a_sync_that_nobody_waits_for_is_asked_for_again(bench):
    bench.ask(join(fresh="ann"))
    bob = bench.ask(join(fresh="bob"))
    bench.pass_time(0)
    generation = bob.response.generation
    waiting = bench.ask(sync("bob", generation))
    bench.tell(CallerGone(GROUP, waiting))
    bench.ask(sync("ann", generation, ann=b"a", bob=b"b"))
    assert bench.ask(sync("bob", generation)).response.assignment == b"b"


def test_a_member_that_was_never_told_its_id_goes_with_its_connection(bench):
    stable_group(bench, "ann")
    bob = bench.ask(join(fresh="bob"))
    bench.tell(CallerGone(GROUP, bob))
    assert left(bench) == [("bob", "connection lost")]
    assert bench.ask(join("ann")).error == Error.NONE


def test_a_hint_about_somebody_unknown_changes_nothing(bench):
    bench.tell(ConnectionLost(GROUP, "nobody", client_is_there=False))
    stable_group(bench, "ann")
    bench.tell(ConnectionLost(GROUP, "nobody", client_is_there=False))
    bench.pass_time(100)
    assert left(bench) == []


# -- another coordinator


def test_after_a_failover_members_go_on_with_fresh_sessions(bench):
    generation = stable_group(bench, "ann", "bob")
    bench.pass_time(SESSION_MS - 1)
    bench.fail_over()
    assert state(bench) == "Stable"
    bench.pass_time(SESSION_MS - 1)
    assert bench.ask(heartbeat("ann", generation)).error == Error.NONE
    assert bench.ask(heartbeat("bob", generation)).error == Error.NONE
    assert bench.ask(sync("bob", generation)).response.assignment == b"bob"


def test_a_failover_in_a_rebalance_leaves_the_last_agreement(bench):
    generation = stable_group(bench, "ann")
    bob, ann = bench.ask(join(fresh="bob")), bench.ask(join("ann"))
    assert ann.response.generation == bob.response.generation == generation + 1
    waiting = bench.ask(sync("bob", generation + 1))
    bench.fail_over()
    assert waiting.refused
    assert bench.ask(heartbeat("ann", generation + 1)).error == Error.ILLEGAL_GENERATION
    assert bench.ask(heartbeat("bob", generation + 1)).error == Error.UNKNOWN_MEMBER_ID
    assert members(bench) == ["ann"]


def test_sessions_begin_anew_when_time_stood_still(bench):
    generation = stable_group(bench, "ann", "bob")
    waiting = bench.ask(join("ann"))
    bench.now_ms += 10 * REBALANCE_MS
    bench.settle(bench.machine.activate(bench.now))
    bench.pass_time(SESSION_MS - 1)
    assert waiting.waits
    assert bench.ask(heartbeat("bob", generation)).error == Error.REBALANCE_IN_PROGRESS
    bench.ask(join("bob"))
    assert waiting.error == Error.NONE


def test_a_generation_that_waits_for_its_leader_goes_on_when_time_stood_still(bench):
    bench.ask(join(fresh="ann"))
    bench.pass_time(0)
    bench.ask(join(fresh="bob", needs_known_member_id=True))
    bench.now_ms += 10 * REBALANCE_MS
    bench.settle(bench.machine.activate(bench.now))
    bench.pass_time(1)
    assert left(bench) == []
    assert bench.ask(sync("ann", 1)).error == Error.NONE
    assert bench.ask(join("bob")).waits


# -- bad input: the right error, and nothing changed


BAD_GROUP = "unknown"

BAD_REQUESTS = {
    "a heartbeat of an old generation": (heartbeat("ann", 0), Error.ILLEGAL_GENERATION),
    "a heartbeat of a future generation": (heartbeat("ann", 2), Error.ILLEGAL_GENERATION),
    "a heartbeat of a stranger": (heartbeat("eve", 1), Error.UNKNOWN_MEMBER_ID),
    "a heartbeat of an unknown instance": (heartbeat("ann", 1, "i"), Error.UNKNOWN_MEMBER_ID),
    "a heartbeat to nowhere": (
        heartbeat("ann", 1)._replace(group_id=BAD_GROUP),
        Error.UNKNOWN_MEMBER_ID,
    ),
    "a heartbeat without a group": (
        heartbeat("ann", 1)._replace(group_id=""),
        Error.INVALID_GROUP_ID,
    ),
    "a sync of an old generation": (sync("ann", 0, ann=b"x"), Error.ILLEGAL_GENERATION),
    "a sync of a stranger": (sync("eve", 1, eve=b"x"), Error.UNKNOWN_MEMBER_ID),
    "a sync to nowhere": (
        sync("ann", 1)._replace(group_id=BAD_GROUP),
        Error.UNKNOWN_MEMBER_ID,
    ),
    "a sync for another protocol": (
        sync("ann", 1)._replace(protocol="sticky"),
        Error.INCONSISTENT_GROUP_PROTOCOL,
    ),
    "a sync for another protocol type": (
        sync("ann", 1)._replace(protocol_type="connect"),
        Error.INCONSISTENT_GROUP_PROTOCOL,
    ),
    "a join of a stranger with an id": (join("eve"), Error.UNKNOWN_MEMBER_ID),
    "a join with an id to nowhere": (
        join("ann", group_id=BAD_GROUP),
        Error.UNKNOWN_MEMBER_ID,
    ),
    "a join without a group": (join(fresh="eve", group_id=""), Error.INVALID_GROUP_ID),
    "a join with too short a session": (
        join(fresh="eve", session_timeout_ms=5_999),
        Error.INVALID_SESSION_TIMEOUT,
    ),
    "a join with too long a session": (
        join(fresh="eve", session_timeout_ms=1_800_001),
        Error.INVALID_SESSION_TIMEOUT,
    ),
    "a join with nothing in common": (
        join(fresh="eve", protocols=protocols("sticky")),
        Error.INCONSISTENT_GROUP_PROTOCOL,
    ),
    "a join of another type": (
        join(fresh="eve", protocol_type="connect"),
        Error.INCONSISTENT_GROUP_PROTOCOL,
    ),
    "a join without protocols": (
        join(fresh="eve", protocols=()),
        Error.INCONSISTENT_GROUP_PROTOCOL,
    ),
    "a join without protocols to a new group": (
        join(fresh="eve", protocols=(), group_id=BAD_GROUP),
        Error.INCONSISTENT_GROUP_PROTOCOL,
    ),
    "a leave from nowhere": (
        LeaveGroup(BAD_GROUP, (Leaver("ann", None),)),
        Error.UNKNOWN_MEMBER_ID,
    ),
    "a leave without a group": (LeaveGroup("", ()), Error.INVALID_GROUP_ID),
    "a commit of an old generation": (
        commit(new_offset(9), member_id="ann", generation=0),
        Error.ILLEGAL_GENERATION,
    ),
    "a commit of a stranger": (
        commit(new_offset(9), member_id="eve", generation=1),
        Error.UNKNOWN_MEMBER_ID,
    ),
    "a commit of nobody in a group with members": (commit(new_offset(9)), Error.UNKNOWN_MEMBER_ID),
    "a commit with a generation to nowhere": (
        commit(new_offset(9), member_id="ann", generation=1, group_id=BAD_GROUP),
        Error.GROUP_ID_NOT_FOUND,
    ),
    "the same, from before KIP-848": (
        commit(new_offset(9), member_id="ann", generation=1, group_id=BAD_GROUP)._replace(
            knows_epochs=False
        ),
        Error.ILLEGAL_GENERATION,
    ),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_bad_input_gets_its_error_and_changes_nothing(bench, name):
    stable_group(bench, "ann", "bob")
    bench.ask(commit(new_offset(5), member_id="ann", generation=1))
    request, error = BAD_REQUESTS[name]
    before = bench.machine.hard_state(), len(bench.log), len(bench.events)
    described = bench.ask(DescribeGroup(GROUP)).response
    assert bench.ask(request).error == error
    assert (bench.machine.hard_state(), len(bench.log), len(bench.events)) == before
    assert bench.replayed().hard_state() == before[0]
    assert bench.ask(DescribeGroup(GROUP)).response == described
    assert len(bench.ask(ListGroups()).response.groups) == 1


def test_a_full_group_takes_nobody_in():
    bench = GroupBench(GroupSettings(initial_rebalance_delay_ms=0, max_size=2))
    bench.ask(join(fresh="ann"))
    bench.ask(join(fresh="cid", needs_known_member_id=True))
    bench.ask(join(fresh="bob"))
    assert bench.ask(join(fresh="eve")).error == Error.GROUP_MAX_SIZE_REACHED
    assert bench.ask(join("cid")).error == Error.GROUP_MAX_SIZE_REACHED
    bench.pass_time(0)
    assert bench.ask(join("bob")).error == Error.NONE
    assert members(bench) == ["ann", "bob"]
    bench.ask(sync("ann", 1))
    bench.ask(sync("bob", 1))
    ann, bob = bench.ask(join("ann")), bench.ask(join("bob"))
    assert ann.error == bob.error == Error.NONE  # nobody waits for the one that was refused


def test_a_session_of_no_time_is_refused_whatever_the_settings_say():
    bench = GroupBench(GroupSettings(min_session_timeout_ms=0))
    token = bench.ask(join(fresh="ann", session_timeout_ms=0))
    assert token.error == Error.INVALID_SESSION_TIMEOUT


# -- looking at it


def test_a_description_shows_papers_and_assignments_of_a_stable_group(bench):
    stable_group(bench, "ann")
    described = bench.ask(DescribeGroup(GROUP)).response
    assert (described.state, described.protocol_type, described.protocol) == (
        "Stable",
        "consumer",
        "range",
    )
    assert described.members[0].assignment == b"ann"
    assert described.members[0].metadata == protocols("range")[0].metadata
    bench.ask(join("ann"))
    assert bench.ask(DescribeGroup("other")).response.state == "Dead"


def test_what_happens_to_a_group_is_told(bench):
    stable_group(bench, "ann")
    bench.ask(leave("ann"))
    told = [
        (each.state, each.generation, each.members)
        for each in bench.events
        if isinstance(each, GroupStateChanged)
    ]
    assert told == [
        ("PreparingRebalance", 0, 1),
        ("CompletingRebalance", 1, 1),
        ("Stable", 1, 1),
        ("PreparingRebalance", 1, 0),
        ("Empty", 2, 0),
    ]
