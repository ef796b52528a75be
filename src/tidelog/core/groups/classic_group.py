"""One classic group and its members: what they want, who leads, what they agree on.

The coordinator does not read the members' papers (their protocols' metadata). It counts votes for
a protocol, hands all papers to the leader, and hands out the assignments the leader sends back.
"""

from collections import Counter
from typing import Final

from tidelog.core.errors import NO_ERROR
from tidelog.core.groups.absence import Rhythm, Silence
from tidelog.core.groups.records import ClassicGroup, ClassicGroupValue, ClassicMemberValue
from tidelog.core.groups.requests import (
    ClientName,
    DescribedGroup,
    DescribedMember,
    JoinedMember,
    JoinGroup,
    JoinProtocol,
    JoinResponse,
    SyncResponse,
)
from tidelog.core.groups.subscription import subscribed_topics

EMPTY: Final = "Empty"
PREPARING: Final = "PreparingRebalance"
COMPLETING: Final = "CompletingRebalance"
STABLE: Final = "Stable"

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of consumers; Kafka Connect, for one, has another."""


class Member:
    """One member, and the request of it that is parked here, if any."""

    __slots__ = (
        "assignment",
        "client",
        "doubted",
        "gone",
        "heard_ms",
        "instance_id",
        "interrupted",
        "join_token",
        "knows_its_id",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "rhythm",
        "session_timeout_ms",
        "sync_token",
    )

    def __init__(self, member_id: str, request: JoinGroup) -> None:
        self.member_id = member_id
        self.instance_id = request.instance_id
        self.assignment = b""
        self.rhythm = Rhythm()
        self.heard_ms = 0
        self.gone = False
        """Its connection broke, and it was not heard of since."""
        self.interrupted = False
        """It is gone since a moment in which it waited for an answer."""
        self.doubted = False
        """It was gone and has missed a heartbeat: this is its last chance."""
        self.knows_its_id = request.member_id == member_id
        """Or it has not been told yet, and could not come back under it."""
        self.join_token: object = None
        self.sync_token: object = None
        self.client = request.client
        self.protocols = request.protocols
        self.session_timeout_ms = request.session_timeout_ms
        self.rebalance_timeout_ms = request.rebalance_timeout_ms

    def protocol_names(self) -> set[str]:
        return {each.name for each in self.protocols}

    def waits(self) -> bool:
        """A parked request is a sign of life: it keeps the session."""
        return self.join_token is not None or self.sync_token is not None

    def silence(self) -> Silence:
        return Silence(
            self.heard_ms, self.rhythm.observed_ms(), self.session_timeout_ms, self.interrupted
        )

    def metadata(self, protocol: str | None) -> bytes:
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")


class Group:
    """The live state of a group. Only what `record` writes down survives a failover."""

    __slots__ = (
        "_joined",
        "_supported",
        "first",
        "generation",
        "grew",
        "group_id",
        "leader",
        "members",
        "pending",
        "protocol",
        "protocol_type",
        "remaining_ms",
        "state",
        "state_timestamp_ms",
        "static",
        "unsynced",
    )

    def __init__(self, group_id: str, now_wall_ms: int) -> None:
        self.group_id = group_id
        self.state: str = EMPTY
        self.state_timestamp_ms = now_wall_ms
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        """In the order in which they came."""
        self.static: dict[str, str] = {}
        """Instance id → member id."""
        self.pending: dict[str, int] = {}
        """Ids that were given out and not yet used → session timeout."""
        self.unsynced: set[str] = set()
        """Members of this generation that have not asked for their assignment."""
        self.first = False
        """The rebalance under way is that of a group that was empty: it waits for company."""
        self.grew = False
        self.remaining_ms = 0
        self._joined = 0  # members whose join is parked
        self._supported: Counter[str] = Counter()  # by how many members

    # -- members

    def add(self, member: Member) -> None:
        assert member.member_id, f"a member of {self.group_id} without an id"
        assert member.member_id not in self.members, f"{member.member_id} joins twice"
        assert member.instance_id not in self.static, f"{member.instance_id} joins twice"
        self.members[member.member_id] = member
        self._supported.update(member.protocol_names())
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def update(self, member: Member, request: JoinGroup) -> None:
        """It says anew who it is and what it can do."""
        self._supported.subtract(member.protocol_names())
        member.client = request.client
        member.protocols = request.protocols
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        self._supported.update(member.protocol_names())

    def remove(self, member: Member) -> None:
        """Its parked requests have been taken from it; a rebalance follows."""
        assert not member.waits(), f"{member.member_id} is removed with a request parked"
        del self.members[member.member_id]
        self._supported.subtract(member.protocol_names())
        if member.instance_id is not None:
            del self.static[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def rename(self, member: Member, member_id: str) -> None:
        """A static member came back under another id. It keeps its place in the order."""
        assert member.instance_id is not None, f"{member.member_id} is not a static member"
        assert member_id not in self.members, f"{member_id} is somebody else already"
        previous, member.member_id = member.member_id, member_id
        self.members = {each.member_id: each for each in self.members.values()}
        self.static[member.instance_id] = member_id
        if self.leader == previous:
            self.leader = member_id
        if previous in self.unsynced:
            self.unsynced.remove(previous)
            self.unsynced.add(member_id)

    def rebalance_timeout_ms(self) -> int:
        """As long as the slowest member may take."""
        return max((0, *(each.rebalance_timeout_ms for each in self.members.values())))

    def all_joined(self) -> bool:
        return not self.pending and self._joined == len(self.members)

    def park_join(self, member: Member, token: object) -> object:
        """The token that was parked before, if any: it has to be answered."""
        replaced = self.take_join(member)
        member.join_token = token
        self._joined += token is not None
        return replaced

    def take_join(self, member: Member) -> object:
        token, member.join_token = member.join_token, None
        self._joined -= token is not None
        assert 0 <= self._joined <= len(self.members), (
            f"{self._joined} of {len(self.members)} members have joined {self.group_id}"
        )
        return token

    def waiting(self, caller: object) -> Member | None:
        """Whose parked request this is."""
        assert caller is not None, f"nobody hangs up in {self.group_id}"
        for member in self.members.values():
            if caller in (member.join_token, member.sync_token):
                return member
        return None

    def elect(self) -> bool:
        """The leader stays if it came back. False if nobody came back. All wait for the leader's
        assignment, so one that hung up does not lead if anybody else can."""
        joined = [each for each in self.members.values() if each.join_token is not None]
        able = [each for each in joined if not each.interrupted] or joined
        if able and all(each.member_id != self.leader for each in able):
            self.leader = able[0].member_id
        return bool(able)

    # -- protocols

    def common_protocols(self) -> set[str]:
        everybody = len(self.members)
        return {name for name, members in self._supported.items() if members == everybody}

    def supports(self, protocol_type: str, protocols: tuple[JoinProtocol, ...]) -> bool:
        """Would a member with these find something in common with all others?"""
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return True
        common = self.common_protocols()
        return self.protocol_type == protocol_type and any(
            each.name in common for each in protocols
        )

    def elected_protocol(self) -> str:
        """Each member votes for the first of its protocols that all have. Ties go to the one
        that was voted for first."""
        common = self.common_protocols()
        votes = Counter(
            next(each.name for each in member.protocols if each.name in common)
            for member in self.members.values()
        )
        assert votes, f"group {self.group_id} has no protocol that all its members share"
        return votes.most_common(1)[0][0]

    def subscribes(self, topic: str) -> bool:
        """Papers of consumers that cannot be read may name any topic."""
        if self.protocol_type != CONSUMER_PROTOCOL:
            return False
        papers = (each.metadata for it in self.members.values() for each in it.protocols)
        return any(topics is None or topic in topics for topics in map(subscribed_topics, papers))

    # -- what is said about it

    def join_response(self, member: Member, *, skip_assignment: bool = False) -> JoinResponse:
        leads = member.member_id == self.leader
        return JoinResponse(
            NO_ERROR,
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader or "",
            skip_assignment=skip_assignment and leads,
            members=self.papers() if leads else (),
        )

    def papers(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(each.member_id, each.instance_id, each.metadata(self.protocol))
            for each in self.members.values()
        )

    def sync_response(self, member: Member) -> SyncResponse:
        return SyncResponse(NO_ERROR, self.protocol_type, self.protocol, member.assignment)

    def described(self) -> DescribedGroup:
        """Papers and assignments are those of an agreement: there is one in Stable only."""
        stable = self.state == STABLE
        return DescribedGroup(
            NO_ERROR,
            state=self.state,
            protocol_type=self.protocol_type,
            protocol=(self.protocol or "") if stable else "",
            members=tuple(
                DescribedMember(
                    each.member_id,
                    each.instance_id,
                    each.client,
                    each.metadata(self.protocol) if stable else b"",
                    each.assignment if stable else b"",
                )
                for each in self.members.values()
            ),
        )

    # -- what outlives it

    def record(self) -> ClassicGroup:
        members = tuple(
            ClassicMemberValue(
                member_id=each.member_id,
                instance_id=each.instance_id,
                client_id=each.client.client_id,
                client_host=each.client.client_host,
                rebalance_timeout_ms=each.rebalance_timeout_ms,
                session_timeout_ms=each.session_timeout_ms,
                subscription=each.metadata(self.protocol),
                assignment=each.assignment,
            )
            for each in self.members.values()
        )
        return ClassicGroup(
            self.group_id,
            ClassicGroupValue(
                protocol_type=self.protocol_type,
                generation=self.generation,
                protocol=self.protocol,
                leader=self.leader,
                state_timestamp_ms=self.state_timestamp_ms,
                members=members,
            ),
        )


def restored(group_id: str, value: ClassicGroupValue) -> Group:
    """The group as its last record has it: whatever was under way since is forgotten."""
    group = Group(group_id, value.state_timestamp_ms)
    group.state = STABLE if value.members else EMPTY
    group.generation = value.generation
    group.protocol_type = value.protocol_type
    group.protocol = value.protocol
    for each in value.members:
        member = Member(each.member_id, _as_joined(group_id, value, each))
        member.assignment = each.assignment
        group.add(member)
    if value.leader in group.members:
        group.leader = value.leader
    return group


def _as_joined(group_id: str, group: ClassicGroupValue, member: ClassicMemberValue) -> JoinGroup:
    return JoinGroup(
        group_id=group_id,
        member_id=member.member_id,
        instance_id=member.instance_id,
        client=ClientName(member.client_id, member.client_host),
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocol_type=group.protocol_type,
        protocols=(JoinProtocol(group.protocol or "", member.subscription),),
        fresh_member_id=member.member_id,
        needs_known_member_id=False,
        may_skip_assignment=False,
    )
