"""Members whose connection broke: dead ones are out soon, living ones keep their seat."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from support.group_story import GROUP, SESSION_MS, GroupStory, Member, group_story
from support.loopback import run
from tidelog.wire.protocol.schemas.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
)
from tidelog.wire.protocol.schemas.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)
from tidelog.wire.protocol.schemas.leave_group_request import LeaveGroupRequest, MemberIdentity
from tidelog.wire.protocol.schemas.leave_group_response import LeaveGroupResponse

Story = Callable[[GroupStory], Awaitable[None]]
GRACE_MS = 500
TICK_MS = 5
USUAL_MS = RHYTHM_MS = 3_000
PATIENCE_MS = 2 * RHYTHM_MS
LONG_SESSION_MS = 45_000
REBALANCE_IN_PROGRESS = 27
STABLE, EMPTY = [(GROUP, "Stable")], [(GROUP, "Empty")]


def told(data: Path, story: Story, **settings: str) -> None:
    async def main() -> None:
        async with group_story(data, **settings) as s:
            await story(s)

    run(main)


async def hang_up(s: GroupStory, member: Member) -> None:
    """As a process that was killed does. The broker has noticed when this returns."""
    absences = s.lone.broker.absences
    before = len(absences.connections())
    member.peer.close()
    while len(absences.connections()) == before:
        await asyncio.sleep(0)


async def in_rhythm(s: GroupStory, member: Member) -> None:
    """It is in the group, and its rhythm is known."""
    await member.enter()
    await member.beat()
    for _ in range(2):
        s.lone.pass_time(RHYTHM_MS)
        assert await member.beat() == 0


async def another_connection(member: Member) -> Member:
    """The same client asks something that has nothing to do with the group."""
    other = member.twin()
    await other.ask(LeaveGroupRequest(group_id="another"), 0, LeaveGroupResponse)
    return other


def test_a_member_that_reconnects_only_with_its_next_heartbeat_is_never_evicted(
    tmp_path: Path,
) -> None:
    """As franz-go does: it connects when it has something to say."""

    async def story(s: GroupStory) -> None:
        member = s.member()
        await in_rhythm(s, member)
        for cut_after_ms in (100, 1_500, RHYTHM_MS - TICK_MS):
            s.lone.pass_time(cut_after_ms)
            await hang_up(s, member)
            s.lone.pass_time(RHYTHM_MS - cut_after_ms)
            member.reconnect()
            assert await member.beat() == 0
        assert await s.groups() == STABLE

    told(tmp_path, story)


def test_a_member_that_comes_a_little_late_after_a_cut_keeps_its_seat(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        member = s.member()
        await in_rhythm(s, member)
        await hang_up(s, member)
        s.lone.pass_time(PATIENCE_MS - TICK_MS)
        member.reconnect()
        assert await member.beat() == 0

    told(tmp_path, story)


def test_a_member_that_hung_up_and_missed_its_heartbeat_is_out_after_the_grace(
    tmp_path: Path,
) -> None:
    async def story(s: GroupStory) -> None:
        member = s.member()
        await in_rhythm(s, member)
        await hang_up(s, member)
        s.lone.pass_time(PATIENCE_MS)
        assert await s.groups() == STABLE
        s.lone.pass_time(GRACE_MS - TICK_MS)
        assert await s.groups() == STABLE
        s.lone.pass_time(2 * TICK_MS)
        assert await s.groups() == EMPTY

    told(tmp_path, story)


def test_a_heartbeat_that_waited_while_the_broker_stood_still_counts(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        member = s.member()
        await in_rhythm(s, member)
        await hang_up(s, member)
        s.lone.pass_time(PATIENCE_MS + RHYTHM_MS)  # in one piece: timers fire late
        member.reconnect()
        assert await member.beat() == 0

    told(tmp_path, story)


def test_a_member_whose_rhythm_nobody_knows_has_half_a_session(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        member = s.member()
        await member.enter()
        await hang_up(s, member)
        s.lone.pass_time(SESSION_MS // 2 - TICK_MS)
        s.lone.pass_time(GRACE_MS - TICK_MS)
        assert await s.groups() == STABLE
        s.lone.pass_time(GRACE_MS + 2 * TICK_MS)
        assert await s.groups() == EMPTY

    told(tmp_path, story)


def test_while_its_client_has_another_connection_a_member_has_a_third_of_its_session(
    tmp_path: Path,
) -> None:
    async def story(s: GroupStory) -> None:
        member = s.member(session_ms=LONG_SESSION_MS)
        await in_rhythm(s, member)
        await another_connection(member)
        await hang_up(s, member)
        s.lone.pass_time(LONG_SESSION_MS // 3 - TICK_MS)
        s.lone.pass_time(GRACE_MS - TICK_MS)
        assert await s.groups() == STABLE
        s.lone.pass_time(GRACE_MS + 2 * TICK_MS)
        assert await s.groups() == EMPTY

    told(tmp_path, story)


def test_so_has_one_whose_client_connects_again(tmp_path: Path) -> None:
    """It lives and will send a heartbeat, or its successor was started."""

    async def story(s: GroupStory) -> None:
        member = s.member(session_ms=LONG_SESSION_MS)
        await in_rhythm(s, member)
        await hang_up(s, member)
        s.lone.pass_time(PATIENCE_MS + GRACE_MS - TICK_MS)
        await another_connection(member)
        s.lone.pass_time(LONG_SESSION_MS // 3 - PATIENCE_MS - GRACE_MS)
        assert await s.groups() == STABLE
        assert await member.twin().beat() == 0, "it is there again"

    told(tmp_path, story)


def test_a_process_looks_gone_with_its_last_connection(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        member = s.member(session_ms=LONG_SESSION_MS)
        await in_rhythm(s, member)
        other = await another_connection(member)
        await hang_up(s, member)
        absences = s.lone.broker.absences
        before = absences.open_connections()
        other.peer.close()
        while absences.open_connections() == before:
            await asyncio.sleep(0)
        s.lone.pass_time(PATIENCE_MS)
        s.lone.pass_time(GRACE_MS + TICK_MS)
        assert await s.groups() == EMPTY

    told(tmp_path, story)


def test_another_client_that_connects_says_nothing_about_this_one(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        member, other = s.member(session_ms=LONG_SESSION_MS), s.member("writer")
        await in_rhythm(s, member)
        await hang_up(s, member)
        await other.ask(LeaveGroupRequest(group_id="another"), 0, LeaveGroupResponse)
        s.lone.pass_time(PATIENCE_MS)
        s.lone.pass_time(GRACE_MS + TICK_MS)
        assert await s.groups() == EMPTY

    told(tmp_path, story)


def test_a_member_that_speaks_elsewhere_does_not_miss_its_old_connection(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        member = s.member()
        await member.enter()
        old = member.peer
        member.reconnect()
        assert await member.beat() == 0
        before = len(s.lone.broker.absences.connections())
        old.close()
        while len(s.lone.broker.absences.connections()) == before:
            await asyncio.sleep(0)
        s.lone.pass_time(PATIENCE_MS + GRACE_MS)
        assert await s.groups() == STABLE

    told(tmp_path, story)


def test_a_member_that_is_only_silent_keeps_its_seat_until_its_session_ends(
    tmp_path: Path,
) -> None:
    async def story(s: GroupStory) -> None:
        await s.member().enter()
        s.lone.pass_time(SESSION_MS - TICK_MS)
        assert await s.groups() == STABLE
        s.lone.pass_time(2 * TICK_MS)
        assert await s.groups() == EMPTY

    told(tmp_path, story)


def test_static_members_are_expected_back(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        member = s.member(instance="desk-1")
        await member.enter()
        await hang_up(s, member)
        s.lone.pass_time(SESSION_MS - TICK_MS)
        assert await s.groups() == STABLE

    told(tmp_path, story)


def test_without_a_grace_sessions_end_as_in_kafka(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        member = s.member()
        await member.enter()
        await hang_up(s, member)
        s.lone.pass_time(SESSION_MS - TICK_MS)
        assert await s.groups() == STABLE

    told(tmp_path, story, tidelog_group_disconnect_grace_ms="0")


def test_a_member_that_left_is_not_missed_by_the_next_generation(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        member = s.member()
        await member.enter()
        leaving = LeaveGroupRequest(
            group_id=GROUP, members=[MemberIdentity(member_id=member.member_id)]
        )
        await member.ask(leaving, 5, LeaveGroupResponse)
        await hang_up(s, member)
        await s.member().enter()
        s.lone.pass_time(GRACE_MS + TICK_MS)
        assert await s.groups() == STABLE

    told(tmp_path, story)


def test_one_that_hung_up_while_it_waited_for_the_others_does_not_hold_them_up(
    tmp_path: Path,
) -> None:
    async def story(s: GroupStory) -> None:
        first, second = s.member(), s.member("other")
        await first.enter()
        joining = asyncio.ensure_future(second.join())
        while await first.beat() != REBALANCE_IN_PROGRESS:
            assert not joining.done()
        await hang_up(s, second)
        await asyncio.gather(joining, return_exceptions=True)
        answer = await first.join()
        assert len(answer.members) == 2, "it is not known to be dead yet"
        s.lone.pass_time(2 * USUAL_MS)
        s.lone.pass_time(GRACE_MS + TICK_MS)
        assert await first.beat() == REBALANCE_IN_PROGRESS
        answer = await first.join()
        assert [each.member_id for each in answer.members] == [first.member_id]

    told(tmp_path, story)


def test_one_that_was_not_told_its_id_is_dropped_when_it_hangs_up(tmp_path: Path) -> None:
    """Before KIP-394 a member learns its id when it has joined: nobody could claim this one."""

    async def story(s: GroupStory) -> None:
        first, second = s.member(), s.member("other")
        await first.enter()
        joining = asyncio.ensure_future(second.join(version=3))
        while await first.beat() != REBALANCE_IN_PROGRESS:
            assert not joining.done()
        await hang_up(s, second)
        await asyncio.gather(joining, return_exceptions=True)
        answer = await first.join()
        assert [each.member_id for each in answer.members] == [first.member_id]

    told(tmp_path, story)


def test_one_that_was_cut_off_in_a_rebalance_may_join_again_under_its_id(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        first, second = s.member(), s.member("other")
        await first.enter()
        joining = asyncio.ensure_future(second.join())
        while await first.beat() != REBALANCE_IN_PROGRESS:
            assert not joining.done()
        await hang_up(s, second)
        await asyncio.gather(joining, return_exceptions=True)
        assert len((await first.join()).members) == 2
        second.reconnect()
        known = second.member_id
        assert (await second.join()).error_code == 0
        assert (second.member_id, second.generation) == (known, first.generation)

    told(tmp_path, story)


def test_consumers_of_the_new_protocol_are_missed_by_the_rhythm_that_we_set(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        member = s.member()
        join = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="m-1",
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
        answer = await member.ask(join, 1, ConsumerGroupHeartbeatResponse)
        assert answer.error_code == 0
        await hang_up(s, member)
        s.lone.pass_time(2 * answer.heartbeat_interval_ms)
        s.lone.pass_time(GRACE_MS - TICK_MS)
        assert await s.groups() != EMPTY
        s.lone.pass_time(2 * TICK_MS)
        assert await s.groups() == EMPTY

    told(tmp_path, story)
