"""Static members: known by their instance, they may restart without a rebalance (KIP-345)."""

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
    subscription,
    sync,
)
from tidelog.core.errors import Error
from tidelog.core.events import MemberLeft
from tidelog.core.groups.requests import (
    ConnectionLost,
    DescribeGroup,
    JoinProtocol,
    LeaveGroup,
    Leaver,
)


@pytest.fixture
def bench() -> GroupBench:
    """Two static members, i1 leads; their ids are a1 and a2."""
    made = GroupBench()
    tokens = [made.ask(static(index)) for index in (1, 2)]
    made.pass_time(0)
    assign(made, tokens)
    return made


def static(index: int, *, life: str = "a", **changed: object):
    return join(fresh=f"{life}{index}", instance_id=f"i{index}", **changed)


def restart(bench: GroupBench, index: int, **changed: object) -> Ask:
    return bench.ask(static(index, life="b", **changed))


def members(bench: GroupBench) -> list[str]:
    return [each.member_id for each in bench.ask(DescribeGroup(GROUP)).response.members]


def test_a_static_member_is_not_asked_to_come_back_with_an_id():
    bench = GroupBench()
    first = bench.ask(static(1, needs_known_member_id=True))
    bench.pass_time(0)
    assert (first.error, first.response.member_id) == (Error.NONE, "a1")


def test_a_member_that_restarts_gets_its_old_assignment_without_a_rebalance(bench):
    back = restart(bench, 2)
    assert (back.response.member_id, back.response.generation) == ("b2", 1)
    assert not back.response.skip_assignment
    assert bench.ask(sync("b2", 1)).response.assignment == b"a2"
    assert bench.ask(heartbeat("a1", 1)).error == Error.NONE
    assert bench.events[-1] == MemberLeft(GROUP, "a2", "replaced")


def test_a_leader_that_restarts_is_told_to_leave_the_assignment_alone(bench):
    back = restart(bench, 1)
    assert back.response.leader == "b1"
    assert back.response.skip_assignment
    assert [each.member_id for each in back.response.members] == ["b1", "a2"]


def test_a_leader_that_is_too_old_to_be_told_takes_somebody_else_for_the_leader(bench):
    back = restart(bench, 1, may_skip_assignment=False)
    assert back.response.member_id == "b1"
    assert back.response.leader == "a1"
    assert not back.response.skip_assignment
    assert back.response.members == ()


def test_the_old_id_is_fenced_everywhere(bench):
    restart(bench, 2)
    before = bench.machine.hard_state()
    old = "a2"
    commits = commit(new_offset(3), member_id=old, generation=1)._replace(instance_id="i2")
    assert bench.ask(heartbeat(old, 1, "i2")).error == Error.FENCED_INSTANCE_ID
    assert bench.ask(sync(old, 1)._replace(instance_id="i2")).error == Error.FENCED_INSTANCE_ID
    assert bench.ask(join(old, instance_id="i2")).error == Error.FENCED_INSTANCE_ID
    assert bench.ask(commits).error == Error.FENCED_INSTANCE_ID
    left = bench.ask(LeaveGroup(GROUP, (Leaver(old, "i2"),))).response
    assert left.errors == (Error.FENCED_INSTANCE_ID,)
    assert bench.ask(heartbeat(old, 1)).error == Error.UNKNOWN_MEMBER_ID
    assert bench.machine.hard_state() == before


def test_the_new_id_survives_a_failover(bench):
    restart(bench, 2)
    bench.fail_over()
    assert bench.ask(heartbeat("b2", 1, "i2")).error == Error.NONE
    assert bench.ask(heartbeat("a2", 1, "i2")).error == Error.FENCED_INSTANCE_ID


def test_a_request_that_the_old_life_left_behind_is_fenced(bench):
    joining = bench.ask(join("a1", instance_id="i1"))
    assert joining.waits
    back = restart(bench, 1)
    assert joining.error == Error.FENCED_INSTANCE_ID
    assert back.waits
    again = bench.ask(join("a2", instance_id="i2"))
    assert back.response.leader == again.response.leader == "b1"
    syncing = bench.ask(sync("a2", 2))
    second = restart(bench, 2)
    assert syncing.error == Error.FENCED_INSTANCE_ID
    assert second.waits
    assert bench.ask(sync("b1", 2)).error == Error.REBALANCE_IN_PROGRESS


def test_a_member_that_comes_back_wanting_other_topics_starts_a_rebalance(bench):
    back = restart(bench, 2, protocols=protocols("range", topics=("invoices",)))
    assert back.waits
    assert bench.ask(heartbeat("a1", 1)).error == Error.REBALANCE_IN_PROGRESS


def test_a_member_that_comes_back_preferring_another_protocol_starts_a_rebalance():
    bench = GroupBench()
    assign(bench, joined(bench, static(1, protocols=protocols("range", "sticky"))))
    back = restart(bench, 1, protocols=protocols("sticky", "range"))
    assert (back.response.generation, back.response.protocol) == (2, "sticky")


def test_a_member_that_forgot_what_it_owns_does_not(bench):
    papers = (JoinProtocol("range", subscription("orders", tail=b"owns nothing")),)
    assert restart(bench, 2, protocols=papers).response.generation == 1


def test_a_broken_connection_is_no_news_of_a_static_member(bench):
    bench.tell(ConnectionLost(GROUP, "a2", client_is_there=False))
    bench.pass_time(SESSION_MS - 1)
    assert members(bench) == ["a1", "a2"]
    bench.pass_time(1)
    assert members(bench) == []


def test_a_static_member_that_misses_a_rebalance_keeps_its_place_until_its_session_ends():
    bench = GroupBench()
    tokens = [bench.ask(static(index, session_timeout_ms=300_000)) for index in (1, 2)]
    bench.pass_time(0)
    assign(bench, tokens)
    leader = bench.ask(join("a1", instance_id="i1", session_timeout_ms=300_000))
    bench.pass_time(REBALANCE_MS)
    assert [each.member_id for each in leader.response.members] == ["a1", "a2"]
    bench.ask(sync("a1", 2, a1=b"x", a2=b"y"))
    back = bench.ask(static(2, life="b", session_timeout_ms=300_000))
    assert back.response.generation == 2
    assert bench.ask(sync("b2", 2)).response.assignment == b"y"


def test_a_rebalance_that_nobody_comes_to_is_waited_for_once_more():
    bench = GroupBench()
    token = bench.ask(static(1, session_timeout_ms=300_000))
    bench.pass_time(0)
    assign(bench, [token])
    dynamic = bench.ask(join(fresh="dyn"))
    bench.tell(ConnectionLost(GROUP, "dyn", client_is_there=False))
    bench.pass_time(2 * REBALANCE_MS)
    assert dynamic.error == Error.UNKNOWN_MEMBER_ID
    assert members(bench) == ["a1"]
    back = bench.ask(static(1, life="b"))
    assert (back.error, back.response.generation) == (Error.NONE, 2)


def test_a_leader_stays_the_leader_though_another_has_been_there_for_longer():
    bench = GroupBench()
    patient = {"session_timeout_ms": 300_000}
    assign(bench, joined(bench, static(1, **patient), static(2, **patient)))
    second = bench.ask(join("a2", instance_id="i2", protocols=protocols("range", "x"), **patient))
    bench.pass_time(REBALANCE_MS)
    assert second.response.leader == "a2"
    bench.ask(sync("a2", 2))
    bench.fail_over()
    assert bench.ask(static(1, life="b", **patient)).response.leader == "a2"
    again = joined(bench, join("a2", instance_id="i2"), join("b1", instance_id="i1"))
    assert [each.response.leader for each in again] == ["a2", "a2"]


def test_a_member_that_restarts_before_it_knew_its_assignment_has_to_ask_for_it():
    bench = GroupBench()
    joined(bench, static(1), static(2))
    bench.ask(sync("a1", 1, a2=b"x"))
    restart(bench, 2)
    for _ in range(REBALANCE_MS // 5_000):
        assert bench.ask(heartbeat("a1", 1)).error == Error.NONE
        assert bench.ask(heartbeat("b2", 1)).error == Error.NONE
        bench.pass_time(5_000)
    assert members(bench) == ["a1"]
    assert bench.ask(heartbeat("b2", 1)).error == Error.UNKNOWN_MEMBER_ID


def joined(bench: GroupBench, *requests: object) -> list[Ask]:
    tokens = [bench.ask(each) for each in requests]
    bench.pass_time(0)
    return tokens


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_members_that_give_themselves_no_time_keep_nobody_busy(timeout_ms):
    bench = GroupBench()
    hasty = {"rebalance_timeout_ms": timeout_ms}
    assign(bench, joined(bench, static(1)))
    assert restart(bench, 1, **hasty).response.generation == 1
    bench.ask(join(fresh="dyn", **hasty))
    bench.ask(leave("dyn"))
    bench.pass_time(0)
    assert bench.machine.next_deadline_ms() >= bench.now_ms + 1_000
    bench.pass_time(SESSION_MS - 1)
    assert members(bench) == ["b1"]
    bench.pass_time(1)
    assert members(bench) == []


def test_an_operator_removes_a_static_member_by_its_instance(bench):
    request = LeaveGroup(GROUP, (Leaver("", "i2"), Leaver("", "i9"), Leaver("", None)))
    assert bench.ask(request).response.errors == (
        Error.NONE,
        Error.UNKNOWN_MEMBER_ID,
        Error.UNKNOWN_MEMBER_ID,
    )
    assert members(bench) == ["a1"]
