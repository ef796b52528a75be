"""The classic group protocol: members elect a leader among themselves that assigns partitions.

The last record of a group is what a failover leaves of it: a generation that was agreed on, or
an empty group. `_stored` holds it. A rebalance under way is soft: the next coordinator takes the
group for stable, its members find their generation unknown, and join again.
"""

from collections.abc import Callable
from typing import Any, Final

from tidelog.core.coordination import Instant, Outcome
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.events import MemberLeft
from tidelog.core.groups.classic_group import (
    COMPLETING,
    CONSUMER_PROTOCOL,
    EMPTY,
    PREPARING,
    STABLE,
    Group,
    Member,
    restored,
)
from tidelog.core.groups.classic_rebalance import LEFT, REPLACED, Rebalances
from tidelog.core.groups.kinds import Commit, Draft
from tidelog.core.groups.records import ClassicGroup, ClassicGroupValue, GroupRecord
from tidelog.core.groups.requests import (
    UNKNOWN_MEMBER,
    CallerGone,
    CommitOffsets,
    ConnectionLost,
    DescribedGroup,
    DescribeGroup,
    FetchOffsets,
    Heartbeat,
    HeartbeatResponse,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    Leaver,
    LeaveResponse,
    ListedGroup,
    SyncGroup,
    SyncResponse,
)
from tidelog.core.groups.settings import GroupSettings
from tidelog.core.groups.subscription import subscribed_topics

GROUP_TYPE: Final = "classic"


class ClassicGroups:
    """All classic groups of one shard."""

    __slots__ = ("_groups", "_handlers", "_rebalances", "_settings", "_stored")

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._rebalances = Rebalances(settings)
        self._stored: dict[str, ClassicGroupValue] = {}
        self._groups: dict[str, Group] = {}
        self._handlers: dict[type, Callable[[Any, object, Draft], None]] = {
            JoinGroup: self._on_join,
            SyncGroup: self._on_sync,
            Heartbeat: self._on_heartbeat,
            LeaveGroup: self._on_leave,
            ConnectionLost: self._on_connection_lost,
            CallerGone: self._on_caller_gone,
            DescribeGroup: self._on_describe,
        }

    # -- for the machine that holds all kinds of groups

    def holds(self, group_id: str) -> bool:
        return group_id in self._groups

    def is_empty(self, group_id: str) -> bool:
        group = self._groups.get(group_id)
        return group is None or not group.members

    def empty_since_ms(self, group_id: str) -> int:
        """Wall clock. Long ago if nothing is known of the group."""
        group = self._groups.get(group_id)
        return 0 if group is None else group.state_timestamp_ms

    def is_idle(self, group_id: str) -> bool:
        """Nobody is in it, and nobody is on the way."""
        group = self._groups.get(group_id)
        return group is None or (group.state == EMPTY and not group.pending)

    def forget(self, group_id: str) -> tuple[GroupRecord, ...]:
        return (ClassicGroup(group_id, None),)

    def subscribes(self, group_id: str, topic: str) -> bool:
        group = self._groups.get(group_id)
        return group is not None and group.subscribes(topic)

    def has_consumers(self, group_id: str) -> bool:
        """Are its members consumers, so that it is known which topics they read?"""
        group = self._groups.get(group_id)
        return group is not None and group.protocol_type == CONSUMER_PROTOCOL

    def listed(self) -> tuple[ListedGroup, ...]:
        return tuple(
            ListedGroup(group.group_id, group.protocol_type, group.state, GROUP_TYPE)
            for group in self._groups.values()
        )

    def check_fetch(self, request: FetchOffsets) -> Error:
        """Offsets of classic groups are anybody's to read."""
        return NO_ERROR

    def check_commit(self, request: Commit) -> Error:
        """Only members of the current generation commit; to an empty group, anybody does."""
        group = self._groups[request.group_id]
        if group.state == EMPTY and request.generation < 0:
            return NO_ERROR
        error = _member_error(group, request.member_id, request.instance_id)
        if error is NO_ERROR and request.generation != group.generation:
            return Error.ILLEGAL_GENERATION
        in_between = group.state == COMPLETING and isinstance(request, CommitOffsets)
        return Error.REBALANCE_IN_PROGRESS if error is NO_ERROR and in_between else error

    def heard_of(self, group_id: str, member_id: str, now: Instant) -> None:
        """It did something that is no request of this protocol, a commit for one."""
        group = self._groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is not None and member is not None:
            self._rebalances.hear(group, member, now)

    # -- the machine

    def request(self, request: object, token: object, now: Instant) -> Outcome:
        draft = Draft(now)
        self._handlers[type(request)](request, token, draft)
        return draft.outcome()

    def next_deadline_ms(self) -> int:
        return self._rebalances.deadlines.next_ms()

    def on_time(self, now: Instant) -> Outcome:
        draft = Draft(now)
        while (timer := self._rebalances.deadlines.take_due(now.monotonic_ms)) is not None:
            group = self._groups[timer.group_id]
            self._rebalances.on_timer(group, timer, draft)
            self._drop_if_never_used(group)
        return draft.outcome()

    def activate(self, now: Instant) -> Outcome:
        for group_id, value in self._stored.items():
            if group_id not in self._groups:
                self._groups[group_id] = restored(group_id, value)
        for group in self._groups.values():
            self._rebalances.rearm(group, now)
        return Outcome()

    def replay(self, record: GroupRecord) -> None:
        assert isinstance(record, ClassicGroup), f"{record} is not of a classic group"
        if record.value is not None:
            self._stored[record.group_id] = record.value
            return
        self._stored.pop(record.group_id, None)
        group = self._groups.pop(record.group_id, None)
        if group is not None:
            self._rebalances.end(group)

    def stored(self) -> dict[str, ClassicGroupValue]:
        """What a coordinator that reads the log will know."""
        return dict(self._stored)

    def parked(self) -> list[object]:
        tokens: list[object] = []
        for group in self._groups.values():
            for member in group.members.values():
                tokens += [group.take_join(member), member.sync_token]
                member.sync_token = None
        return [token for token in tokens if token is not None]

    # -- join

    def _on_join(self, request: JoinGroup, token: object, draft: Draft) -> None:
        group = self._groups.get(request.group_id) or Group(request.group_id, draft.now.wall_ms)
        error = self._join_error(group, request)
        if error is not NO_ERROR:
            if error is Error.GROUP_MAX_SIZE_REACHED and request.member_id in group.pending:
                self._rebalances.forget_pending(group, request.member_id)
                self._rebalances.may_complete(group, draft)
            draft.answer(token, JoinResponse(error, request.member_id))
            return
        self._groups[group.group_id] = group
        member = group.members.get(_known_id(group, request))
        if member is not None:
            member.rhythm.pause()
            self._rebalances.hear(group, member, draft.now)
        if member is None:
            self._join_stranger(group, request, token, draft)
        elif request.member_id == UNKNOWN_MEMBER:
            self._join_replacing(group, member, request, token, draft)
        else:
            self._join_again(group, member, request, token, draft)

    def _join_error(self, group: Group, request: JoinGroup) -> Error:
        if not request.group_id:
            return Error.INVALID_GROUP_ID
        low_ms = max(self._settings.min_session_timeout_ms, 1)  # no time at all is no session
        high_ms = self._settings.max_session_timeout_ms
        if not low_ms <= request.session_timeout_ms <= high_ms:
            return Error.INVALID_SESSION_TIMEOUT
        known = _known_id(group, request) in group.members
        if not known and self._is_full(group):
            return Error.GROUP_MAX_SIZE_REACHED
        if not group.supports(request.protocol_type, request.protocols):
            return Error.INCONSISTENT_GROUP_PROTOCOL
        is_pending = request.member_id in group.pending and request.instance_id is None
        if is_pending or request.member_id == UNKNOWN_MEMBER:
            return NO_ERROR
        return _member_error(group, request.member_id, request.instance_id)

    def _is_full(self, group: Group) -> bool:
        return len(group.members) >= self._settings.max_size

    def _join_stranger(self, group: Group, request: JoinGroup, token: object, draft: Draft) -> None:
        """KIP-394: a dynamic member is given its id first, so that one whose answer is lost does
        not leave a member behind that nobody is."""
        member_id = request.member_id or request.fresh_member_id
        is_pending = request.member_id in group.pending
        if request.needs_known_member_id and request.instance_id is None and not is_pending:
            group.pending[member_id] = request.session_timeout_ms
            self._rebalances.wait_for_pending(group, member_id, draft.now)
            draft.answer(token, JoinResponse(Error.MEMBER_ID_REQUIRED, member_id))
            return
        if is_pending:
            self._rebalances.forget_pending(group, member_id)
        if not group.members:
            group.protocol_type = request.protocol_type
        member = Member(member_id, request)
        group.add(member)
        group.grew = True
        self._rebalances.hear(group, member, draft.now)
        self._park(group, member, token, draft)

    def _join_again(
        self,
        group: Group,
        member: Member,
        request: JoinGroup,
        token: object,
        draft: Draft,
    ) -> None:
        """A member that lost our answer is told it once more. One that wants something else, or
        a leader that saw something change, starts a rebalance."""
        unchanged = member.protocols == request.protocols
        leads = member.member_id == group.leader
        if unchanged and (group.state == COMPLETING or (group.state == STABLE and not leads)):
            draft.answer(token, group.join_response(member))
            return
        group.update(member, request)
        self._park(group, member, token, draft)

    def _join_replacing(
        self,
        group: Group,
        member: Member,
        request: JoinGroup,
        token: object,
        draft: Draft,
    ) -> None:
        """KIP-345: a static member restarted. Its old id is fenced; a stable group goes on as it
        is, if the member wants what it wanted before."""
        previous, leader = member.member_id, group.leader
        wanted = _wanted(member, group.protocol)
        self._rebalances.dismiss(group, member, draft, Error.FENCED_INSTANCE_ID)
        draft.tell(MemberLeft(group.group_id, previous, REPLACED))
        group.rename(member, request.fresh_member_id)
        group.update(member, request)
        self._rebalances.hear(group, member, draft.now)
        if (
            group.state != STABLE
            or group.elected_protocol() != group.protocol
            or _wanted(member, group.protocol) != wanted
        ):
            self._park(group, member, token, draft)
            return
        draft.write(group.record())
        response = group.join_response(member, skip_assignment=True)
        if not request.may_skip_assignment:
            # Before KIP-814 a leader could not be told to leave things as they are. One that
            # reads its former id there takes somebody else for the leader.
            response = response._replace(leader=leader or "", skip_assignment=False, members=())
        draft.answer(token, response)

    def _park(self, group: Group, member: Member, token: object, draft: Draft) -> None:
        if group.state != PREPARING:
            self._rebalances.begin(group, f"member {member.member_id} joins", draft)
        self._rebalances.park_join(group, member, token, draft)
        self._rebalances.may_complete(group, draft)

    # -- sync, heartbeat, leave

    def _on_sync(self, request: SyncGroup, token: object, draft: Draft) -> None:
        group = self._groups.get(request.group_id)
        error = _generation_error(group, request)
        if group is None or error is not NO_ERROR:
            draft.answer(token, SyncResponse(error))
            return
        member = group.members[request.member_id]
        member.rhythm.pause()
        self._rebalances.hear(group, member, draft.now)
        if request.protocol_type not in (None, group.protocol_type) or request.protocol not in (
            None,
            group.protocol,
        ):
            draft.answer(token, SyncResponse(Error.INCONSISTENT_GROUP_PROTOCOL))
        elif group.state == PREPARING:
            draft.answer(token, SyncResponse(Error.REBALANCE_IN_PROGRESS))
        elif group.state == STABLE:
            self._rebalances.synced(group, member)
            draft.answer(token, group.sync_response(member))
        else:
            replaced, member.sync_token = member.sync_token, token
            draft.answer(replaced, SyncResponse(Error.REBALANCE_IN_PROGRESS))
            self._rebalances.synced(group, member)
            if member.member_id == group.leader:
                assignments = dict(request.assignments)
                for each in group.members.values():
                    each.assignment = assignments.get(each.member_id, b"")
                self._rebalances.finish(group, draft)

    def _on_heartbeat(self, request: Heartbeat, token: object, draft: Draft) -> None:
        group = self._groups.get(request.group_id)
        error = _generation_error(group, request)
        if group is not None and error is NO_ERROR:
            member = group.members[request.member_id]
            member.rhythm.beat(draft.now.monotonic_ms)
            self._rebalances.hear(group, member, draft.now)
            if group.state == PREPARING:
                error = Error.REBALANCE_IN_PROGRESS
        draft.answer(token, HeartbeatResponse(error))

    def _on_leave(self, request: LeaveGroup, token: object, draft: Draft) -> None:
        group = self._groups.get(request.group_id)
        if group is None:
            error = Error.UNKNOWN_MEMBER_ID if request.group_id else Error.INVALID_GROUP_ID
            draft.answer(token, LeaveResponse(error))
            return
        before = len(group.members)
        errors = tuple(self._leave(group, leaver, draft) for leaver in request.members)
        if len(group.members) < before:
            self._rebalances.after_removal(group, "members left", draft)
        else:
            self._rebalances.may_complete(group, draft)
        self._drop_if_never_used(group)
        draft.answer(token, LeaveResponse(NO_ERROR, errors))

    def _leave(self, group: Group, leaver: Leaver, draft: Draft) -> Error:
        if leaver.member_id in group.pending:
            self._rebalances.forget_pending(group, leaver.member_id)
            return NO_ERROR
        member_id = leaver.member_id
        if member_id == UNKNOWN_MEMBER:  # an operator removes a static member by its name
            member_id = group.static.get(leaver.instance_id or "", UNKNOWN_MEMBER)
        error = _member_error(group, member_id, leaver.instance_id)
        if error is NO_ERROR:
            self._rebalances.remove(group, group.members[member_id], draft, reason=LEFT)
        return error

    def _on_connection_lost(self, request: ConnectionLost, token: object, draft: Draft) -> None:
        group = self._groups.get(request.group_id)
        if group is None:
            return
        member = group.members.get(request.member_id)
        if member is not None:
            self._rebalances.miss(group, member, client_is_there=request.client_is_there)
        elif request.member_id in group.pending:
            self._rebalances.miss_pending(group, request.member_id, draft.now)

    def _on_caller_gone(self, request: CallerGone, token: object, draft: Draft) -> None:
        group = self._groups.get(request.group_id)
        member = None if group is None else group.waiting(request.caller)
        if group is not None and member is not None:
            self._rebalances.hang_up(group, member, draft)
            self._drop_if_never_used(group)

    def _on_describe(self, request: DescribeGroup, token: object, draft: Draft) -> None:
        group = self._groups.get(request.group_id)
        draft.answer(token, DescribedGroup(NO_ERROR) if group is None else group.described())

    def _drop_if_never_used(self, group: Group) -> None:
        """Whoever asked for an id and did not come back leaves nothing behind."""
        if group.state == EMPTY and not group.pending and group.generation == 0:
            self._groups.pop(group.group_id, None)


def _known_id(group: Group, request: JoinGroup) -> str:
    """The id under which the group knows who joins."""
    if request.member_id == UNKNOWN_MEMBER and request.instance_id is not None:
        return group.static.get(request.instance_id, UNKNOWN_MEMBER)
    return request.member_id


def _member_error(group: Group, member_id: str, instance_id: str | None) -> Error:
    if instance_id is not None and group.static.get(instance_id, member_id) != member_id:
        return Error.FENCED_INSTANCE_ID
    if member_id not in group.members:
        return Error.UNKNOWN_MEMBER_ID
    known_instance = instance_id is None or instance_id in group.static
    return NO_ERROR if known_instance else Error.UNKNOWN_MEMBER_ID


def _generation_error(group: Group | None, request: SyncGroup | Heartbeat) -> Error:
    if not request.group_id:
        return Error.INVALID_GROUP_ID
    if group is None:
        return Error.UNKNOWN_MEMBER_ID
    error = _member_error(group, request.member_id, request.instance_id)
    if error is NO_ERROR and request.generation != group.generation:
        return Error.ILLEGAL_GENERATION
    return error


def _wanted(member: Member, protocol: str | None) -> object:
    """What a static member has to want again for the group to stay as it is. The papers of
    consumers also say what they own, which a restart makes them forget."""
    metadata = member.metadata(protocol)
    topics = subscribed_topics(metadata)
    return metadata if topics is None else topics
