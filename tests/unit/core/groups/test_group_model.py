"""A classic group under random members, commits, transactions, failovers and lost time.

What has to hold whatever happens: a partition has one owner in every generation, nobody who waits
is forgotten or answered twice, offsets are those of a plain model, and a coordinator that reads
the log knows what the one before knew.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from support.groups import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Ask,
    GroupBench,
    commit,
    fetch,
    heartbeat,
    join,
    leave,
    new_offset,
    protocols,
    sync,
    transactional,
)
from tidelog.core.coordination import Marker, Write
from tidelog.core.errors import Error
from tidelog.core.groups.records import ClassicGroup
from tidelog.core.groups.requests import (
    CallerGone,
    ConnectionLost,
    DeleteGroup,
    DescribeGroup,
    JoinGroup,
    SyncGroup,
)
from tidelog.core.groups.settings import GroupSettings
from tidelog.core.types import NEVER_MS

PARTITIONS = 4
CLIENTS = 5
SETTINGS = GroupSettings(initial_rebalance_delay_ms=1_000, max_size=6)
NOBODY = "nobody"
CHANGES_NOTHING = (
    Error.ILLEGAL_GENERATION,
    Error.UNKNOWN_MEMBER_ID,
    Error.REBALANCE_IN_PROGRESS,
    Error.FENCED_INSTANCE_ID,
)

clients = st.integers(0, CLIENTS - 1)
partitions = st.integers(0, PARTITIONS - 1)
producers = st.integers(1, 3)


class Client:
    """A member as it sees itself; even ones are static."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.instance_id = f"i{index}" if index % 2 == 0 else None
        self.asked: list[Ask] = []
        self.restart()

    def restart(self) -> None:
        self.member_id = ""
        self.joined: Any = None
        """What the coordinator said of the generation it is in."""
        self.synced = False

    @property
    def generation(self) -> int:
        return -1 if self.joined is None else int(self.joined.generation)

    def learn(self) -> None:
        """Read the answers that came, as a client does."""
        for token in [each for each in self.asked if not each.waits]:
            self.asked.remove(token)
            if token.refused:
                continue
            if token.error in (Error.UNKNOWN_MEMBER_ID, Error.FENCED_INSTANCE_ID):
                self.restart()
            elif token.error != Error.NONE:
                self.joined, self.synced = None, False
                if token.error == Error.MEMBER_ID_REQUIRED:
                    self.member_id = token.response.member_id
            elif isinstance(token.request, JoinGroup):
                self.member_id, self.joined = token.response.member_id, token.response
                self.synced = False
            elif isinstance(token.request, SyncGroup):
                self.synced = token.request.generation == self.generation

    def dealt(self, shift: int) -> dict[str, bytes]:
        """A leader deals the partitions out; whoever does not lead has nothing to say."""
        if self.joined is None or not self.joined.members or self.joined.skip_assignment:
            return {}
        members = [each.member_id for each in self.joined.members]
        dealt = dict.fromkeys(members, b"")
        for partition in range(PARTITIONS):
            dealt[members[(partition + shift) % len(members)]] += bytes([partition])
        return dealt


class GroupsUnderFire(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = GroupBench(SETTINGS)
        self.clients = [Client(index) for index in range(CLIENTS)]
        self.made = 0
        self.plain: list[tuple[int, int, int | None]] = []
        """Commits in the order of the log: partition, offset, producer if transactional."""
        self.ended: dict[int, bool] = {}
        """Positions in `plain` of transactional commits that were committed or aborted."""

    # -- members

    @rule(index=clients, wanted=st.sampled_from(["range", "sticky"]), two_step=st.booleans())
    def joins(self, index: int, wanted: str, two_step: bool) -> None:
        client = self.clients[index]
        self.made += 1
        names = (wanted, "range") if wanted == "sticky" else ("range", "sticky")
        request = join(
            client.member_id,
            fresh=f"m{self.made}",
            instance_id=client.instance_id,
            protocols=protocols(*names),
            needs_known_member_id=two_step,
        )
        self.sends(client, request)

    @rule(index=clients, shift=st.integers(0, 3))
    def syncs(self, index: int, shift: int) -> None:
        client = self.clients[index]
        member_id = client.member_id or NOBODY
        self.sends(client, sync(member_id, client.generation, **client.dealt(shift)))

    @rule(index=clients)
    def beats(self, index: int) -> None:
        client = self.clients[index]
        before = self.bench.machine.hard_state()
        self.sends(client, heartbeat(client.member_id or NOBODY, client.generation))
        assert self.bench.machine.hard_state() == before

    @rule(index=clients)
    def speaks_out_of_the_past(self, index: int) -> None:
        """Of a generation that is over nothing is taken."""
        before = self.bench.machine.hard_state()
        member_id = self.clients[index].member_id or NOBODY
        group = self.bench.machine._classic._groups.get(GROUP)
        past = 0 if group is None else max(group.generation - 1, 0)
        if group is not None and group.generation == past:
            return
        commits = commit(new_offset(77), member_id=member_id, generation=past)
        for request in (heartbeat(member_id, past), sync(member_id, past, eve=b"x"), commits):
            token = self.bench.ask(request)
            if request is commits and self.is_unknown():
                assert token.error == Error.GROUP_ID_NOT_FOUND
            else:
                assert token.error in (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION)
        assert self.bench.machine.hard_state() == before

    @rule(indices=st.sets(clients, min_size=2), steps=st.integers(1, 5))
    def members_go_on(self, indices: set[int], steps: int) -> None:
        """Some clients do what clients do, for a while."""
        for _ in range(steps):
            for index in sorted(indices):
                client = self.clients[index]
                if client.asked:
                    continue
                if client.joined is None:
                    self.joins(index, "range", two_step=True)
                elif not client.synced:
                    self.syncs(index, 0)
                else:
                    self.beats(index)
            self.time_passes(1_000)

    @rule(indices=st.sets(clients, min_size=2))
    def members_agree(self, indices: set[int]) -> None:
        self.members_go_on(indices, 8)

    @rule(index=clients)
    def restarts(self, index: int) -> None:
        self.clients[index].restart()

    @rule(index=clients)
    def leaves(self, index: int) -> None:
        client = self.clients[index]
        self.bench.ask(leave(client.member_id or NOBODY))
        client.restart()
        self.read_answers()

    @rule(index=clients, back=st.booleans())
    def loses_its_connection(self, index: int, back: bool) -> None:
        client = self.clients[index]
        for caller in client.asked:
            self.bench.tell(CallerGone(GROUP, caller))
        self.bench.tell(ConnectionLost(GROUP, client.member_id, client_is_there=back))
        self.read_answers()

    # -- offsets

    @rule(index=clients, partition=partitions, offset=st.integers(0, 99), stale=st.booleans())
    def commits(self, index: int, partition: int, offset: int, stale: bool) -> None:
        client = self.clients[index]
        request = commit(
            new_offset(offset, at=partition),
            member_id=client.member_id,
            generation=client.generation - stale,
        )
        self.expect(request, partition, offset, None)

    @rule(partition=partitions, offset=st.integers(0, 99))
    def commits_anonymously(self, partition: int, offset: int) -> None:
        self.expect(commit(new_offset(offset, at=partition)), partition, offset, None)

    @rule(producer=producers, partition=partitions, offset=st.integers(0, 99))
    def commits_in_a_transaction(self, producer: int, partition: int, offset: int) -> None:
        request = transactional(new_offset(offset, at=partition), producer_id=producer)
        self.expect(request, partition, offset, producer)

    @rule(producer=producers, is_commit=st.booleans())
    def ends_a_transaction(self, producer: int, is_commit: bool) -> None:
        self.bench.mark(producer, commit=is_commit)
        for position, (_, _, by) in enumerate(self.plain):
            if by == producer:
                self.ended.setdefault(position, is_commit)

    @rule()
    def deletes_the_group(self) -> None:
        if self.bench.ask(DeleteGroup(GROUP)).error == Error.NONE:
            self.plain, self.ended = [], {}

    # -- the world

    @rule(by_ms=st.sampled_from([1, 500, 1_000, SESSION_MS - 1, SESSION_MS, REBALANCE_MS]))
    def time_passes(self, by_ms: int) -> None:
        self.bench.pass_time(by_ms)
        self.read_answers()

    @rule()
    def another_coordinator_takes_over(self) -> None:
        before = self.bench.machine.hard_state()
        self.bench.fail_over()
        assert self.bench.machine.hard_state() == before
        self.read_answers()

    @rule()
    def the_log_could_not_be_written_for_a_while(self) -> None:
        self.bench.now_ms += 10 * REBALANCE_MS
        self.bench.settle(self.bench.machine.activate(self.bench.now))

    @precondition(lambda self: any(each.waits for each in self.bench.asks))
    @rule()
    def nobody_waits_for_ever(self) -> None:
        waiting = [each for each in self.bench.asks if each.waits]
        self.bench.pass_time(3 * REBALANCE_MS + SESSION_MS)
        assert not [each.request for each in waiting if each.waits]
        self.read_answers()

    # -- what has to hold

    @invariant()
    def whoever_waits_is_parked(self) -> None:
        """Asked of a copy of the tokens, because a machine that is asked forgets them."""
        groups = self.bench.machine._classic._groups.values()
        members = [member for group in groups for member in group.members.values()]
        parked = [token for each in members for token in (each.join_token, each.sync_token)]
        parked = [token for token in parked if token is not None]
        waiting = [each for each in self.bench.asks if each.waits]
        assert len(parked) == len(set(map(id, parked)))
        assert {id(each) for each in parked} == {id(each) for each in waiting}
        assert all(isinstance(each.request, JoinGroup | SyncGroup) for each in waiting)

    @invariant()
    def every_generation_has_one_owner_per_partition(self) -> None:
        agreed: dict[int, dict[int, int]] = {}
        last = 0
        for record in group_records(self.bench.log):
            if record.value is None:
                agreed, last = {}, 0  # the group was deleted: its generations begin anew
                continue
            assert record.value.generation >= last
            last = record.value.generation
            owners: dict[int, int] = {}
            for place, member in enumerate(record.value.members):
                for partition in member.assignment:
                    assert partition not in owners
                    owners[partition] = place
            # A static member that restarts is written down again, with the same assignment.
            assert agreed.setdefault(last, owners) == owners

    @invariant()
    def the_log_says_what_the_machine_knows(self) -> None:
        assert self.bench.replayed().hard_state() == self.bench.machine.hard_state()

    @invariant()
    def offsets_are_those_of_the_model(self) -> None:
        expected: dict[int, int] = {}
        for position, (partition, offset, producer) in enumerate(self.plain):
            if producer is None or self.ended.get(position):
                expected[partition] = offset
        pending = {
            partition
            for position, (partition, _, producer) in enumerate(self.plain)
            if producer is not None and position not in self.ended
        }
        answer = self.bench.ask(fetch(*range(PARTITIONS))).response
        found = {each.partition.partition: each.offset for each in answer.offsets}
        assert found == {each: expected.get(each, -1) for each in range(PARTITIONS)}
        answer = self.bench.ask(fetch(*range(PARTITIONS), stable=True)).response
        unstable = {each.partition.partition for each in answer.offsets if each.error}
        assert unstable == pending

    @invariant()
    def a_group_with_members_has_a_deadline(self) -> None:
        if self.bench.ask(DescribeGroup(GROUP)).response.members:
            assert self.bench.machine.next_deadline_ms() < NEVER_MS

    # -- inside

    def sends(self, client: Client, request: object) -> None:
        client.asked.append(self.bench.ask(request))
        self.read_answers()

    def read_answers(self) -> None:
        for client in self.clients:
            client.learn()

    def is_unknown(self) -> bool:
        """Neither a member nor an offset of the group is known."""
        machine = self.bench.machine
        return not machine._classic.holds(GROUP) and not machine._offsets.holds(GROUP)

    def expect(self, request: Any, partition: int, offset: int, producer: int | None) -> None:
        before = self.bench.machine.hard_state(), len(self.bench.log)
        unknown = self.is_unknown()
        token = self.bench.ask(request)
        if token.error == Error.NONE:
            self.plain.append((partition, offset, producer))
        else:
            assert token.error in CHANGES_NOTHING or (
                unknown and token.error == Error.GROUP_ID_NOT_FOUND
            )
            assert (self.bench.machine.hard_state(), len(self.bench.log)) == before


def group_records(log: list[Write | Marker]) -> list[ClassicGroup]:
    writes = [each for each in log if isinstance(each, Write)]
    return [r for write in writes for r in write.records if isinstance(r, ClassicGroup)]


TestGroupsUnderFire = GroupsUnderFire.TestCase
TestGroupsUnderFire.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
