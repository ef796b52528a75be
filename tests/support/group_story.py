"""A group coordinator on a lone broker, and members that speak Kafka's protocol to it."""

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

from support.lone_broker import WAIT_MS, LoneBroker, lone_broker
from tidelog.broker.coordination.internal_topics import CONSUMER_OFFSETS
from tidelog.rpc import Peer
from tidelog.wire.protocol import Message
from tidelog.wire.protocol.schemas.heartbeat_request import HeartbeatRequest
from tidelog.wire.protocol.schemas.heartbeat_response import HeartbeatResponse
from tidelog.wire.protocol.schemas.join_group_request import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from tidelog.wire.protocol.schemas.join_group_response import JoinGroupResponse
from tidelog.wire.protocol.schemas.list_groups_request import ListGroupsRequest
from tidelog.wire.protocol.schemas.list_groups_response import ListGroupsResponse
from tidelog.wire.protocol.schemas.sync_group_request import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tidelog.wire.protocol.schemas.sync_group_response import SyncGroupResponse

APIS = (0, 8, 9, 11, 12, 13, 14, 15, 16, 42, 47, 68, 69)
GROUP = "readers"
TOPIC = "orders"
SESSION_MS = 10_000
MEMBER_ID_REQUIRED = 79
NEWEST_JOIN, NEWEST_SYNC, NEWEST_HEARTBEAT = 9, 5, 4

Answered = TypeVar("Answered", bound=Message)


class Member:
    """One client with a connection of its own."""

    def __init__(
        self,
        lone: LoneBroker,
        client_id: str = "reader",
        instance: str | None = None,
        session_ms: int = SESSION_MS,
    ):
        self._address = ("127.0.0.1", lone.port)
        self._session_ms = session_ms
        self._network = lone.broker.host.network
        self.client_id = client_id
        self.instance = instance
        self.peer = Peer(self._network, self._address, client_id, connect_timeout_ms=WAIT_MS)
        self.member_id = ""
        self.generation = -1
        self.leads = False

    async def ask(self, request: Message, version: int, answer: type[Answered]) -> Answered:
        response = await self.peer.ask(request, version, timeout_ms=WAIT_MS)
        assert isinstance(response, answer), response
        return response

    def reconnect(self) -> None:
        """The old connection stays as it is: closed, if somebody closed it."""
        self.peer = Peer(self._network, self._address, self.client_id)

    def twin(self) -> "Member":
        """The same member of the same client on a connection of its own."""
        twin = copy.copy(self)
        twin.reconnect()
        return twin

    async def join(self, version: int = NEWEST_JOIN) -> JoinGroupResponse:
        """Both steps, where there are two."""
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"papers")],
        )
        response = await self.ask(request, version, JoinGroupResponse)
        if response.error_code == MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return await self.join(version)
        self.member_id = response.member_id
        self.generation = response.generation_id
        self.leads = response.leader == response.member_id
        return response

    async def sync(self, version: int = NEWEST_SYNC, **shares: bytes) -> SyncGroupResponse:
        """`shares` by member id, with underscores for dashes; everything for who leads alone."""
        given = shares or ({self.member_id: b"all"} if self.leads else {})
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=share)
                for each, share in given.items()
            ],
        )
        return await self.ask(request, version, SyncGroupResponse)

    async def enter(self) -> None:
        """Join a group in which nobody else is."""
        assert (await self.join()).error_code == 0
        assert (await self.sync()).error_code == 0

    async def beat(self, version: int = NEWEST_HEARTBEAT) -> int:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        return (await self.ask(request, version, HeartbeatResponse)).error_code


class GroupStory:
    def __init__(self, lone: LoneBroker) -> None:
        self.lone = lone
        self._members: list[Member] = []

    def member(
        self,
        client_id: str = "reader",
        instance: str | None = None,
        session_ms: int = SESSION_MS,
    ) -> Member:
        made = Member(self.lone, client_id, instance, session_ms)
        self._members.append(made)
        return made

    async def ask(self, request: Message, version: int, answer: type[Answered]) -> Answered:
        response = await self.lone.ask(request, version)
        assert isinstance(response, answer), response
        return response

    async def groups(self) -> list[tuple[str, str]]:
        listed = await self.ask(ListGroupsRequest(), 5, ListGroupsResponse)
        assert listed.error_code == 0
        return [(each.group_id, each.group_state) for each in listed.groups]

    async def open_office(self) -> None:
        """The coordinator has read its log."""
        groups = self.lone.broker.coordination.groups
        while groups.machine(0) is None:
            await asyncio.sleep(0)

    def close(self) -> None:
        for member in self._members:
            member.peer.close()


@contextlib.asynccontextmanager
async def group_story(data: Path, **settings: str) -> AsyncIterator[GroupStory]:
    """One partition of offsets, led here; a topic with one partition. New groups begin at once."""
    given = {"group_initial_rebalance_delay_ms": "0", **settings}
    async with lone_broker(data, APIS, **given) as lone:
        lone.create_topic(TOPIC)
        lone.create_topic(CONSUMER_OFFSETS, cleanup_policy="compact")
        story = GroupStory(lone)
        await story.open_office()
        try:
            yield story
        finally:
            story.close()
