"""Consumer groups of the new protocol (KIP-848): the coordinator assigns, members follow.

A change of members, subscriptions or topics makes a new epoch of the group with a new target
assignment, at once. Every member then gets there at its own pace: each heartbeat takes it one
step further (`consumer_reconcile`), and is answered on the spot. Nothing waits in here.

Two kinds of state. Groups are hard state and change in `replay` only. Deadlines are soft: they
begin anew with every coordinator, and a member is never given less time than it was promised.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tidelog.core.coordination import NOTHING, Answer, Instant, Outcome, Write
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.events import Event, GroupStateChanged, MemberLeft
from tidelog.core.groups import absence
from tidelog.core.groups import consumer_targets as targeting
from tidelog.core.groups.assignors import ASSIGNORS, Partition
from tidelog.core.groups.consumer_checks import (
    JOINING,
    LEAVING,
    RefusedHeartbeatError,
    check_epoch,
    check_shape,
    known_as,
    merge,
)
from tidelog.core.groups.consumer_group import (
    LEFT_FOR_A_WHILE,
    NOT_YET,
    STABLE,
    UNREVOKED,
    ConsumerGroup,
    ConsumerRecord,
    MemberKey,
    StoredGroup,
    reconciliation,
)
from tidelog.core.groups.consumer_reconcile import Goal, reconcile
from tidelog.core.groups.deadlines import Deadlines
from tidelog.core.groups.records import (
    ConsumerGroupEpoch,
    ConsumerMember,
    ConsumerMemberValue,
    CurrentAssignment,
    CurrentAssignmentValue,
    GroupRecord,
    TargetAssignment,
    TargetAssignmentEpoch,
    TopicPartitions,
)
from tidelog.core.groups.requests import (
    UNKNOWN_MEMBER,
    ClientName,
    CommitOffsets,
    CommitTransactionalOffsets,
    ConnectionLost,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    DescribeConsumerGroup,
    DescribedConsumer,
    DescribedConsumerGroup,
    FetchOffsets,
    ListedGroup,
)
from tidelog.core.groups.settings import GroupSettings, RhythmOf, TopicsView, rhythm_of_all

CONSUMER = "consumer"
"""Both the type of these groups and their protocol type."""

LEFT: Final = "left"
LEFT_SHORTLY: Final = "left for a while"
REPLACED: Final = "replaced"
SESSION_EXPIRED: Final = "session expired"
CONNECTION_LOST: Final = "connection lost"
DID_NOT_REVOKE: Final = "did not give up its partitions in time"


class Seat(NamedTuple):
    """A member's place in its group while one of its heartbeats is looked at."""

    group: ConsumerGroup
    member_id: str
    known: str | None
    """Whose place it takes: its own, its static predecessor's, or a new one (None)."""
    before: ConsumerMemberValue | None
    value: ConsumerMemberValue

    @property
    def is_predecessor_replaced(self) -> bool:
        return self.known is not None and self.known != self.member_id


class Step(NamedTuple):
    """What one heartbeat changes, and what its member is told."""

    records: list[GroupRecord]
    events: tuple[Event, ...]
    response: ConsumerHeartbeatResponse


class Reached(NamedTuple):
    """How far a heartbeat brings its member, and its group."""

    records: list[GroupRecord]
    epoch: int
    before: CurrentAssignmentValue
    after: CurrentAssignmentValue


class Prospect(NamedTuple):
    """What a group will be when the records at hand are replayed."""

    epoch: int
    members: Mapping[str, ConsumerMemberValue]
    currents: Mapping[str, CurrentAssignmentValue]


class Gone(NamedTuple):
    """A member whose connection broke."""

    since_ms: int
    doubted: bool = False
    """It has missed a heartbeat: this is its last chance."""


class ConsumerGroups:
    """All groups of one shard that speak the consumer protocol."""

    __slots__ = (
        "_gone",
        "_groups",
        "_heard_ms",
        "_revocations",
        "_rhythm_of",
        "_sessions",
        "_settings",
        "_topics",
    )

    def __init__(
        self, settings: GroupSettings, topics: TopicsView, rhythm_of: RhythmOf | None = None
    ) -> None:
        unknown = [name for name in settings.consumer_assignors if name not in ASSIGNORS]
        assert settings.consumer_assignors, "no assignor is configured"
        assert not unknown, f"assignors {unknown} do not exist, only {list(ASSIGNORS)}"
        self._settings = settings
        self._rhythm_of = rhythm_of or rhythm_of_all(settings)
        self._topics = topics
        self._groups: dict[str, ConsumerGroup] = {}
        self._sessions: Deadlines[MemberKey] = Deadlines()
        self._revocations: Deadlines[MemberKey] = Deadlines()
        self._heard_ms: dict[MemberKey, int] = {}
        """When the last heartbeat of each member came."""
        self._gone: dict[MemberKey, Gone] = {}
        """Members whose connection broke, and who were not heard of since."""

    # -- looking

    def holds(self, group_id: str) -> bool:
        return group_id in self._groups

    def is_empty(self, group_id: str) -> bool:
        group = self._groups.get(group_id)
        return group is None or not group.members

    def subscribes(self, group_id: str, topic: str) -> bool:
        group = self._groups.get(group_id)
        return group is not None and any(
            topic in targeting.names_of(member, self._topics) for member in group.members.values()
        )

    def listed(self) -> tuple[ListedGroup, ...]:
        return tuple(
            ListedGroup(group_id, CONSUMER, group.state(), CONSUMER)
            for group_id, group in sorted(self._groups.items())
        )

    def stored(self) -> dict[str, StoredGroup]:
        """The hard state, to compare with that of another coordinator."""
        return {group_id: group.stored() for group_id, group in self._groups.items()}

    def next_deadline_ms(self) -> int:
        return min(self._sessions.next_ms(), self._revocations.next_ms())

    def parked(self) -> list[object]:
        """Every heartbeat is answered at once."""
        return []

    # -- offsets

    def check_commit(self, request: CommitOffsets | CommitTransactionalOffsets) -> Error:
        error = self._check_member(request.group_id, request.member_id, request.generation)
        if isinstance(request, CommitTransactionalOffsets) or request.knows_epochs:
            return error
        if self.is_empty(request.group_id) or error is Error.UNKNOWN_MEMBER_ID:
            return error
        return Error.UNSUPPORTED_VERSION

    def check_fetch(self, request: FetchOffsets) -> Error:
        if request.member_id is None:
            return NO_ERROR
        return self._check_member(request.group_id, request.member_id, request.member_epoch)

    def _check_member(self, group_id: str, member_id: str, member_epoch: int) -> Error:
        group = self._groups.get(group_id)
        if member_id == UNKNOWN_MEMBER and member_epoch < 0 and self.is_empty(group_id):
            return NO_ERROR  # an administrator, or a consumer that assigns partitions itself
        if group is None or member_id not in group.members:
            return Error.UNKNOWN_MEMBER_ID
        self._heard_of(MemberKey(group_id, member_id))
        if member_epoch != group.current(member_id).member_epoch:
            return Error.STALE_MEMBER_EPOCH
        return NO_ERROR

    # -- hard state

    def replay(self, record: GroupRecord) -> None:
        assert isinstance(record, ConsumerRecord), f"{record} is not of the consumer protocol"
        group = self._groups.get(record.group_id)
        if isinstance(record, ConsumerGroupEpoch) and record.epoch is None:
            self._groups.pop(record.group_id, None)
            return
        if group is None:
            if record[-1] is None:  # a tombstone: its value comes last in every record
                return
            group = self._groups[record.group_id] = ConsumerGroup(record.group_id)
        group.replay(record)

    def forget(self, group_id: str) -> tuple[GroupRecord, ...]:
        group = self._groups.get(group_id)
        if group is None:
            return ()
        members = sorted({**group.members, **group.targets, **group.currents})
        return (
            *(record for member_id in members for record in group.tombstones_of(member_id)),
            TargetAssignmentEpoch(group_id, None),
            ConsumerGroupEpoch(group_id, None),
        )

    # -- requests

    def request(self, request: object, token: object, now: Instant) -> Outcome:
        match request:
            case ConsumerHeartbeat():
                return self._on_heartbeat(request, token, now)
            case DescribeConsumerGroup():
                return Outcome(answers=(Answer(token, self._describe(request.group_id)),))
            case ConnectionLost():
                return self._on_connection_lost(request, now)
        raise AssertionError(f"not a request of the consumer protocol: {request}")

    def _on_heartbeat(self, request: ConsumerHeartbeat, token: object, now: Instant) -> Outcome:
        try:
            check_shape(request, self._settings.consumer_assignors)
            group = self._groups.get(request.group_id)
            if group is None and request.member_epoch != JOINING:
                reason = f"Group {request.group_id} not found."
                raise RefusedHeartbeatError(Error.GROUP_ID_NOT_FOUND, reason)
            group = group or ConsumerGroup(request.group_id)
            if request.member_epoch < JOINING:
                step = self._leave(group, request, now)
            else:
                step = self._step(self._seat(group, request), request, now)
        except RefusedHeartbeatError as refused:
            step = Step([], (), ConsumerHeartbeatResponse(refused.error, refused.reason))
        interval_ms = self._rhythm_of(request.group_id).heartbeat_interval_ms
        response = step.response._replace(heartbeat_interval_ms=interval_ms)
        return Outcome(
            writes=_one_batch(step.records),
            answers=(Answer(token, response),),
            events=step.events,
        )

    def _seat(self, group: ConsumerGroup, request: ConsumerHeartbeat) -> Seat:
        """Find out who asks, or refuse them."""
        member_id = request.member_id or request.fresh_member_id
        known = known_as(group, request, member_id)
        if known is None and len(group.members) >= self._settings.consumer_max_size:
            reason = f"Group {group.group_id} has {len(group.members)} members and takes no more."
            raise RefusedHeartbeatError(Error.GROUP_MAX_SIZE_REACHED, reason)
        if request.member_epoch != JOINING:
            check_epoch(request, group.current(member_id))
        before = None if known is None else group.members[known]
        return Seat(group, member_id, known, before, merge(before, request, self._topics))

    def _step(self, seat: Seat, request: ConsumerHeartbeat, now: Instant) -> Step:
        reached = self._reach(seat, request.owned)
        self._await(seat, reached, now)
        before, after = reached.before, reached.after
        tell = (
            request.member_epoch == JOINING
            or request.owned is not None
            or after.assigned != before.assigned
        )
        response = ConsumerHeartbeatResponse(
            NO_ERROR,
            member_id=seat.member_id,
            member_epoch=after.member_epoch,
            assignment=after.assigned if tell else None,
        )
        events = _step_events(seat, reached) if reached.records else ()
        return Step(reached.records, events, response)

    def _reach(self, seat: Seat, owned: TopicPartitions | None) -> Reached:
        """Everything that this heartbeat changes in the group."""
        group, member_id, known = seat.group, seat.member_id, seat.known
        records: list[GroupRecord] = []
        members, targets = group.members, group.targets
        if seat.is_predecessor_replaced:
            assert known is not None, "nobody is replaced"
            records += group.tombstones_of(known)
            members, targets = dict(members), dict(targets)
            del members[known]
            targets[member_id] = targets.pop(known, ())
        if seat.value != members.get(member_id):
            records.append(ConsumerMember(group.group_id, member_id, seat.value))
        epoch = group.epoch
        if seat.before is None or _subscription(seat.before) != _subscription(seat.value):
            epoch += 1
            targets = self._assign({**members, member_id: seat.value}, targets)
            records += _new_epoch(group, epoch, targets)
        elif seat.is_predecessor_replaced:
            records += _changed_targets(group, targets)

        def is_free(partition: Partition) -> bool:
            owner = group.owners.get(partition)
            return owner in (None, member_id, known) or owner not in group.members

        before = NOT_YET if known is None else group.current(known)
        if before.member_epoch == LEFT_FOR_A_WHILE:
            before = before._replace(member_epoch=JOINING)
        after = reconcile(before, Goal(epoch, targets.get(member_id, ())), owned, is_free)
        if after != group.currents.get(member_id):
            records.append(CurrentAssignment(group.group_id, member_id, after))
        return Reached(records, epoch, before, after)

    def _await(self, seat: Seat, reached: Reached, now: Instant) -> None:
        """Until when this member has to be heard of, and to have given up what it shall."""
        key = MemberKey(seat.group.group_id, seat.member_id)
        if seat.is_predecessor_replaced:
            assert seat.known is not None, "nobody is replaced"
            self._drop_deadlines(MemberKey(seat.group.group_id, seat.known))
        self._begin_session(key, now)
        if reached.after.state != UNREVOKED:
            self._revocations.cancel(key)
        elif reached.after != reached.before:
            self._revocations.set(key, now.monotonic_ms + seat.value.rebalance_timeout_ms)

    def _leave(self, group: ConsumerGroup, request: ConsumerHeartbeat, now: Instant) -> Step:
        member_id = request.member_id
        known = known_as(group, request, member_id)
        assert known == member_id, f"{member_id} leaves in the place of {known}"
        response = ConsumerHeartbeatResponse(
            NO_ERROR, member_id=member_id, member_epoch=request.member_epoch
        )
        if request.member_epoch == LEAVING:
            return Step(*self._remove(group, {member_id: LEFT}), response)
        # It gave everything up, but what it was assigned stays reserved until its session ends.
        key = MemberKey(group.group_id, member_id)
        self._begin_session(key, now)
        self._revocations.cancel(key)
        current = group.current(member_id)
        away = current._replace(
            member_epoch=LEFT_FOR_A_WHILE, state=STABLE, pending_revocation=()
        ).given_in(current.epochs())
        events = (
            MemberLeft(group.group_id, member_id, LEFT_SHORTLY),
            *_state_events(
                group,
                Prospect(group.epoch, group.members, {**group.currents, member_id: away}),
                f"{member_id} {LEFT_SHORTLY}",
            ),
        )
        return Step([CurrentAssignment(group.group_id, member_id, away)], events, response)

    def _remove(
        self, group: ConsumerGroup, leavers: Mapping[str, str]
    ) -> tuple[list[GroupRecord], tuple[Event, ...]]:
        """They are gone, each for a reason, and what they had is free: one new epoch for all."""
        members, targets = dict(group.members), dict(group.targets)
        records: list[GroupRecord] = []
        events: list[Event] = []
        for member_id, reason in leavers.items():
            self._drop_deadlines(MemberKey(group.group_id, member_id))
            records += group.tombstones_of(member_id)
            events.append(MemberLeft(group.group_id, member_id, reason))
            del members[member_id]
            targets.pop(member_id, None)
        epoch = group.epoch + 1
        records += _new_epoch(group, epoch, self._assign(members, targets))
        why = f"{next(iter(leavers))} left" if len(leavers) == 1 else f"{len(leavers)} members left"
        events += _state_events(group, Prospect(epoch, members, group.currents), why)
        return records, tuple(events)

    def _assign(
        self,
        members: Mapping[str, ConsumerMemberValue],
        targets: Mapping[str, TopicPartitions],
    ) -> dict[str, TopicPartitions]:
        assignors = self._settings.consumer_assignors
        return targeting.assign_targets(members, targets, self._topics, assignors)

    def _on_connection_lost(self, request: ConnectionLost, now: Instant) -> Outcome:
        """As in the classic protocol, but we know its rhythm: we have set it."""
        key = MemberKey(request.group_id, request.member_id)
        group = self._groups.get(request.group_id)
        member = None if group is None else group.members.get(request.member_id)
        if member is None or member.instance_id is not None:
            return NOTHING
        gone = self._gone.get(key) or Gone(now.monotonic_ms)
        if request.client_is_there or not gone.doubted:
            deadline_ms = absence.deadline_ms(
                self._silence(key),
                self._settings.usual_heartbeat_interval_ms,
                client_is_there=request.client_is_there,
            )
            self._gone[key] = gone._replace(doubted=False)
            self._sessions.set(key, deadline_ms)
        return NOTHING

    def _silence(self, key: MemberKey) -> absence.Silence:
        return absence.Silence(self._heard_ms[key], *self._rhythm_of(key.group_id))

    def _describe(self, group_id: str) -> DescribedConsumerGroup:
        group = self._groups.get(group_id)
        if group is None:
            reason = f"Group {group_id} is not a consumer group."
            return DescribedConsumerGroup(Error.GROUP_ID_NOT_FOUND, reason, state="Dead")
        assignors = self._settings.consumer_assignors
        return DescribedConsumerGroup(
            NO_ERROR,
            state=group.state(),
            epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor=targeting.preferred_assignor(group.members.values(), assignors),
            members=tuple(_describe_member(group, each) for each in sorted(group.members)),
        )

    # -- time and topics

    def activate(self, now: Instant) -> Outcome:
        """Everybody is alive until their session ends; whoever was revoking goes on."""
        self._sessions = Deadlines()
        self._revocations = Deadlines()
        self._gone.clear()
        self._heard_ms.clear()
        for group in self._groups.values():
            for member_id, member in group.members.items():
                key = MemberKey(group.group_id, member_id)
                self._begin_session(key, now)
                if group.current(member_id).state == UNREVOKED:
                    self._revocations.set(key, now.monotonic_ms + member.rebalance_timeout_ms)
        return self.on_topics_changed(now)

    def on_topics_changed(self, now: Instant) -> Outcome:
        """Topics came, grew or went: the groups they concern assign anew."""
        writes: list[Write] = []
        events: list[Event] = []
        for group in self._groups.values():
            if targeting.is_outdated(group, self._topics):
                epoch, targets = group.epoch + 1, self._assign(group.members, group.targets)
                writes += _one_batch(_new_epoch(group, epoch, targets))
                ahead = Prospect(epoch, group.members, group.currents)
                events += _state_events(group, ahead, "topics changed")
        return Outcome(writes=tuple(writes), events=tuple(events))

    def on_time(self, now: Instant) -> Outcome:
        """Remove who was not heard of, and who kept what others wait for."""
        due: dict[str, dict[str, str]] = {}
        while (key := self._sessions.take_due(now.monotonic_ms)) is not None:
            if self._has_a_last_chance(key, now):
                continue
            reason = CONNECTION_LOST if key in self._gone else SESSION_EXPIRED
            due.setdefault(key.group_id, {})[key.member_id] = reason
        while (key := self._revocations.take_due(now.monotonic_ms)) is not None:
            due.setdefault(key.group_id, {}).setdefault(key.member_id, DID_NOT_REVOKE)
        writes: list[Write] = []
        events: list[Event] = []
        for group_id, reasons in due.items():
            group = self._groups.get(group_id)
            if group is None:  # it was forgotten, and its members' deadlines were not
                continue
            leavers = {each: why for each, why in reasons.items() if each in group.members}
            if leavers:
                records, told = self._remove(group, leavers)
                writes += _one_batch(records)
                events += told
        return Outcome(writes=tuple(writes), events=tuple(events))

    # -- deadlines

    def _has_a_last_chance(self, key: MemberKey, now: Instant) -> bool:
        gone = self._gone.get(key)
        if gone is None or gone.doubted:
            return False
        now_ms, grace_ms = now.monotonic_ms, self._settings.disconnect_grace_ms
        until_ms = absence.last_chance_ms(self._silence(key), now_ms, grace_ms)
        self._gone[key] = gone._replace(doubted=True)
        if until_ms > now_ms:
            self._sessions.set(key, until_ms)
        return until_ms > now_ms

    def _begin_session(self, key: MemberKey, now: Instant) -> None:
        self._gone.pop(key, None)
        self._heard_ms[key] = now.monotonic_ms
        session_timeout_ms = self._rhythm_of(key.group_id).session_timeout_ms
        assert session_timeout_ms > 0, f"{key} would be gone at once"
        self._sessions.set(key, now.monotonic_ms + session_timeout_ms)

    def _heard_of(self, key: MemberKey) -> None:
        """Its connection broke, but it has another one."""
        gone = self._gone.pop(key, None)
        if gone is not None:
            self._heard_ms[key] = gone.since_ms
            session_timeout_ms = self._rhythm_of(key.group_id).session_timeout_ms
            self._sessions.set(key, gone.since_ms + session_timeout_ms)

    def _drop_deadlines(self, key: MemberKey) -> None:
        self._gone.pop(key, None)
        self._heard_ms.pop(key, None)
        self._sessions.cancel(key)
        self._revocations.cancel(key)


def _one_batch(records: Iterable[GroupRecord]) -> tuple[Write, ...]:
    batch = tuple(records)
    return (Write(batch),) if batch else ()


def _subscription(member: ConsumerMemberValue) -> tuple[tuple[str, ...], str | None]:
    return member.subscribed_topics, member.subscribed_regex


def _new_epoch(
    group: ConsumerGroup, epoch: int, targets: Mapping[str, TopicPartitions]
) -> list[GroupRecord]:
    assert epoch == group.epoch + 1, f"epoch {epoch} follows {group.epoch}"
    return [
        ConsumerGroupEpoch(group.group_id, epoch),
        *_changed_targets(group, targets),
        TargetAssignmentEpoch(group.group_id, epoch),
    ]


def _changed_targets(
    group: ConsumerGroup, targets: Mapping[str, TopicPartitions]
) -> list[GroupRecord]:
    return [
        TargetAssignment(group.group_id, member_id, partitions)
        for member_id, partitions in sorted(targets.items())
        if group.targets.get(member_id, ()) != partitions
    ]


def _step_events(seat: Seat, reached: Reached) -> tuple[Event, ...]:
    group, member_id = seat.group, seat.member_id
    members = {**group.members, member_id: seat.value}
    events: list[Event] = []
    if seat.known is not None and seat.is_predecessor_replaced:
        del members[seat.known]
        events.append(MemberLeft(group.group_id, seat.known, REPLACED))
    what = "reconciles"
    if reached.epoch != group.epoch:
        what = "joined" if seat.known is None else "subscribes to something else"
    ahead = Prospect(reached.epoch, members, {**group.currents, member_id: reached.after})
    return (*events, *_state_events(group, ahead, f"{member_id} {what}"))


def _state_events(group: ConsumerGroup, ahead: Prospect, reason: str) -> tuple[Event, ...]:
    state = reconciliation(ahead.members, ahead.currents, ahead.epoch)
    if (state, ahead.epoch) == (group.state(), group.epoch):
        return ()
    size = len(ahead.members)
    return (GroupStateChanged(group.group_id, state, ahead.epoch, size, reason),)


def _describe_member(group: ConsumerGroup, member_id: str) -> DescribedConsumer:
    member, current = group.members[member_id], group.current(member_id)
    return DescribedConsumer(
        member_id=member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=current.member_epoch,
        client=ClientName(member.client_id, member.client_host),
        subscribed_topics=member.subscribed_topics,
        subscribed_regex=member.subscribed_regex,
        assignment=current.assigned,
        target=group.targets.get(member_id, ()),
    )
