"""How a classic group gets from one generation to the next.

    Empty → PreparingRebalance → CompletingRebalance → Stable

Preparing: everybody has to join again, as long as the slowest may take. Completing: a generation
is made, and everybody waits for the leader's assignment. A group that was empty waits a little
for more members, because each of them would cost a rebalance.
"""

from typing import Final, NamedTuple

from tidelog.core.coordination import Instant
from tidelog.core.errors import Error
from tidelog.core.events import GroupStateChanged, MemberLeft
from tidelog.core.groups import absence
from tidelog.core.groups.classic_group import (
    COMPLETING,
    EMPTY,
    PREPARING,
    STABLE,
    Group,
    Member,
)
from tidelog.core.groups.deadlines import Deadlines
from tidelog.core.groups.kinds import Draft
from tidelog.core.groups.requests import JoinResponse, SyncResponse
from tidelog.core.groups.settings import GroupSettings

SESSION: Final = "session"
PENDING: Final = "pending"
REBALANCE: Final = "rebalance"
SYNC: Final = "sync"

SHORTEST_WAIT_MS: Final = 1_000
"""Between two looks at a group whose members give themselves no time to come back."""

LEFT: Final = "left"
SESSION_EXPIRED: Final = "session expired"
CONNECTION_LOST: Final = "connection lost"
DID_NOT_REJOIN: Final = "did not rejoin in time"
REPLACED: Final = "replaced"


class Timer(NamedTuple):
    """What a deadline is for; sessions and pending ids are those of a member."""

    group_id: str
    kind: str
    member_id: str = ""


class Rebalances:
    """Moves groups between their states, and owns the timers of all of them."""

    __slots__ = ("_settings", "deadlines")

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self.deadlines: Deadlines[Timer] = Deadlines()

    # -- members come

    def park_join(self, group: Group, member: Member, token: object, draft: Draft) -> None:
        """A client that asks again has given up on its first request; its connection may still
        be there and has to be told something."""
        replaced = group.park_join(member, token)
        draft.answer(replaced, JoinResponse(Error.REBALANCE_IN_PROGRESS, member.member_id))

    def hear(self, group: Group, member: Member, now: Instant) -> None:
        """A sign of life: the session begins anew."""
        assert group.members.get(member.member_id) is member, (
            f"{member.member_id} is heard of and is not in {group.group_id}"
        )
        member.gone = member.interrupted = member.doubted = False
        member.heard_ms = now.monotonic_ms
        timer = Timer(group.group_id, SESSION, member.member_id)
        self.deadlines.set(timer, now.monotonic_ms + member.session_timeout_ms)

    def miss(self, group: Group, member: Member, *, client_is_there: bool) -> None:
        """Its connection broke: it has to be heard of sooner than its session says. Static
        members are expected to go and come again."""
        if member.instance_id is not None or (member.doubted and not client_is_there):
            return
        member.gone, member.doubted = True, False
        deadline_ms = absence.deadline_ms(
            member.silence(),
            self._settings.usual_heartbeat_interval_ms,
            client_is_there=client_is_there,
        )
        self.deadlines.set(Timer(group.group_id, SESSION, member.member_id), deadline_ms)

    def wait_for_pending(self, group: Group, member_id: str, now: Instant) -> None:
        timer = Timer(group.group_id, PENDING, member_id)
        self.deadlines.set(timer, now.monotonic_ms + group.pending[member_id])

    def miss_pending(self, group: Group, member_id: str, now: Instant) -> None:
        timer = Timer(group.group_id, PENDING, member_id)
        wait_ms = absence.patience_for_an_id_ms(self._settings.usual_heartbeat_interval_ms)
        self.deadlines.lower(timer, now.monotonic_ms + wait_ms)

    def forget_pending(self, group: Group, member_id: str) -> None:
        del group.pending[member_id]
        self.deadlines.cancel(Timer(group.group_id, PENDING, member_id))

    # -- members go

    def remove(
        self,
        group: Group,
        member: Member,
        draft: Draft,
        *,
        reason: str,
        error: Error = Error.UNKNOWN_MEMBER_ID,
    ) -> None:
        self.dismiss(group, member, draft, error)
        group.remove(member)
        draft.tell(MemberLeft(group.group_id, member.member_id, reason))

    def dismiss(self, group: Group, member: Member, draft: Draft, error: Error) -> None:
        """What this id has parked here is answered, and its session ends."""
        self.deadlines.cancel(Timer(group.group_id, SESSION, member.member_id))
        draft.answer(group.take_join(member), JoinResponse(error, member.member_id))
        token, member.sync_token = member.sync_token, None
        draft.answer(token, SyncResponse(error))

    def hang_up(self, group: Group, member: Member, draft: Draft) -> None:
        """It waits for an answer and is not there to read it. An id that nobody was told is
        nobody's. Others come back for the answer, or are missed soon. Until then they count: if
        everybody had to be connected at the same moment, a group whose connections break often
        would not get anywhere."""
        assert member.waits(), f"{member.member_id} of {group.group_id} waits for no answer"
        if member.knows_its_id or member.instance_id is not None:
            member.heard_ms = draft.now.monotonic_ms
            member.interrupted = True
            self.miss(group, member, client_is_there=False)
            return
        self.remove(group, member, draft, reason=CONNECTION_LOST)
        self.after_removal(group, f"member {member.member_id}: {CONNECTION_LOST}", draft)

    def after_removal(self, group: Group, reason: str, draft: Draft) -> None:
        if group.state in (COMPLETING, STABLE):
            self.begin(group, reason, draft)
        self.may_complete(group, draft)

    # -- the steps

    def begin(self, group: Group, reason: str, draft: Draft) -> None:
        """Everybody has to join again."""
        assert group.state != PREPARING, f"{group.group_id} prepares a rebalance already"
        assert all(each.join_token is None for each in group.members.values()), (
            f"a join is parked in {group.group_id} while it is {group.state}"
        )
        self._end_sync(group)
        for member in group.members.values():
            token, member.sync_token = member.sync_token, None
            draft.answer(token, SyncResponse(Error.REBALANCE_IN_PROGRESS))
        group.first = group.state == EMPTY
        self._move(group, PREPARING, reason, draft)
        wait_ms = group.rebalance_timeout_ms()
        if group.first:
            group.grew = False
            delay_ms = self._settings.initial_rebalance_delay_ms
            wait_ms, group.remaining_ms = delay_ms, max(wait_ms - delay_ms, 0)
        self._wait(group, REBALANCE, wait_ms, draft.now)

    def may_complete(self, group: Group, draft: Draft) -> None:
        """Nobody is waited for that has come already. A new group waits for company though."""
        waits_for_company = group.first and (group.members or group.pending)
        if group.state == PREPARING and group.all_joined() and not waits_for_company:
            self._complete(group, draft)

    def finish(self, group: Group, draft: Draft) -> None:
        """The leader has assigned: the group agrees, and writes it down. Everybody is told
        when that is safe."""
        assert group.state == COMPLETING, f"{group.group_id} is assigned while {group.state}"
        assert group.leader in group.members, f"{group.leader} leads {group.group_id} from outside"
        self._move(group, STABLE, "assigned", draft)
        draft.write(group.record())
        for member in group.members.values():
            token, member.sync_token = member.sync_token, None
            if token is not None:
                draft.answer(token, group.sync_response(member))
                self._heard_unless_gone(group, member, draft.now)

    def synced(self, group: Group, member: Member) -> None:
        group.unsynced.discard(member.member_id)
        if not group.unsynced:
            self._end_sync(group)

    def rearm(self, group: Group, now: Instant) -> None:
        """Time stood still for this group: all its timers begin anew."""
        for member in group.members.values():
            self.hear(group, member, now)
        for member_id in group.pending:
            self.wait_for_pending(group, member_id, now)
        if group.state == PREPARING:
            delay_ms = self._settings.initial_rebalance_delay_ms
            wait_ms = delay_ms if group.first else group.rebalance_timeout_ms()
            self._wait(group, REBALANCE, wait_ms, now)
        elif group.unsynced:
            self._wait(group, SYNC, group.rebalance_timeout_ms(), now)

    def end(self, group: Group) -> None:
        """An empty group is forgotten. Whoever was given an id may come back as a stranger."""
        assert not group.members, f"{group.group_id} is forgotten with {len(group.members)} members"
        for member_id in list(group.pending):
            self.forget_pending(group, member_id)
        self.deadlines.cancel(Timer(group.group_id, REBALANCE))

    # -- timers

    def on_timer(self, group: Group, timer: Timer, draft: Draft) -> None:
        if timer.kind == SESSION:
            self._on_session(group, group.members[timer.member_id], draft)
        elif timer.kind == PENDING:
            del group.pending[timer.member_id]
            self.may_complete(group, draft)
        elif timer.kind == REBALANCE:
            self._on_rebalance_timeout(group, draft)
        else:
            self._on_sync_timeout(group, draft)

    def _on_session(self, group: Group, member: Member, draft: Draft) -> None:
        if member.waits() and not member.gone:
            self.hear(group, member, draft.now)
            return
        if member.gone and not member.doubted:
            now_ms, grace_ms = draft.now.monotonic_ms, self._settings.disconnect_grace_ms
            until_ms = absence.last_chance_ms(member.silence(), now_ms, grace_ms)
            if until_ms > now_ms:
                member.doubted = True
                self.deadlines.set(Timer(group.group_id, SESSION, member.member_id), until_ms)
                return
        reason = CONNECTION_LOST if member.gone else SESSION_EXPIRED
        self.remove(group, member, draft, reason=reason)
        self.after_removal(group, f"member {member.member_id}: {reason}", draft)

    def _on_rebalance_timeout(self, group: Group, draft: Draft) -> None:
        assert group.state == PREPARING, f"{group.group_id} waits for no joins: {group.state}"
        if group.first and group.grew and group.remaining_ms > 0:
            group.grew = False
            delay_ms = min(self._settings.initial_rebalance_delay_ms, group.remaining_ms)
            group.remaining_ms -= delay_ms
            self._wait(group, REBALANCE, delay_ms, draft.now)
            return
        if not group.first:
            for member_id in list(group.pending):
                self.forget_pending(group, member_id)
                draft.tell(MemberLeft(group.group_id, member_id, DID_NOT_REJOIN))
        self._complete(group, draft)

    def _on_sync_timeout(self, group: Group, draft: Draft) -> None:
        assert group.state in (COMPLETING, STABLE), f"{group.group_id} waits for no sync"
        assert group.unsynced, f"everybody in {group.group_id} has synced"
        for member_id in sorted(group.unsynced):
            self.remove(group, group.members[member_id], draft, reason=DID_NOT_REJOIN)
        self.after_removal(group, "members did not ask for their assignment", draft)

    # -- inside

    def _complete(self, group: Group, draft: Draft) -> None:
        """Whoever is here makes the next generation. Static members may come back later."""
        assert group.state == PREPARING, f"{group.group_id} completes a join while {group.state}"
        self.deadlines.cancel(Timer(group.group_id, REBALANCE))
        late = [
            each
            for each in group.members.values()
            if each.join_token is None and each.instance_id is None
        ]
        for member in late:
            self.remove(group, member, draft, reason=DID_NOT_REJOIN)
        if group.members and not group.elect():
            wait_ms = max(group.rebalance_timeout_ms(), SHORTEST_WAIT_MS)
            self._wait(group, REBALANCE, wait_ms, draft.now)
            return
        group.generation += 1
        if not group.members:
            group.protocol = None
            self._move(group, EMPTY, "no members are left", draft)
            draft.write(group.record())
            return
        group.protocol = group.elected_protocol()
        self._move(group, COMPLETING, "all members have joined", draft)
        for member in group.members.values():
            token = group.take_join(member)
            if token is not None:
                group.unsynced.add(member.member_id)
                member.knows_its_id = True
                draft.answer(token, group.join_response(member))
                self._heard_unless_gone(group, member, draft.now)
        self._wait(group, SYNC, group.rebalance_timeout_ms(), draft.now)

    def _heard_unless_gone(self, group: Group, member: Member, now: Instant) -> None:
        """Whoever waited here was alive all the time, if its connection says so."""
        if not member.interrupted:
            self.hear(group, member, now)

    def _move(self, group: Group, state: str, reason: str, draft: Draft) -> None:
        group.state = state
        group.state_timestamp_ms = draft.now.wall_ms
        members = len(group.members)
        draft.tell(GroupStateChanged(group.group_id, state, group.generation, members, reason))

    def _wait(self, group: Group, kind: str, wait_ms: int, now: Instant) -> None:
        self.deadlines.set(Timer(group.group_id, kind), now.monotonic_ms + wait_ms)

    def _end_sync(self, group: Group) -> None:
        group.unsynced.clear()
        self.deadlines.cancel(Timer(group.group_id, SYNC))
