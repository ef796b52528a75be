"""Members whose connection broke: killed ones are out at once, living ones keep their seat."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from support.group_story import GROUP, SESSION_MS, GroupStory, Member, group_story
from support.loopback import run
from tidelog.broker.absences import PATIENCE_MIN_MS
from tidelog.wire.protocol.schemas.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
)
from tidelog.wire.protocol.schemas.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)
from tidelog.wire.protocol.schemas.join_group_response import JoinGroupResponse
from tidelog.wire.protocol.schemas.leave_group_request import LeaveGroupRequest, MemberIdentity
from tidelog.wire.protocol.schemas.leave_group_response import LeaveGroupResponse

Story = Callable[[GroupStory], Awaitable[None]]
GRACE_MS = 500
TICK_MS = 5
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


def test_a_member_that_hung_up_and_does_not_come_back_is_out_after_the_grace(
    tmp_path: Path,
) -> None:
    async def story(s: GroupStory) -> None:
        member = s.member()
        await member.enter()
        await hang_up(s, member)
        s.lone.pass_time(GRACE_MS - TICK_MS)
        assert await s.groups() == STABLE
        s.lone.pass_time(2 * TICK_MS)
        assert await s.groups() == EMPTY

    told(tmp_path, story)


def test_a_client_that_connects_again_has_the_time_to_send_a_heartbeat(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        member = s.member()
        await member.enter()
        await hang_up(s, member)
        member.reconnect()
        await member.ask(LeaveGroupRequest(group_id="another"), 0, LeaveGroupResponse)
        s.lone.pass_time(GRACE_MS + TICK_MS)
        assert await s.groups() == STABLE
        s.lone.pass_time(PATIENCE_MIN_MS - GRACE_MS - 2 * TICK_MS)
        assert await member.beat() == 0, "it is there again"
        s.lone.pass_time(PATIENCE_MIN_MS + TICK_MS)
        assert await s.groups() == STABLE
        s.lone.pass_time(SESSION_MS)
        assert await s.groups() == EMPTY

    told(tmp_path, story)


def test_a_client_that_came_back_without_its_member_has_less_than_a_session(
    tmp_path: Path,
) -> None:
    async def story(s: GroupStory) -> None:
        member = s.member()
        await member.enter()
        await hang_up(s, member)
        restarted = s.member()
        await restarted.ask(LeaveGroupRequest(group_id="another"), 0, LeaveGroupResponse)
        s.lone.pass_time(PATIENCE_MIN_MS - TICK_MS)
        assert await s.groups() == STABLE
        s.lone.pass_time(2 * TICK_MS)
        assert await s.groups() == EMPTY

    told(tmp_path, story)


def test_another_client_that_connects_says_nothing_about_this_one(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        member, other = s.member(), s.member("writer")
        await member.enter()
        await hang_up(s, member)
        await other.ask(LeaveGroupRequest(group_id="another"), 0, LeaveGroupResponse)
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
        s.lone.pass_time(GRACE_MS + PATIENCE_MIN_MS)
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
        while await first.beat() != 27:
            assert not joining.done()
        await hang_up(s, second)
        await asyncio.gather(joining, return_exceptions=True)
        answer = await first.join()
        assert isinstance(answer, JoinGroupResponse)
        assert len(answer.members) == 2, "it is not known to be dead yet"
        s.lone.pass_time(GRACE_MS + TICK_MS)
        assert await first.beat() == 27
        answer = await first.join()
        assert [each.member_id for each in answer.members] == [first.member_id]

    told(tmp_path, story)


def test_consumers_of_the_new_protocol_are_missed_just_as_soon(tmp_path: Path) -> None:
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
        s.lone.pass_time(GRACE_MS + TICK_MS)
        assert await s.groups() == EMPTY

    told(tmp_path, story)
