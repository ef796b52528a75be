"""Members of classic groups over TCP: joining, staying, leaving, and being refused."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from support.admin_story import admin_story
from support.group_story import GROUP, SESSION_MS, GroupStory, group_story
from support.loopback import run
from tidelog.broker.coordination.internal_topics import CONSUMER_OFFSETS
from tidelog.broker.groups.group_calls import TOPIC_WAIT_MS
from tidelog.wire.protocol.schemas.describe_groups_request import DescribeGroupsRequest
from tidelog.wire.protocol.schemas.describe_groups_response import DescribeGroupsResponse
from tidelog.wire.protocol.schemas.heartbeat_request import HeartbeatRequest
from tidelog.wire.protocol.schemas.heartbeat_response import HeartbeatResponse
from tidelog.wire.protocol.schemas.join_group_request import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from tidelog.wire.protocol.schemas.join_group_response import JoinGroupResponse
from tidelog.wire.protocol.schemas.leave_group_request import LeaveGroupRequest, MemberIdentity
from tidelog.wire.protocol.schemas.leave_group_response import LeaveGroupResponse
from tidelog.wire.protocol.schemas.sync_group_request import SyncGroupRequest
from tidelog.wire.protocol.schemas.sync_group_response import SyncGroupResponse

Story = Callable[[GroupStory], Awaitable[None]]


def told(data: Path, story: Story, **settings: str) -> None:
    async def main() -> None:
        async with group_story(data, **settings) as s:
            await story(s)

    run(main)


@pytest.mark.parametrize(
    ("join", "sync", "beat", "leave"),
    [(0, 0, 0, 0), (3, 2, 2, 2), (4, 3, 3, 3), (7, 4, 4, 4), (9, 5, 4, 5)],
)
def test_the_life_of_a_member_in_every_form(
    tmp_path: Path, join: int, sync: int, beat: int, leave: int
) -> None:
    async def story(s: GroupStory) -> None:
        member = s.member()
        joined = await member.join(join)
        assert (joined.error_code, joined.generation_id) == (0, 1)
        assert joined.leader == joined.member_id
        assert joined.member_id.startswith("reader-")
        assert [(each.member_id, each.metadata) for each in joined.members] == [
            (joined.member_id, b"papers")
        ]
        assert joined.protocol_name == "range"
        assert joined.protocol_type == ("consumer" if join >= 7 else None)
        synced = await member.sync(sync)
        assert (synced.error_code, synced.assignment) == (0, b"all")
        assert synced.protocol_name == ("range" if sync >= 5 else None)
        assert await member.beat(beat) == 0
        assert await s.groups() == [(GROUP, "Stable")]
        leaving = LeaveGroupRequest(
            group_id=GROUP,
            member_id=member.member_id,
            members=[MemberIdentity(member_id=member.member_id)],
        )
        left = await member.ask(leaving, leave, LeaveGroupResponse)
        assert left.error_code == 0
        named = [(each.member_id, each.error_code) for each in left.members]
        assert named == ([(member.member_id, 0)] if leave >= 3 else [])
        assert await member.beat(beat) == 25
        assert await s.groups() == [(GROUP, "Empty")]

    told(tmp_path, story)


def test_a_second_member_waits_for_the_first_one_and_both_get_their_share(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        first, second = s.member(), s.member()
        await first.enter()
        joining = asyncio.ensure_future(second.join())
        while await first.beat() != 27:
            assert not joining.done()
        assert (await first.join()).error_code == 0
        assert (await joining).error_code == 0
        assert first.generation == second.generation == 2
        assert first.leads
        waiting = asyncio.ensure_future(second.sync())
        shares = {first.member_id: b"left half", second.member_id: b"right half"}
        assert (await first.sync(**shares)).assignment == b"left half"
        assert (await waiting).assignment == b"right half"
        asked = DescribeGroupsRequest(groups=[GROUP])
        (group,) = (await s.ask(asked, 5, DescribeGroupsResponse)).groups
        assert (group.group_state, group.protocol_data) == ("Stable", "range")
        assert {each.member_id: each.member_assignment for each in group.members} == shares
        assert {(each.client_id, each.client_host) for each in group.members} == {
            ("reader", "/127.0.0.1")
        }

    told(tmp_path, story)


def test_strangers_and_those_of_an_old_generation_change_nothing(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        member = s.member()
        await member.enter()
        old = HeartbeatRequest(group_id=GROUP, generation_id=7, member_id=member.member_id)
        assert (await s.ask(old, 4, HeartbeatResponse)).error_code == 22
        stranger = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="nobody")
        assert (await s.ask(stranger, 0, HeartbeatResponse)).error_code == 25
        elsewhere = HeartbeatRequest(group_id="unheard of", generation_id=1, member_id="nobody")
        assert (await s.ask(elsewhere, 4, HeartbeatResponse)).error_code == 25
        sync = SyncGroupRequest(
            group_id=GROUP,
            generation_id=7,
            member_id=member.member_id,
            protocol_type="consumer",
            protocol_name="range",
        )
        assert (await s.ask(sync, 5, SyncGroupResponse)).error_code == 22
        leaving = LeaveGroupRequest(
            group_id=GROUP, members=[MemberIdentity(member_id="nobody")], member_id="nobody"
        )
        assert (await s.ask(leaving, 0, LeaveGroupResponse)).error_code == 25
        (left,) = (await s.ask(leaving, 5, LeaveGroupResponse)).members
        assert (left.member_id, left.error_code) == ("nobody", 25)
        assert await member.beat() == 0
        assert await s.groups() == [(GROUP, "Stable")]

    told(tmp_path, story)


def test_a_static_member_that_came_back_fences_its_former_self(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        before, after = s.member(instance="desk-1"), s.member(instance="desk-1")
        await before.enter()
        assert before.member_id.startswith("desk-1-")
        joined = await after.join()
        assert (joined.error_code, joined.skip_assignment) == (0, True)
        assert after.member_id != before.member_id
        assert await before.beat() == 82
        assert await after.beat() == 0
        by_name = LeaveGroupRequest(
            group_id=GROUP, members=[MemberIdentity(group_instance_id="desk-1")]
        )
        (left,) = (await s.ask(by_name, 3, LeaveGroupResponse)).members
        assert (left.member_id, left.group_instance_id, left.error_code) == ("", "desk-1", 0)

    told(tmp_path, story)


def test_a_join_that_makes_no_sense_is_refused_with_a_reason(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        protocols = [JoinGroupRequestProtocol(name="range")]

        async def error_of(version: int = 9, **wrong: object) -> int:
            given: dict[str, object] = {
                "group_id": GROUP,
                "session_timeout_ms": SESSION_MS,
                "protocol_type": "consumer",
                "protocols": protocols,
                **wrong,
            }
            answer = await s.ask(JoinGroupRequest(**given), version, JoinGroupResponse)
            assert (answer.generation_id, answer.leader) == (-1, "")
            return answer.error_code

        assert await error_of(group_id="") == 24
        assert await error_of(session_timeout_ms=10) == 26
        assert await error_of(protocols=[]) == 23
        assert await error_of(protocol_type="") == 23
        assert await error_of(member_id="forgotten") == 25
        assert await error_of(version=0, group_id="") == 24
        assert await s.groups() == []

    told(tmp_path, story)


def test_a_sync_that_does_not_name_its_protocol_is_refused(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        nameless = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="m")
        assert (await s.ask(nameless, 5, SyncGroupResponse)).error_code == 23
        assert (await s.ask(nameless, 4, SyncGroupResponse)).error_code == 25
        assert (await s.ask(SyncGroupRequest(), 0, SyncGroupResponse)).error_code == 24

    told(tmp_path, story)


HEARTBEAT = 12


def test_a_request_that_comes_before_the_news_of_the_topic_waits_for_them(tmp_path: Path) -> None:
    """Another broker has told the client that we coordinate: it was only quicker than we."""

    async def story() -> None:
        request = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")
        async with admin_story(tmp_path) as s:
            late = asyncio.ensure_future(s.ask(request, 4))
            await s.arrived(HEARTBEAT, 1)
            await s.other_traffic()
            assert not late.done()
            s.pass_time(TOPIC_WAIT_MS)
            answer = await late
            assert isinstance(answer, HeartbeatResponse)
            assert answer.error_code == 16, "nobody waits for ever"

            early = asyncio.ensure_future(s.ask(request, 4))
            await s.arrived(HEARTBEAT, 2)
            s.create_topic("unrelated")
            await s.other_traffic()
            assert not early.done()
            s.create_topic(CONSUMER_OFFSETS)
            answer = await early
            assert isinstance(answer, HeartbeatResponse)
            assert answer.error_code == 25

    run(story)


def test_a_broker_that_stops_sends_parked_members_to_the_next_one(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        first, second = s.member(), s.member()
        await first.enter()
        joining = asyncio.ensure_future(second.join())
        while await first.beat() != 27:
            assert not joining.done()
        s.lone.broker.coordination.close()
        answer = await joining
        assert (answer.error_code, answer.member_id) == (16, second.member_id)
        assert await first.beat() == 16
        leaving = LeaveGroupRequest(
            group_id=GROUP,
            members=[
                MemberIdentity(member_id="a"),
                MemberIdentity(member_id="b", group_instance_id="i"),
            ],
        )
        left = await first.ask(leaving, 5, LeaveGroupResponse)
        assert left.error_code == 16
        assert [(each.member_id, each.group_instance_id) for each in left.members] == [
            ("a", None),
            ("b", "i"),
        ]

    told(tmp_path, story)
