"""All groups of one partition of `__consumer_offsets`: classic ones, consumer ones, and offsets.

A group id is of one kind at a time. An empty group becomes one of the other kind when somebody
joins it that way; its offsets stay. Offsets alone make a group too: that of consumers which
assign their partitions themselves.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tidelog.core.coordination import Answer, Instant, Marker, Outcome, ProducerStamp, Write
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.groups.classic import GROUP_TYPE, ClassicGroups
from tidelog.core.groups.classic_group import EMPTY
from tidelog.core.groups.consumer import ConsumerGroups
from tidelog.core.groups.kinds import Commit, GroupKind, joined
from tidelog.core.groups.offsets import Offsets
from tidelog.core.groups.records import (
    ClassicGroup,
    ConsumerGroupEpoch,
    ConsumerMember,
    CurrentAssignment,
    GroupRecord,
    OffsetCommit,
    TargetAssignment,
    TargetAssignmentEpoch,
)
from tidelog.core.groups.requests import (
    UNKNOWN_MEMBER,
    CallerGone,
    CommitOffsets,
    CommitResponse,
    CommitTransactionalOffsets,
    ConnectionLost,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    DeleteGroup,
    DeleteGroupResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
    DescribeConsumerGroup,
    DescribedGroup,
    DescribeGroup,
    FetchOffsets,
    FetchOffsetsResponse,
    ForgetPartitions,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    ListedGroup,
    ListGroups,
    ListGroupsResponse,
    SyncGroup,
)
from tidelog.core.groups.settings import GroupSettings, RhythmOf, TopicsView
from tidelog.core.types import NEVER_MS

Handler = Callable[[Any, object, Instant], Outcome]

CONSUMER_RECORDS = (
    ConsumerGroupEpoch,
    ConsumerMember,
    TargetAssignmentEpoch,
    TargetAssignment,
    CurrentAssignment,
)


class GroupMachine:
    """The group coordinator of one shard; it only decides which part decides."""

    __slots__ = (
        "_classic",
        "_consumer",
        "_handlers",
        "_offsets",
        "_retention_check_ms",
        "_settings",
    )

    def __init__(
        self, settings: GroupSettings, topics: TopicsView, rhythm_of: RhythmOf | None = None
    ) -> None:
        self._settings = settings
        self._classic = ClassicGroups(settings)
        self._consumer = ConsumerGroups(settings, topics, rhythm_of)
        self._offsets = Offsets(settings)
        self._retention_check_ms = NEVER_MS
        self._handlers: dict[type, Handler] = {
            JoinGroup: self._on_join,
            SyncGroup: self._classic.request,
            Heartbeat: self._classic.request,
            LeaveGroup: self._classic.request,
            ConsumerHeartbeat: self._on_consumer_heartbeat,
            DescribeConsumerGroup: self._consumer.request,
            ConnectionLost: self._on_connection_lost,
            CallerGone: self._classic.request,
            CommitOffsets: self._on_commit,
            CommitTransactionalOffsets: self._on_commit,
            FetchOffsets: self._on_fetch,
            DeleteOffsets: self._on_delete_offsets,
            DeleteGroup: self._on_delete_group,
            ForgetPartitions: self._on_forget_partitions,
            DescribeGroup: self._on_describe,
            ListGroups: self._on_list,
        }

    # -- following the log

    def replay(self, records: Sequence[object], stamp: ProducerStamp | None) -> None:
        for record in records:
            if isinstance(record, OffsetCommit):
                self._offsets.replay(record, stamp)
            elif isinstance(record, ClassicGroup):
                self._classic.replay(record)
            else:
                assert isinstance(record, CONSUMER_RECORDS), f"{record} is of no group"
                self._consumer.replay(record)

    def replay_marker(self, marker: Marker) -> None:
        self._offsets.replay_marker(marker)

    # -- the machine

    def activate(self, now: Instant) -> Outcome:
        self._plan_retention_check(now)
        return joined(self._classic.activate(now), self._consumer.activate(now))

    def request(self, request: object, token: object, now: Instant) -> Outcome:
        return self._handlers[type(request)](request, token, now)

    def on_topics_changed(self, now: Instant) -> Outcome:
        return self._consumer.on_topics_changed(now)

    def on_time(self, now: Instant) -> Outcome:
        outcome = joined(self._classic.on_time(now), self._consumer.on_time(now))
        if self._retention_check_ms <= now.monotonic_ms:
            self._plan_retention_check(now)
            return joined(outcome, self._without_expired(now))
        return outcome

    def next_deadline_ms(self) -> int:
        return min(
            self._classic.next_deadline_ms(),
            self._consumer.next_deadline_ms(),
            self._retention_check_ms,
        )

    def parked(self) -> list[object]:
        return self._classic.parked() + self._consumer.parked()

    def hard_state(self) -> tuple[object, ...]:
        """What the log says, for whoever compares a coordinator with the one before."""
        return self._classic.stored(), self._offsets.committed(), self._offsets.pending()

    # -- members come and go

    def _on_join(self, request: JoinGroup, token: object, now: Instant) -> Outcome:
        group_id = request.group_id
        if not self._consumer.holds(group_id):
            return self._classic.request(request, token, now)
        if not self._consumer.is_empty(group_id):
            response = JoinResponse(Error.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
            return _answer(token, response)
        outcome = self._classic.request(request, token, now)
        if self._classic.holds(group_id):
            ended = Outcome(writes=(Write(self._consumer.forget(group_id)),))
            return joined(ended, outcome)
        return outcome

    def _on_consumer_heartbeat(
        self, request: ConsumerHeartbeat, token: object, now: Instant
    ) -> Outcome:
        group_id = request.group_id
        if not self._classic.is_empty(group_id):
            message = f"Group {group_id} is a classic group and has members."
            response = ConsumerHeartbeatResponse(Error.GROUP_ID_NOT_FOUND, message)
            return _answer(token, response)
        outcome = self._consumer.request(request, token, now)
        if outcome.writes and self._classic.holds(group_id):
            first, *others = outcome.writes
            first = Write((*self._classic.forget(group_id), *first.records), first.stamp)
            return outcome._replace(writes=(first, *others))
        return outcome

    def _on_connection_lost(self, request: ConnectionLost, token: object, now: Instant) -> Outcome:
        kind = self._kind_of(request.group_id)
        return Outcome() if kind is None else kind.request(request, token, now)

    # -- offsets

    def _on_commit(self, request: Commit, token: object, now: Instant) -> Outcome:
        error = self._commit_error(request)
        if error is not NO_ERROR:
            return _answer(token, CommitResponse(error))
        self._classic.heard_of(request.group_id, request.member_id, now)
        return self._offsets.commit(request, token)

    def _commit_error(self, request: Commit) -> Error:
        if isinstance(request, CommitTransactionalOffsets) and _is_anonymous(request):
            # Producers of before KIP-447 do not say for whom they commit; their epoch guards it.
            return NO_ERROR
        kind = self._kind_of(request.group_id)
        if kind is not None:
            return kind.check_commit(request)
        if request.generation < 0:
            return NO_ERROR
        if self._offsets.holds(request.group_id):
            return Error.UNKNOWN_MEMBER_ID
        if isinstance(request, CommitOffsets) and request.knows_epochs:
            return Error.GROUP_ID_NOT_FOUND
        return Error.ILLEGAL_GENERATION

    def _on_fetch(self, request: FetchOffsets, token: object, now: Instant) -> Outcome:
        kind = self._kind_of(request.group_id)
        error = NO_ERROR if kind is None else kind.check_fetch(request)
        if error is not NO_ERROR:
            return _answer(token, FetchOffsetsResponse(error))
        return _answer(token, self._offsets.fetch(request))

    def _on_delete_offsets(self, request: DeleteOffsets, token: object, now: Instant) -> Outcome:
        group_id = request.group_id
        kind = self._kind_of(group_id)
        if kind is None and not self._offsets.holds(group_id):
            return _answer(token, DeleteOffsetsResponse(Error.GROUP_ID_NOT_FOUND))
        if not self._classic.is_empty(group_id) and not self._classic.has_consumers(group_id):
            return _answer(token, DeleteOffsetsResponse(Error.NON_EMPTY_GROUP))
        topics = {each.topic for each in request.partitions}
        read = {each for each in topics if kind is not None and kind.subscribes(group_id, each)}
        wanted = {each for each in request.partitions if each.topic not in read}
        records = self._offsets.tombstones(group_id, wanted.__contains__)
        errors = tuple(
            Error.GROUP_SUBSCRIBED_TO_TOPIC if each.topic in read else NO_ERROR
            for each in request.partitions
        )
        return Outcome(
            writes=(Write(records),) if records else (),
            answers=(Answer(token, DeleteOffsetsResponse(NO_ERROR, errors)),),
        )

    def _on_forget_partitions(
        self, request: ForgetPartitions, token: object, now: Instant
    ) -> Outcome:
        return self._offsets.forget_topic(request.topic)

    # -- groups as a whole

    def _on_delete_group(self, request: DeleteGroup, token: object, now: Instant) -> Outcome:
        group_id = request.group_id
        kind = self._kind_of(group_id)
        if kind is None and not self._offsets.holds(group_id):
            return _answer(token, DeleteGroupResponse(Error.GROUP_ID_NOT_FOUND))
        if self._offsets.has_pending(group_id) or (
            kind is not None and not kind.is_empty(group_id)
        ):
            return _answer(token, DeleteGroupResponse(Error.NON_EMPTY_GROUP))
        records: tuple[GroupRecord, ...] = self._offsets.tombstones(group_id)
        if kind is not None:
            records += kind.forget(group_id)
        return Outcome(
            writes=(Write(records),), answers=(Answer(token, DeleteGroupResponse(NO_ERROR)),)
        )

    def _on_describe(self, request: DescribeGroup, token: object, now: Instant) -> Outcome:
        group_id = request.group_id
        if self._kind_of(group_id) is None and self._offsets.holds(group_id):
            return _answer(token, DescribedGroup(NO_ERROR, state=EMPTY))
        return self._classic.request(request, token, now)

    def _on_list(self, request: ListGroups, token: object, now: Instant) -> Outcome:
        offsets_only = tuple(
            ListedGroup(group_id, "", EMPTY, GROUP_TYPE)
            for group_id in self._offsets.groups()
            if self._kind_of(group_id) is None
        )
        groups = (*self._classic.listed(), *self._consumer.listed(), *offsets_only)
        return _answer(token, ListGroupsResponse(NO_ERROR, groups))

    # -- retention

    def _plan_retention_check(self, now: Instant) -> None:
        interval_ms = self._settings.offsets_retention_check_interval_ms
        self._retention_check_ms = now.monotonic_ms + interval_ms

    def _without_expired(self, now: Instant) -> Outcome:
        """One batch per group, so that none gets too large for a log."""
        held = [each.group_id for each in (*self._classic.listed(), *self._consumer.listed())]
        writes = []
        for group_id in dict.fromkeys((*held, *self._offsets.groups())):
            records = self._expired(group_id, now)
            if records:
                writes.append(Write(records))
        return Outcome(writes=tuple(writes))

    def _expired(self, group_id: str, now: Instant) -> tuple[GroupRecord, ...]:
        """Offsets that nobody came back for, and then the group itself."""
        kind = self._kind_of(group_id)
        if kind is not None and not kind.is_empty(group_id):
            return ()
        since_ms = self._classic.empty_since_ms(group_id)
        expired = self._offsets.expired(group_id, since_ms=since_ms, now_wall_ms=now.wall_ms)
        all_gone = len(expired) == self._offsets.count(group_id)
        if kind is not None and all_gone and self._classic.is_idle(group_id):
            return (*expired, *kind.forget(group_id))
        return expired

    def _kind_of(self, group_id: str) -> GroupKind | None:
        """Of which kind is it? None if there are only offsets, or nothing."""
        if self._classic.holds(group_id):
            return self._classic
        return self._consumer if self._consumer.holds(group_id) else None


def _is_anonymous(request: Commit) -> bool:
    return (
        request.generation < 0
        and request.member_id == UNKNOWN_MEMBER
        and request.instance_id is None
    )


def _answer(token: object, response: object) -> Outcome:
    return Outcome(answers=(Answer(token, response),))
