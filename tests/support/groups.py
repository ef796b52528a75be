"""A group coordinator without surroundings: driven as a shard drives it, with a log in memory."""

from typing import Any

from support.consumer_groups import Topics
from tidelog.core.coordination import Instant, Marker, Outcome, TopicPartition, Write
from tidelog.core.errors import Error
from tidelog.core.events import Event
from tidelog.core.groups.machine import GroupMachine
from tidelog.core.groups.records import CommittedOffset
from tidelog.core.groups.requests import (
    NO_GENERATION,
    UNKNOWN_MEMBER,
    ClientName,
    CommitOffsets,
    CommitTransactionalOffsets,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    Leaver,
    NewOffset,
    SyncGroup,
)
from tidelog.core.groups.settings import GroupSettings
from tidelog.core.types import NEVER_MS

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
WALL_OFFSET_MS = 1_800_000_000_000
"""The two clocks are far apart: nobody can take one for the other."""


class Ask:
    """A token: somebody who waits for exactly one answer."""

    def __init__(self, request: object) -> None:
        self.request = request
        self.responses: list[Any] = []
        self.refused = False

    @property
    def waits(self) -> bool:
        return not self.responses and not self.refused

    @property
    def response(self) -> Any:
        assert len(self.responses) == 1, f"{self.request} was answered {self.responses}"
        return self.responses[0]

    @property
    def error(self) -> Any:
        return self.response.error


class GroupBench:
    """What a machine writes is replayed at once; time passes only when a test says so."""

    def __init__(self, settings: GroupSettings | None = None, topics: Topics | None = None) -> None:
        self.settings = settings or GroupSettings(initial_rebalance_delay_ms=0)
        self.topics = topics or Topics()
        self.log: list[Write | Marker] = []
        self.events: list[Event] = []
        self.asks: list[Ask] = []
        self.now_ms = 1_000
        self.machine = GroupMachine(self.settings, self.topics)
        self.settle(self.machine.activate(self.now))

    @property
    def now(self) -> Instant:
        return Instant(self.now_ms, self.now_ms + WALL_OFFSET_MS)

    def ask(self, request: object) -> Ask:
        token = Ask(request)
        self.asks.append(token)
        self.settle(self.machine.request(request, token, self.now))
        return token

    def tell(self, request: object) -> None:
        self.settle(self.machine.request(request, None, self.now))

    def mark(self, producer_id: int, *, commit: bool) -> None:
        marker = Marker(producer_id, 0, commit, 0)
        self.log.append(marker)
        self.machine.replay_marker(marker)

    def pass_time(self, by_ms: int) -> None:
        """Every deadline on the way is met in time."""
        end_ms = self.now_ms + by_ms
        while (due_ms := self.machine.next_deadline_ms()) <= end_ms:
            assert due_ms < NEVER_MS
            self.now_ms = max(self.now_ms, due_ms)
            self.settle(self.machine.on_time(self.now))
        self.now_ms = end_ms

    def replayed(self) -> GroupMachine:
        """Another machine that has read the log."""
        machine = GroupMachine(self.settings, self.topics)
        for entry in self.log:
            if isinstance(entry, Marker):
                machine.replay_marker(entry)
            else:
                machine.replay(entry.records, entry.stamp)
        return machine

    def fail_over(self) -> None:
        """Another broker leads: whoever waited here has to ask there."""
        for token in self.machine.parked():
            assert isinstance(token, Ask)
            assert token.waits, f"{token.request} is parked and was answered"
            token.refused = True
        assert not self.machine.parked(), "parked requests are not forgotten"
        self.machine = self.replayed()
        self.settle(self.machine.activate(self.now))

    def settle(self, outcome: Outcome) -> None:
        for write in outcome.writes:
            assert write.records, "an empty batch"
            self.log.append(write)
            self.machine.replay(write.records, write.stamp)
        self.events += outcome.events
        for answer in outcome.answers:
            assert isinstance(answer.token, Ask)
            assert answer.token.waits, f"{answer.token.request} is answered twice"
            answer.token.responses.append(answer.response)


# -- requests with everything that a story does not care about filled in


def join(member_id: str = UNKNOWN_MEMBER, **changed: Any) -> JoinGroup:
    """`fresh` is the id the shell made; a member with an id already has no use for it."""
    request = JoinGroup(
        group_id=GROUP,
        member_id=member_id,
        instance_id=None,
        client=ClientName("client", "host"),
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        protocol_type="consumer",
        protocols=protocols("range"),
        fresh_member_id=changed.pop("fresh", member_id),
        needs_known_member_id=False,
        may_skip_assignment=True,
    )
    return request._replace(**changed)


def protocols(*names: str, topics: tuple[str, ...] = ("orders",)) -> tuple[JoinProtocol, ...]:
    return tuple(JoinProtocol(name, subscription(*topics)) for name in names)


def subscription(*topics: str, tail: bytes = b"") -> bytes:
    """The papers of a consumer; what follows the topics is between the members."""
    parts = [b"\0\1", len(topics).to_bytes(4)]
    for topic in topics:
        parts += [len(topic).to_bytes(2), topic.encode()]
    return b"".join([*parts, tail])


def sync(member_id: str, generation: int, **assignments: bytes) -> SyncGroup:
    return SyncGroup(GROUP, generation, member_id, None, None, None, tuple(assignments.items()))


def heartbeat(member_id: str, generation: int, instance_id: str | None = None) -> Heartbeat:
    return Heartbeat(GROUP, generation, member_id, instance_id)


def leave(*member_ids: str) -> LeaveGroup:
    return LeaveGroup(GROUP, tuple(Leaver(each, None) for each in member_ids))


def new_offset(offset: int, metadata: str = "", *, topic: str = "orders", at: int = 0) -> NewOffset:
    return NewOffset(
        TopicPartition(topic, at), CommittedOffset(offset, 3, metadata, WALL_OFFSET_MS)
    )


def commit(
    *offsets: NewOffset,
    member_id: str = UNKNOWN_MEMBER,
    generation: int = NO_GENERATION,
    group_id: str = GROUP,
) -> CommitOffsets:
    return CommitOffsets(group_id, member_id, generation, None, offsets)


def transactional(
    *offsets: NewOffset,
    producer_id: int,
    member_id: str = UNKNOWN_MEMBER,
    generation: int = NO_GENERATION,
) -> CommitTransactionalOffsets:
    return CommitTransactionalOffsets(GROUP, member_id, generation, None, producer_id, 0, offsets)


def fetch(
    *partitions: int, topic: str = "orders", group_id: str = GROUP, stable: bool = False
) -> FetchOffsets:
    """All there are if no partition is named."""
    asked = tuple(TopicPartition(topic, each) for each in partitions) or None
    return FetchOffsets(group_id, None, -1, asked, stable)


# -- stories that begin with a group


def stable_group(bench: GroupBench, *members: str) -> int:
    """A new group of these; the first of them leads. Returns the generation."""
    joins = [bench.ask(join(fresh=each)) for each in members]
    bench.pass_time(bench.settings.initial_rebalance_delay_ms * (len(members) + 1))
    return assign(bench, joins)


def assign(bench: GroupBench, joins: list[Ask]) -> int:
    """All have joined: the leader gives each member its own name. Returns the generation."""
    (generation,) = {each.response.generation for each in joins}
    members = [each.response.member_id for each in joins]
    for token in joins:
        leads = token.response.leader == token.response.member_id
        assigned = {each: each.encode() for each in members} if leads else {}
        synced = bench.ask(sync(token.response.member_id, generation, **assigned))
        assert synced.waits or synced.error == Error.NONE, synced.response
    return int(generation)
