"""Whatever members, topics, the network and coordinators do: no partition has two owners.

Members come, go, crash, change their minds, lose answers and take their time to give something
up; coordinators fail over to logs that may be compacted. In the end, when everybody is heard of
again, every subscribed partition has one owner and the shares are even.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from support.consumer_groups import CLIENT, GROUP, Coordinator, Topics
from tidelog.core.errors import Error
from tidelog.core.groups.assignors import flatten, fold
from tidelog.core.groups.consumer_group import held
from tidelog.core.groups.requests import CommitOffsets, ConsumerHeartbeat

SUBSCRIPTIONS = st.sampled_from(
    [(("a",), ""), (("a", "b"), ""), (("b",), ""), ((), "[ab]"), (("b",), "c.*"), ((), "")]
)
WHO = st.integers(0, 7)
START_OVER = (Error.UNKNOWN_MEMBER_ID, Error.FENCED_MEMBER_EPOCH, Error.GROUP_ID_NOT_FOUND)


class Member:
    """A well-behaved client: it says truthfully what it owns, takes what it is given at once, and
    gives up what it is not given any more when it is ready to."""

    def __init__(self, group: Coordinator, name: str, instance_id: str | None) -> None:
        self.group = group
        self.member_id = name
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: set[Any] = set()
        self.told: set[Any] = set()
        self.names: tuple[str, ...] = ()
        self.regex = ""
        self.timeout_ms = 60_000
        self.assignor: str | None = None
        self.is_sure = False
        """Has it had an answer to everything it said?"""

    def beat(self, *, full: bool = False, lost: bool = False) -> None:
        full = full or not self.is_sure or self.epoch == 0
        request = ConsumerHeartbeat(
            GROUP,
            self.member_id,
            self.epoch,
            self.instance_id,
            None,
            self.timeout_ms if full else -1,
            CLIENT,
            self.names if full else None,
            self.regex if full else None,
            self.assignor,
            fold(self.owned) if full else None,
            "",
        )
        response = self.group.ask(request)
        self.is_sure = not lost
        if not lost:
            self._hear(response)

    def _hear(self, response: Any) -> None:
        if response.error in START_OVER:
            self.start_over()
            return
        assert response.error == Error.NONE, response
        assert response.member_epoch >= self.epoch, f"{response.member_epoch} after {self.epoch}"
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.told = set(flatten(response.assignment))
            self.owned |= self.told

    def start_over(self) -> None:
        self.epoch = 0
        self.owned, self.told = set(), set()

    def let_go(self) -> None:
        if self.owned != self.told:
            self.owned &= self.told
            self.is_sure = False  # it has something to say

    def leave(self, epoch: int) -> None:
        request = ConsumerHeartbeat(
            GROUP, self.member_id, epoch, self.instance_id, None, -1, CLIENT,
            None, None, None, None, "",
        )  # fmt: skip
        response = self.group.ask(request)
        assert response.error in (Error.NONE, *START_OVER), response
        self.start_over()


class ConsumerGroupStory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.group = Coordinator(Topics(a=5, b=2))
        self.alive: list[Member] = []
        self.silent: list[Member] = []
        self.names = 0
        self.last_epoch = 0
        self.last_epochs: dict[str, int] = {}

    def a_name(self) -> str:
        self.names += 1
        return f"m{self.names * 7 % 10}-{self.names}"  # not in the order they come in

    def one(self, who: int) -> Member:
        return self.alive[who % len(self.alive)]

    @initialize(count=st.integers(0, 3))
    def begin(self, count: int) -> None:
        for _ in range(count):
            self.joins((("a", "b"), ""), False, None, False)

    # -- what happens

    @precondition(lambda self: len(self.alive) < 5)
    @rule(
        subscription=SUBSCRIPTIONS,
        static=st.booleans(),
        assignor=st.sampled_from([None, None, "uniform", "range"]),
        lost=st.booleans(),
    )
    def joins(self, subscription: Any, static: bool, assignor: str | None, lost: bool) -> None:
        name = self.a_name()
        member = Member(self.group, name, f"i-{name}" if static else None)
        member.names, member.regex = subscription
        member.assignor = assignor
        self.alive.append(member)
        member.beat(lost=lost)

    @precondition(lambda self: self.alive)
    @rule(who=WHO, full=st.booleans(), lost=st.booleans())
    def beats(self, who: int, full: bool, lost: bool) -> None:
        self.one(who).beat(full=full, lost=lost)

    @precondition(lambda self: self.alive)
    @rule()
    def all_beat(self) -> None:
        for member in self.alive:
            member.beat()

    @precondition(lambda self: self.alive)
    @rule(who=WHO, beats=st.booleans())
    def lets_go(self, who: int, beats: bool) -> None:
        self.one(who).let_go()
        if beats:
            self.one(who).beat()

    @precondition(lambda self: self.alive)
    @rule(who=WHO, subscription=SUBSCRIPTIONS, lost=st.booleans())
    def changes_its_mind(self, who: int, subscription: Any, lost: bool) -> None:
        member = self.one(who)
        member.names, member.regex = subscription
        member.beat(full=True, lost=lost)

    @precondition(lambda self: self.alive)
    @rule(who=WHO)
    def leaves(self, who: int) -> None:
        member = self.one(who)
        self.alive.remove(member)
        member.leave(-1)

    @precondition(lambda self: any(member.instance_id for member in self.alive))
    @rule(who=WHO, same_id=st.booleans(), lost=st.booleans(), waits_ms=st.sampled_from([0, 50_000]))
    def restarts(self, who: int, same_id: bool, lost: bool, waits_ms: int) -> None:
        static = [member for member in self.alive if member.instance_id]
        member = static[who % len(static)]
        member.leave(-2)
        self.group.pass_time(waits_ms)
        if not same_id:
            member.member_id = self.a_name()
        member.beat(lost=lost)

    @precondition(lambda self: self.alive)
    @rule(who=WHO)
    def falls_silent(self, who: int) -> None:
        member = self.one(who)
        self.alive.remove(member)
        self.silent.append(member)

    @precondition(lambda self: self.silent)
    @rule()
    def wakes_up(self) -> None:
        self.alive.append(self.silent.pop(0))
        self.alive[-1].beat()

    @precondition(lambda self: self.alive)
    @rule(who=WHO, back=st.booleans())
    def loses_its_connection(self, who: int, back: bool) -> None:
        self.group.connection_broke(self.one(who).member_id, client_is_there=back)

    @rule(elapsed_ms=st.sampled_from([1, 5_000, 20_000, 44_000, 61_000]))
    def time_passes(self, elapsed_ms: int) -> None:
        self.group.pass_time(elapsed_ms)

    @rule(a=st.integers(5, 7), b=st.integers(0, 3), c=st.integers(0, 3))
    def topics_change(self, a: int, b: int, c: int) -> None:
        self.group.change_topics(a=a, b=b, c=c)

    @rule(compacted=st.booleans())
    def coordinator_fails_over(self, compacted: bool) -> None:
        self.group.fail_over(compacted=compacted)

    # -- what must hold

    @invariant()
    def nobody_owns_what_the_coordinator_may_give_to_others(self) -> None:
        stored = self.group.machine.stored().get(GROUP)
        for member in (*self.alive, *self.silent):
            if stored is not None and member.member_id in stored.members:
                holds = set(held(stored.currents[member.member_id]))
                assert member.owned <= holds, f"{member.member_id}: {member.owned - holds}"

    @invariant()
    def epochs_never_go_back(self) -> None:
        stored = self.group.machine.stored().get(GROUP)
        if stored is None:
            return
        assert stored.epoch >= self.last_epoch
        assert stored.assignment_epoch == stored.epoch
        epochs = {name: current.member_epoch for name, current in stored.currents.items()}
        for name, epoch in epochs.items():
            assert epoch == -2 or epoch >= self.last_epochs.get(name, 0), name
            assert epoch <= stored.epoch
        self.last_epoch, self.last_epochs = stored.epoch, epochs

    def teardown(self) -> None:
        """The silent ones are given up, everybody else is heard of, and all is well. So it is
        after one more change of topics, and after static members have been restarted."""
        for _ in range(3):
            self.group.pass_time(20_000)
            self._everybody_catches_up()
        self._check_peace()
        self.group.change_topics(a=8)
        self._everybody_catches_up()
        self._check_peace()
        for member in self.alive:
            if member.instance_id is not None:
                member.leave(-2)
                member.member_id = self.a_name()
        self._everybody_catches_up()
        self._check_peace()

    def _check_peace(self) -> None:
        if not self.group.machine.holds(GROUP):
            assert not self.alive
            return
        self.epochs_never_go_back()
        described = self.group.describe()
        assert described.state == ("Stable" if self.alive else "Empty")
        assert {m.member_id for m in described.members} == {m.member_id for m in self.alive}
        for member in self.alive:
            commit = CommitOffsets(GROUP, member.member_id, member.epoch, None, ())
            assert self.group.machine.check_commit(commit) == Error.NONE
        self._check_shares(described)
        self.group.fail_over(compacted=True)
        assert self.group.describe() == described

    def _everybody_catches_up(self) -> None:
        for _ in range(6):
            for member in self.alive:
                member.let_go()
                member.beat()

    def _check_shares(self, described: Any) -> None:
        topics = self.group.topics
        subscribed = {
            member.member_id: {
                topics.known[name].topic_id: topics.known[name].partitions
                for name in (*member.names, *(topics.matching(member.regex or "-")))
                if name in topics.known
            }
            for member in self.alive
        }
        wanted = {
            (topic, n) for each in subscribed.values() for topic, count in each.items()
            for n in range(count)
        }  # fmt: skip
        shares = {m.member_id: m.owned for m in self.alive}
        assert sorted(p for share in shares.values() for p in share) == sorted(wanted)
        for member in described.members:
            assert member.assignment == member.target == fold(shares[member.member_id])
        if described.assignor == "uniform" and described.members and self._was_made_uniformly():
            for giver, share in shares.items():
                for taker, other in shares.items():
                    movable = any(topic in subscribed[taker] for topic, _ in share)
                    assert not movable or len(share) - len(other) <= 1, (giver, taker)

    def _was_made_uniformly(self) -> bool:
        """Asking for another assignor alone does not assign anew, so the last one may differ."""
        return all(member.assignor != "range" for member in (*self.alive, *self.silent))


ConsumerGroupStory.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
TestConsumerGroupStory = ConsumerGroupStory.TestCase
