"""A member of a group of the consumer protocol (KIP-848), which our own client does not have.

It looks like `GroupConsumer` to whoever uses it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.client import Client, ClientError, KafkaError
from tidelog.client.client import ONE_TRY_MS
from tidelog.client.consumer import Consumer, Fetched
from tidelog.client.coordinator import OF_GROUP, Coordinator
from tidelog.client.errors import check
from tidelog.client.group_consumer import FirstOffset
from tidelog.client.groups import GroupAdmin, check_committed, commit_message
from tidelog.client.links import GROUP
from tidelog.core.errors import Error
from tidelog.host import tasks
from tidelog.host.ports import NetworkError
from tidelog.wire.protocol.schemas.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tidelog.wire.protocol.schemas.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.wire.protocol.schemas.offset_commit_response import OffsetCommitResponse

TopicPartition = tuple[str, int]

JOINING: Final = 0
LEAVING: Final = -1
REBALANCE_TIMEOUT_MS: Final = 5_000
HEARTBEAT_SECONDS: Final = 1.0
EXPELLED: Final = frozenset((Error.FENCED_MEMBER_EPOCH, Error.UNKNOWN_MEMBER_ID))
STALE: Final = frozenset((*EXPELLED, Error.STALE_MEMBER_EPOCH))


class ConsumerMember:
    """`read` takes on and gives up partitions as the group says; heartbeats go on between."""

    __slots__ = (
        "_client",
        "_consumer",
        "_coordinator",
        "_epoch",
        "_first_offset",
        "_group_id",
        "_heartbeats",
        "_names",
        "_one_at_a_time",
        "_target",
        "_told",
        "_topics",
        "member_id",
    )

    def __init__(
        self,
        client: Client,
        group_id: str,
        topics: Sequence[str],
        first_offset: FirstOffset,
        *,
        member_id: str,
        committed: bool = False,
    ) -> None:
        self._client = client
        self._group_id = group_id
        self._topics = tuple(topics)
        self._first_offset = first_offset
        self._coordinator = Coordinator(client, OF_GROUP, group_id)
        self._consumer = Consumer(client, {}, committed=committed)
        self.member_id = member_id
        self._epoch = JOINING
        self._names: dict[bytes, str] = {}
        self._target: tuple[TopicPartition, ...] | None = None
        """What the group wants this member to have; None after it was taken over."""
        self._told: tuple[TopicPartition, ...] | None = None
        """What the group knows that this member owns."""
        self._one_at_a_time = asyncio.Lock()
        """Heartbeats: each tells what the answer to the one before has changed."""
        self._heartbeats: asyncio.Task[None] | None = None

    @property
    def generation(self) -> int:
        """The epoch of the member; nothing while it joins."""
        return self._epoch if self._epoch > JOINING else -1

    @property
    def positions(self) -> dict[TopicPartition, int]:
        return self._consumer.positions

    async def read(self, *, max_wait_ms: int) -> dict[TopicPartition, Fetched]:
        if self._epoch == JOINING:
            self.positions.clear()
            await self._client.retrying(self._join)
        if self._heartbeats is None:
            self._heartbeats = tasks.begin(self._beat())
        if self._target is not None:
            await self._reconcile(self._target)
        if not self.positions:
            await asyncio.sleep(max_wait_ms / 1000)
            return {}
        return await self._consumer.read(max_wait_ms=max_wait_ms)

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """False if the group did not take it: a later commit, or another member, makes it good."""
        if not offsets or self._epoch == JOINING:
            return not offsets
        request = commit_message(
            self._group_id, offsets, member_id=self.member_id, generation=self._epoch
        )
        try:
            await self._coordinator.ask(
                request, OffsetCommitResponse, check_committed, purpose=GROUP
            )
        except KafkaError as error:
            if error.error not in STALE:
                raise
            return False
        return True

    async def leave(self) -> None:
        heartbeats, self._heartbeats = self._heartbeats, None
        if heartbeats is not None:
            heartbeats.cancel()
            await asyncio.gather(heartbeats, return_exceptions=True)
        self.positions.clear()
        self._epoch = LEAVING
        try:
            await self._ask()
        except (ClientError, NetworkError):
            return  # then the session ends it

    # -- what the group says

    async def _beat(self) -> None:
        """For as long as the member lives. Silence is waited out: the session may outlast it. Who
        was expelled joins again by `read` alone: what it still commits is not its own any more."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            if self._epoch == JOINING:
                continue
            try:
                await self._heartbeat()
            except (ClientError, NetworkError):
                continue

    async def _join(self) -> None:
        async with self._one_at_a_time:
            await self._exchange()

    async def _heartbeat(self) -> None:
        async with self._one_at_a_time:
            if self._epoch != JOINING:  # it may have been expelled while this one waited
                await self._exchange()

    async def _exchange(self) -> None:
        try:
            answer = await self._ask()
        except KafkaError as error:
            if error.error in EXPELLED:
                self._epoch = JOINING
                self._target = None
            raise
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self._target = await self._named(answer.assignment)

    async def _named(self, assignment: Assignment) -> tuple[TopicPartition, ...]:
        if not self._names:
            found = await self._client.topics(self._topics)
            self._names = {each.topic_id: each.name for each in found.values()}
        return tuple(
            (self._names[topic.topic_id], index)
            for topic in assignment.topic_partitions
            for index in topic.partitions
        )

    async def _ask(self) -> ConsumerGroupHeartbeatResponse:
        """What it owns is told when it has changed, and again until it was heard."""
        joining, owned = self._epoch == JOINING, tuple(self.positions)
        unchanged = owned == self._told and not joining
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self.member_id,
            member_epoch=self._epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if joining else -1,
            subscribed_topic_names=self._topics if joining else None,
            topic_partitions=None if unchanged else self._owned(),
        )

        def verdict(answer: ConsumerGroupHeartbeatResponse) -> None:
            check(answer.error_code, answer.error_message)

        self._told = None
        answer = await self._coordinator.ask_once(
            request,
            ConsumerGroupHeartbeatResponse,
            verdict,
            purpose=GROUP,
            timeout_ms=ONE_TRY_MS,
        )
        self._told = owned
        return answer

    def _owned(self) -> list[TopicPartitions]:
        by_topic: dict[str, list[int]] = {}
        for topic, index in self.positions:
            by_topic.setdefault(topic, []).append(index)
        return [
            TopicPartitions(topic_id=topic_id, partitions=by_topic[name])
            for topic_id, name in self._names.items()
            if name in by_topic
        ]

    async def _reconcile(self, target: tuple[TopicPartition, ...]) -> None:
        """Give up what is not ours any more, then begin with what is new."""
        for where in [each for each in self.positions if each not in target]:
            del self.positions[where]
        new = [each for each in target if each not in self.positions]
        committed = await GroupAdmin(self._client).committed(self._group_id, new, stable=True)
        for topic, index in new:
            known = committed.get((topic, index))
            first = await self._first_offset(topic, index, known.offset if known else None)
            if self._target is target:
                self.positions[topic, index] = first
        if self._target is target:
            self._target = None
        await self._heartbeat()
