"""Reading topics together with others: a member of a group, by the classic protocol."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from tidelog.client.client import Client
from tidelog.client.consumer import Consumer, Fetched
from tidelog.client.coordinator import OF_GROUP, Coordinator
from tidelog.client.errors import ClientError, KafkaError, check
from tidelog.client.groups import (
    CONSUMER_PROTOCOL,
    NO_GENERATION,
    GroupAdmin,
    check_committed,
    commit_message,
    read_versioned,
)
from tidelog.client.links import GROUP
from tidelog.client.range_assignor import assign_ranges
from tidelog.core.errors import Error
from tidelog.host import tasks
from tidelog.host.ports import NetworkError
from tidelog.wire.protocol import Message, encode
from tidelog.wire.protocol.schemas import consumer_protocol_assignment as assignment_form
from tidelog.wire.protocol.schemas.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from tidelog.wire.protocol.schemas.heartbeat_request import HeartbeatRequest
from tidelog.wire.protocol.schemas.heartbeat_response import HeartbeatResponse
from tidelog.wire.protocol.schemas.join_group_request import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from tidelog.wire.protocol.schemas.join_group_response import JoinGroupResponse
from tidelog.wire.protocol.schemas.leave_group_request import LeaveGroupRequest, MemberIdentity
from tidelog.wire.protocol.schemas.leave_group_response import LeaveGroupResponse
from tidelog.wire.protocol.schemas.offset_commit_response import OffsetCommitResponse
from tidelog.wire.protocol.schemas.sync_group_request import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tidelog.wire.protocol.schemas.sync_group_response import SyncGroupResponse

TopicPartition = tuple[str, int]
FirstOffset = Callable[[str, int, int | None], Awaitable[int]]
"""Where to begin in a partition, given what was committed for it, if anything was."""

RANGE = "range"
SUBSCRIPTION_VERSION = 1
ASSIGNMENT_VERSION = 1
SESSION_TIMEOUT_MS = 10_000
REBALANCE_TIMEOUT_MS = 30_000
HEARTBEAT_MS = 1_000
LEADER_LOOKS_EVERY = 5
"""Heartbeats from one look at the partitions of topics to the next."""
ANSWER_WITHIN_MS = 5_000

JOIN_AGAIN: Final = frozenset(
    (
        Error.REBALANCE_IN_PROGRESS,
        Error.ILLEGAL_GENERATION,
        Error.UNKNOWN_MEMBER_ID,
        Error.MEMBER_ID_REQUIRED,
    )
)


class GroupConsumer:
    """`async with GroupConsumer(client, group, topics, first_offset) as consumer: …`

    `read` joins the group when it has to, and tells the group that this member lives between
    reads. Nothing is committed but by `commit`. The end of the block leaves the group.
    """

    __slots__ = (
        "_client",
        "_consumer",
        "_coordinator",
        "_first_offset",
        "_generation",
        "_group_id",
        "_heartbeats",
        "_joined",
        "_led",
        "_member_id",
        "_session_timeout_ms",
        "_topics",
    )

    def __init__(
        self,
        client: Client,
        group_id: str,
        topics: Sequence[str],
        first_offset: FirstOffset,
        *,
        committed: bool = False,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        """A member that is silent for longer than its session is taken for gone."""
        self._client = client
        self._session_timeout_ms = session_timeout_ms
        self._group_id = group_id
        self._topics = tuple(topics)
        self._first_offset = first_offset
        self._coordinator = Coordinator(client, OF_GROUP, group_id)
        self._consumer = Consumer(client, {}, committed=committed)
        self._member_id = ""
        self._generation = NO_GENERATION
        self._joined = False
        self._led: dict[str, int] = {}
        """Partitions of each topic as this member last assigned them; empty if it does not lead."""
        self._heartbeats: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "GroupConsumer":
        return self

    async def __aexit__(self, *ending: object) -> None:
        await self.leave()

    @property
    def member_id(self) -> str:
        return self._member_id

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """What this member owns, and where it reads next."""
        return self._consumer.positions

    async def read(self, *, max_wait_ms: int) -> dict[TopicPartition, Fetched]:
        """What comes next in the partitions that this member owns."""
        if not self._joined:
            await self._join()
        if not self._consumer.positions:
            await tasks.pause(max_wait_ms)  # others own everything
            return {}
        return await self._consumer.read(max_wait_ms=max_wait_ms)

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """False if the group has gone on without this member: others will read these again."""
        if not offsets:
            return True
        request = commit_message(
            self._group_id, offsets, member_id=self._member_id, generation=self._generation
        )
        try:
            await self._coordinator.ask(
                request, OffsetCommitResponse, check_committed, purpose=GROUP
            )
        except KafkaError as error:
            if error.error not in JOIN_AGAIN:
                raise
            self._expelled(error.error)
            return False
        return True

    async def leave(self) -> None:
        """So that others need not wait until the session is over. May be called twice."""
        heartbeats, self._heartbeats = self._heartbeats, None
        if heartbeats is not None:
            heartbeats.cancel()
            await asyncio.gather(heartbeats, return_exceptions=True)
        member_id, self._member_id = self._member_id, ""
        self._joined = False
        self._consumer.positions.clear()
        if not member_id:
            return
        identity = MemberIdentity(member_id=member_id, reason="the consumer ends")
        request = LeaveGroupRequest(
            group_id=self._group_id, members=[identity], member_id=member_id
        )
        try:
            await self._coordinator.ask_once(
                request, LeaveGroupResponse, _left, purpose=GROUP, timeout_ms=ANSWER_WITHIN_MS
            )
        except (ClientError, NetworkError):
            return  # then the session ends it

    # ---- joining ----

    async def _join(self) -> None:
        """Until a generation has this member and tells what it owns."""
        while not self._joined:
            self._consumer.positions.clear()
            try:
                joined = await self._ask_to_join()
                owned = await self._synchronise(joined)
            except KafkaError as error:
                if error.error not in JOIN_AGAIN:
                    raise
                self._expelled(error.error)
                continue
            self._joined = True  # from here on it has to be heard of
            positions = await self._begin(owned)
            if self._joined:
                self._consumer.positions.update(positions)
            if self._heartbeats is None:
                self._heartbeats = tasks.begin(self._beat())

    async def _ask_to_join(self) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            protocol_type=CONSUMER_PROTOCOL,
            protocols=[
                JoinGroupRequestProtocol(
                    name=RANGE,
                    metadata=_versioned(
                        ConsumerProtocolSubscription(topics=self._topics), SUBSCRIPTION_VERSION
                    ),
                )
            ],
        )

        def verdict(answer: JoinGroupResponse) -> None:
            if answer.error_code == Error.MEMBER_ID_REQUIRED:
                self._member_id = answer.member_id
            check(answer.error_code, f"group {self._group_id} cannot be joined")

        answer = await self._coordinator.ask(
            request,
            JoinGroupResponse,
            verdict,
            purpose=GROUP,
            timeout_ms=REBALANCE_TIMEOUT_MS + ANSWER_WITHIN_MS,
        )
        self._member_id = answer.member_id
        self._generation = answer.generation_id
        return answer

    async def _synchronise(self, joined: JoinGroupResponse) -> list[TopicPartition]:
        assignments = []
        self._led = {}
        if joined.leader == self._member_id:
            assignments = await self._assign(joined)
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=CONSUMER_PROTOCOL,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )

        def verdict(answer: SyncGroupResponse) -> None:
            check(answer.error_code, f"group {self._group_id}")

        answer = await self._coordinator.ask(
            request,
            SyncGroupResponse,
            verdict,
            purpose=GROUP,
            timeout_ms=REBALANCE_TIMEOUT_MS + ANSWER_WITHIN_MS,
        )
        told = read_versioned(assignment_form.ConsumerProtocolAssignment, answer.assignment)
        topics = told.assigned_partitions if told is not None else ()
        return [(each.topic, index) for each in topics for index in each.partitions]

    async def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """This member leads: it decides for everybody."""
        subscriptions: dict[str, Sequence[str]] = {}
        for member in joined.members:
            told = read_versioned(ConsumerProtocolSubscription, member.metadata)
            subscriptions[member.member_id] = told.topics if told is not None else ()
        names = sorted({name for topics in subscriptions.values() for name in topics})
        self._led = counts = await self._count_partitions(names)
        return [
            SyncGroupRequestAssignment(
                member_id=member, assignment=_versioned(_as_assignment(owned), ASSIGNMENT_VERSION)
            )
            for member, owned in assign_ranges(subscriptions, counts).items()
        ]

    async def _count_partitions(self, names: Iterable[str]) -> dict[str, int]:
        found = await self._client.topics(names)
        return {name: len(topic.partitions) for name, topic in found.items()}

    async def _begin(self, owned: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        committed = await GroupAdmin(self._client).committed(self._group_id, owned, stable=True)
        positions = {}
        for topic, index in owned:
            known = committed.get((topic, index))
            positions[topic, index] = await self._first_offset(
                topic, index, known.offset if known is not None else None
            )
        return positions

    # ---- staying ----

    async def _beat(self) -> None:
        """For as long as the member lives. Silence is waited out: the session may outlast it."""
        for number in itertools.count(1):
            await tasks.pause(HEARTBEAT_MS)
            generation = self._generation
            if not self._joined:
                continue  # who joins is heard of anyway
            try:
                await self._heartbeat()
                if self._led and number % LEADER_LOOKS_EVERY == 0:
                    await self._look_for_partitions(generation)
            except KafkaError as error:
                if error.error in JOIN_AGAIN and generation == self._generation:
                    self._expelled(error.error)
            except (ClientError, NetworkError):
                continue

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self._group_id, generation_id=self._generation, member_id=self._member_id
        )
        await self._coordinator.ask_once(
            request, HeartbeatResponse, _alive, purpose=GROUP, timeout_ms=ANSWER_WITHIN_MS
        )

    async def _look_for_partitions(self, generation: int) -> None:
        """A leader assigns anew when topics came, grew or went: nobody else does."""
        counts = await self._count_partitions(self._led)
        if counts != self._led and generation == self._generation:
            self._expelled(Error.REBALANCE_IN_PROGRESS)

    def _expelled(self, error: int) -> None:
        """The next read joins again; as a new member, if the old one is not known any more."""
        self._joined = False
        if error == Error.UNKNOWN_MEMBER_ID:
            self._member_id = ""
            self._generation = NO_GENERATION


def _alive(answer: HeartbeatResponse) -> None:
    check(answer.error_code)


def _left(answer: LeaveGroupResponse) -> None:
    check(answer.error_code)


def _as_assignment(owned: Sequence[TopicPartition]) -> assignment_form.ConsumerProtocolAssignment:
    by_topic: dict[str, list[int]] = {}
    for topic, index in owned:
        by_topic.setdefault(topic, []).append(index)
    return assignment_form.ConsumerProtocolAssignment(
        assigned_partitions=[
            assignment_form.TopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in by_topic.items()
        ]
    )


def _versioned(message: Message, version: int) -> bytes:
    return version.to_bytes(2, "big") + encode(message, version)
