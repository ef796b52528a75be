"""Role changes of a quorum node, all of them, in one place.

All transitions (kraft.md §1.1); `_switch` refuses any other:

| From        | When                                                         | To          |
|-------------|--------------------------------------------------------------|-------------|
| any         | a higher epoch without a known leader                        | unattached  |
| any         | a higher epoch with its leader                               | follower    |
| unattached  | the epoch's leader is learned                                | follower    |
| prospective | the epoch's leader is learned, or announces itself           | follower    |
| candidate   | the epoch's leader is learned                                | follower    |
| unattached  | voter: election timer                                        | prospective |
| follower    | voter: fetch timer, or the leader's process is gone          | prospective |
|             | (leader and vote kept)                                       |             |
| follower    | observer: the same, or the leader says it leads no more      | unattached  |
| prospective | a majority would vote for it                                 | candidate   |
| prospective | a majority would not, or timer: back to the leader if known  | follower    |
| prospective | the same, no leader known (vote kept)                        | unattached  |
| candidate   | a majority voted for it                                      | leader      |
| candidate   | election timer                                               | prospective |
| leader      | asked to stop, removed from the voters, or check-quorum      | resigned    |
| resigned    | election timer: with epoch + 1                               | unattached  |

A sole voter runs through unattached, prospective, candidate and leader in one step.
"""

from collections.abc import Callable, Container

from tidelog.core.events import QuorumLeaderElected, QuorumRoleChanged
from tidelog.core.quorum import rules
from tidelog.core.quorum.effects import Effect, LeadershipLost, PersistState, Send
from tidelog.core.quorum.follower import Follower
from tidelog.core.quorum.leader import Leader
from tidelog.core.quorum.messages import EndEpochRequest, LeaderChange, VoteRequest
from tidelog.core.quorum.roles import Ballot, Candidate, Prospective, Resigned, Unattached
from tidelog.core.quorum.state import NEVER_MS, Member, QuorumLostLog, QuorumState
from tidelog.core.types import NO_LEADER

Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned

_TRANSITIONS: dict[str, tuple[str, ...]] = {
    "unattached": ("unattached", "follower", "prospective"),
    "prospective": ("unattached", "follower", "candidate"),
    "candidate": ("unattached", "follower", "prospective", "leader"),
    "leader": ("unattached", "follower", "resigned"),
    "follower": ("unattached", "follower", "prospective"),
    "resigned": ("unattached", "follower"),
}


class RoleKeeper:
    """Holds the only reference to the role; the half of `QuorumNode` that changes it."""

    __slots__ = ("_draw_timeout", "_member", "_persisted", "_role", "_stopping")

    def __init__(
        self, member: Member, stored: QuorumState, draw_timeout: Callable[[int], int], now_ms: int
    ) -> None:
        self._member = member
        self._draw_timeout = draw_timeout
        self._persisted = stored
        self._stopping = False
        self._role: Role = self._first_role(stored, now_ms)

    def _first_role(self, stored: QuorumState, now_ms: int) -> Role:
        """What a restarted node is (kraft.md §1.2)."""
        member = self._member
        last_epoch = member.log.last_epoch
        if stored.epoch < last_epoch:
            member.epoch = last_epoch
            return self._unattached(now_ms)
        member.epoch, member.leader_id, member.voted = stored
        if stored.leader_id == member.node_id:
            others = tuple(voter.node_id for voter in member.other_voters)
            return Resigned(others, self._resigned_deadline_ms(now_ms))
        if stored.leader_id != NO_LEADER:
            return Follower(member, stored.leader_id, now_ms)
        if stored.voted == member.key and member.may_campaign:
            ballot = Ballot(member.voters.current, member.node_id)
            return Candidate(ballot, self._election_deadline_ms(now_ms))
        role = self._unattached(now_ms)
        if member.may_campaign and not member.is_sole_voter and self._is_new():
            role.election_deadline_ms = self._first_campaign_ms(now_ms)
        return role

    def _is_new(self) -> bool:
        """Nobody has ever led the cluster, as far as this node can know."""
        member = self._member
        return member.state == QuorumState(0, NO_LEADER, None) and not member.log.log_end_offset

    def _first_campaign_ms(self, now_ms: int) -> int:
        """There is no leader whose silence one could wait for. One voter after the other, or
        those that start together would split the vote."""
        member = self._member
        before = sum(voter.node_id < member.node_id for voter in member.other_voters)
        return now_ms + rules.campaign_delay_ms(before + 1, member.settings.campaign_stagger_ms)

    @property
    def role(self) -> str:
        return self._role.name

    @property
    def epoch(self) -> int:
        return self._member.epoch

    @property
    def leader_id(self) -> int:
        """Who leads the current epoch, as far as this node knows; -1 if nobody (any more)."""
        return NO_LEADER if type(self._role) is Resigned else self._member.leader_id

    # Transitions -------------------------------------------------------------------------

    def _switch(self, role: Role, effects: list[Effect]) -> None:
        """Take on a role. What it promises is stored before anybody can hear of it."""
        previous = self._role
        member = self._member
        assert role.name in _TRANSITIONS[previous.name], f"{previous.name} to {role.name}"
        assert member.epoch >= self._persisted.epoch, f"epoch fell to {member.epoch}"
        self._role = role
        if type(previous) is Leader:
            effects.append(LeadershipLost(previous.epoch))
        effects.append(QuorumRoleChanged(member.node_id, previous.name, role.name, member.epoch))
        self._persist(effects)
        if type(previous) is Leader:
            effects += previous.dismiss_parked(member.epoch, self.leader_id)

    def _persist(self, effects: list[Effect]) -> None:
        """Store epoch, leader and vote if they changed. Two in a row are one write."""
        state = self._member.state
        if state == self._persisted:
            return
        assert state.epoch >= self._persisted.epoch, f"{state} after {self._persisted}"
        self._persisted = state
        if effects and type(effects[-1]) is PersistState:
            effects.pop()
        effects.append(PersistState(state))

    def _adopt_epoch(self, epoch: int, leader_id: int) -> None:
        """Epochs only grow; a new one begins without a vote (§1.1)."""
        member = self._member
        assert epoch >= member.epoch, f"epoch {epoch} after {member.epoch}"
        if epoch > member.epoch:
            member.epoch = epoch
            member.leader_id = NO_LEADER
            member.voted = None
        if leader_id != NO_LEADER:
            if member.leader_id not in (NO_LEADER, leader_id):
                raise QuorumLostLog(
                    f"epoch {epoch} of the metadata quorum has two leaders, nodes "
                    f"{member.leader_id} and {leader_id}: a majority has voted twice, so voters "
                    "have lost their disks or run under one id"
                )
            member.leader_id = leader_id

    def _unattached(self, now_ms: int) -> Unattached:
        probe_at_ms = NEVER_MS if self._member.is_voter else now_ms
        return Unattached(self._election_deadline_ms(now_ms), probe_at_ms)

    def _become_unattached(self, epoch: int, now_ms: int, effects: list[Effect]) -> None:
        self._adopt_epoch(epoch, NO_LEADER)
        self._switch(self._unattached(now_ms), effects)

    def _become_follower(
        self, epoch: int, leader_id: int, now_ms: int, effects: list[Effect]
    ) -> None:
        self._adopt_epoch(epoch, leader_id)
        role = Follower(self._member, leader_id, now_ms)
        self._switch(role, effects)
        effects += role.send_fetch(now_ms)

    def _become_prospective(self, now_ms: int, effects: list[Effect]) -> None:
        member = self._member
        ballot = Ballot(member.voters.current, member.node_id)
        self._switch(Prospective(ballot, self._election_deadline_ms(now_ms)), effects)
        if ballot.won:
            self._become_candidate(now_ms, effects)
        else:
            self._send_vote_requests(effects, pre_vote=True)

    def _become_candidate(self, now_ms: int, effects: list[Effect]) -> None:
        member = self._member
        assert type(self._role) is Prospective, f"{self.role} campaigns"
        self._adopt_epoch(member.epoch + 1, NO_LEADER)
        member.voted = member.key
        ballot = Ballot(member.voters.current, member.node_id)
        self._switch(Candidate(ballot, self._election_deadline_ms(now_ms)), effects)
        if ballot.won:
            self._become_leader(ballot, now_ms, effects)
        else:
            self._send_vote_requests(effects, pre_vote=False)

    def _become_leader(self, ballot: Ballot, now_ms: int, effects: list[Effect]) -> None:
        """Lead, and write something of this epoch at once so that it can commit (§2.5)."""
        member = self._member
        assert member.voted == member.key, f"elected without its own vote: {member.voted}"
        self._adopt_epoch(member.epoch, member.node_id)
        role = Leader(member, now_ms)
        self._switch(role, effects)
        effects.append(QuorumLeaderElected(member.node_id, member.epoch, role.epoch_start_offset))
        voter_ids = tuple(voter.node_id for voter in member.voters.current)
        change = LeaderChange(member.node_id, voter_ids, tuple(ballot.granted))
        effects += role.append((change,), control=True)
        effects += role.announce(now_ms)

    def _become_resigned(self, leader: Leader, now_ms: int, effects: list[Effect]) -> None:
        member = self._member
        deadline_ms = now_ms + self._draw_timeout(member.settings.election_timeout_ms)
        role = Resigned(leader.preferred_candidates(), deadline_ms)
        self._switch(role, effects)
        self._send_end_epoch(role, effects)

    def _send_end_epoch(self, role: Resigned, effects: list[Effect]) -> None:
        member = self._member
        message = EndEpochRequest(
            member.cluster_id, member.epoch, member.node_id, role.preferred_candidates
        )
        effects += [Send(voter.node_id, message) for voter in member.other_voters]

    def _give_up(self, now_ms: int, effects: list[Effect]) -> None:
        member = self._member
        if member.leader_id in (NO_LEADER, member.node_id):
            self._become_unattached(member.epoch, now_ms, effects)
        else:
            self._become_follower(member.epoch, member.leader_id, now_ms, effects)

    def _learn(self, epoch: int, leader_id: int, now_ms: int, effects: list[Effect]) -> bool:
        """Take over a newer epoch or a newly known leader.

        True if the message belongs to the role the node still has; otherwise there is nothing
        more in it: it is outdated, or the question it answers was asked in an earlier role.
        """
        member = self._member
        if epoch == member.epoch and leader_id in (member.leader_id, NO_LEADER, member.node_id):
            return True
        if epoch < member.epoch:
            return False
        if leader_id in (NO_LEADER, member.node_id):
            self._become_unattached(epoch, now_ms, effects)
        else:
            self._become_follower(epoch, leader_id, now_ms, effects)
        return False

    def _election_deadline_ms(self, now_ms: int) -> int:
        """A sole voter has nobody to wait for; observers and stopping nodes never campaign."""
        member = self._member
        if not member.may_campaign or self._stopping:
            return NEVER_MS
        if member.is_sole_voter:
            return now_ms
        return now_ms + self._draw_timeout(member.settings.election_timeout_ms)

    def _resigned_deadline_ms(self, now_ms: int) -> int:
        """Also one that was removed from the voters leaves its old epoch in time."""
        if self._member.is_sole_voter:
            return now_ms
        return now_ms + self._draw_timeout(self._member.settings.election_timeout_ms)

    def _send_vote_requests(
        self, effects: list[Effect], *, pre_vote: bool, only: Container[int] | None = None
    ) -> None:
        member = self._member
        last_epoch, last_offset = member.durable_position()
        for voter in member.other_voters:
            if only is not None and voter.node_id not in only:
                continue
            request = VoteRequest(
                member.cluster_id,
                member.epoch,
                member.key,
                voter,
                last_epoch,
                last_offset,
                pre_vote,
            )
            effects.append(Send(voter.node_id, request))
