"""The roles a node has while nobody leads it: one class each, state and its questions only.

No role changes into another by itself; `QuorumNode` holds the only reference and makes every
transition. Each role says when it wants to be looked at next (`deadline_ms`) and how it
answers the two kinds of vote (the table of kraft.md §2.1).
"""

from typing import ClassVar

from tidelog.core.quorum import rules
from tidelog.core.quorum.messages import VoterKey
from tidelog.core.quorum.state import NEVER_MS, Member
from tidelog.core.types import NO_LEADER


class Ballot:
    """Who has answered one election, by node id."""

    __slots__ = ("_voters", "granted", "refused")

    def __init__(self, voters: tuple[VoterKey, ...], own_id: int) -> None:
        self._voters = tuple(voter.node_id for voter in voters)
        assert self._voters, f"{own_id} campaigns without voters"
        self.granted = [own_id] if own_id in self._voters else []
        self.refused: list[int] = []

    def record(self, voter_id: int, granted: bool) -> None:
        """Copies of an answer change nothing; a grant outweighs an earlier refusal."""
        if voter_id not in self._voters or voter_id in self.granted:
            return
        if granted:
            self.granted.append(voter_id)
            if voter_id in self.refused:
                self.refused.remove(voter_id)
        elif voter_id not in self.refused:
            self.refused.append(voter_id)

    @property
    def won(self) -> bool:
        return len(self.granted) >= rules.majority(len(self._voters))

    @property
    def lost(self) -> bool:
        return len(self._voters) - len(self.refused) < rules.majority(len(self._voters))


def may_vote_for(member: Member, candidate: VoterKey, up_to_date: bool) -> bool:
    """One vote per epoch, for a candidate that knows enough, while nobody leads the epoch."""
    if member.voted is not None:
        return member.voted == candidate
    return member.leader_id == NO_LEADER and up_to_date


class Unattached:
    """Knows an epoch, follows nobody. A voter waits to campaign, an observer asks around."""

    __slots__ = ("election_deadline_ms", "next_probe", "probe_at_ms")
    name: ClassVar[str] = "unattached"

    def __init__(self, election_deadline_ms: int, probe_at_ms: int) -> None:
        self.election_deadline_ms = election_deadline_ms
        self.probe_at_ms = probe_at_ms
        self.next_probe = 0

    @property
    def deadline_ms(self) -> int:
        return min(self.election_deadline_ms, self.probe_at_ms)

    def may_grant_pre_vote(self, up_to_date: bool) -> bool:
        return up_to_date

    def may_grant_vote(self, member: Member, candidate: VoterKey, up_to_date: bool) -> bool:
        return may_vote_for(member, candidate, up_to_date)

    def on_vote_granted(self, election_deadline_ms: int) -> None:
        self.election_deadline_ms = election_deadline_ms


class Campaign:
    """What both kinds of election share: a ballot, its end, and voters to ask once more."""

    __slots__ = ("ask_again_at_ms", "ballot", "election_deadline_ms", "not_reached")

    def __init__(self, ballot: Ballot, election_deadline_ms: int) -> None:
        self.ballot = ballot
        self.election_deadline_ms = election_deadline_ms
        self.ask_again_at_ms = NEVER_MS
        self.not_reached: list[int] = []

    @property
    def deadline_ms(self) -> int:
        return min(self.election_deadline_ms, self.ask_again_at_ms)

    def on_not_reached(self, voter_id: int, ask_again_at_ms: int) -> None:
        """The question cannot have arrived: the voter may be starting just now."""
        if voter_id not in self.not_reached:
            self.not_reached.append(voter_id)
        self.ask_again_at_ms = min(self.ask_again_at_ms, ask_again_at_ms)

    def take_not_reached(self) -> list[int]:
        """Whom to ask again; asking twice is harmless, an answer is counted once."""
        voter_ids, self.not_reached = self.not_reached, []
        self.ask_again_at_ms = NEVER_MS
        return voter_ids


class Prospective(Campaign):
    """Asks whether it would win, before it disturbs anybody with a new epoch (KIP-996)."""

    __slots__ = ()
    name: ClassVar[str] = "prospective"

    def may_grant_pre_vote(self, up_to_date: bool) -> bool:
        return up_to_date

    def may_grant_vote(self, member: Member, candidate: VoterKey, up_to_date: bool) -> bool:
        return may_vote_for(member, candidate, up_to_date)

    def on_vote_granted(self, election_deadline_ms: int) -> None:
        self.election_deadline_ms = election_deadline_ms


class Candidate(Campaign):
    """Raised the epoch and voted for itself."""

    __slots__ = ()
    name: ClassVar[str] = "candidate"

    def may_grant_pre_vote(self, up_to_date: bool) -> bool:
        return up_to_date

    def may_grant_vote(self, member: Member, candidate: VoterKey, up_to_date: bool) -> bool:
        assert member.voted == member.key, f"a candidate voted for {member.voted}"
        return False


class Resigned:
    """Led this epoch and never will again: it may have lost entries it wrote, and (offset,
    epoch) must stay unique."""

    __slots__ = ("deadline_ms", "preferred_candidates")
    name: ClassVar[str] = "resigned"

    def __init__(self, preferred_candidates: tuple[int, ...], deadline_ms: int) -> None:
        self.preferred_candidates = preferred_candidates
        self.deadline_ms = deadline_ms

    def may_grant_pre_vote(self, up_to_date: bool) -> bool:
        return up_to_date

    def may_grant_vote(self, member: Member, candidate: VoterKey, up_to_date: bool) -> bool:
        assert member.leader_id == member.node_id, f"resigned, but led by {member.leader_id}"
        return False
