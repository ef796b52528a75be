"""Members of groups: they read where their group has come to, and commit what they have read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.core.errors import Error
from tidelog.core.groups.records import CommittedOffset
from tidelog.core.groups.requests import (
    CommitOffsets,
    ConnectionLost,
    FetchOffsets,
    FetchOffsetsResponse,
    NewOffset,
)
from tidelog.core.replication.inputs import ConsumerFetch
from tidelog.core.types import NO_EPOCH, NO_LEADER, PartitionId
from tidelog.sim import messages as m
from tidelog.sim.clients import RETRY_MS
from tidelog.sim.coordination_plan import CONSUMER, COOPERATIVE, INPUTS, GroupPlan
from tidelog.sim.entropy import stream
from tidelog.sim.membership import (
    LOST,
    REBALANCE,
    ClassicMember,
    Compact,
    ConsumerProtocolMember,
    Membership,
    named,
)
from tidelog.sim.scripted_client import Ask, ScriptedClient, Sleep, Steps

if TYPE_CHECKING:
    from tidelog.sim.world import World

READ_WAIT_MS: Final = 20
IDLE_MS: Final = 10
CUT_PERCENT: Final = 10
"""Of the heartbeats are followed by the end of the connection."""
COMMIT_AGAIN_MS: Final = 2_000
"""A commit that came late may have overtaken the last one: say it again."""
GONE: Final = (
    Error.ILLEGAL_GENERATION,
    Error.UNKNOWN_MEMBER_ID,
    Error.STALE_MEMBER_EPOCH,
    Error.FENCED_MEMBER_EPOCH,
)


class GroupReader(ScriptedClient):
    """Who reads `inputs` from where its group has come to. What becomes of it, others know."""

    __slots__ = ("group_id", "membership", "positions")

    membership: Membership

    def __init__(self, world: World, group_id: str) -> None:
        super().__init__(world)
        self.group_id = group_id
        self.positions: dict[int, int] = {}
        """Of the partitions it owns: what to read next."""

    @property
    def owned(self) -> tuple[int, ...]:
        return tuple(sorted(self.positions))

    def waiting_for(self) -> str | None:
        """Members stay; it is the group that has to get somewhere."""
        return None

    def partition(self, index: int) -> PartitionId:
        return PartitionId(self.world.image.topic_ids[INPUTS], index)

    # -- offsets

    def adopt(self) -> Steps[bool]:
        """Own what is assigned, from where the group has come to. False: it could not be told."""
        assigned = self.membership.assigned
        for index in [each for each in self.positions if each not in assigned]:
            del self.positions[index]
        missing = [each for each in assigned if each not in self.positions]
        if not missing:
            return True
        fetched = yield from self._fetch(missing)
        if fetched is None:
            return False
        self.positions.update(fetched)
        return True

    def _fetch(self, indexes: list[int]) -> Steps[dict[int, int] | None]:
        """Stable ones only: an open transaction may be about to move them."""
        standing = self.membership.standing
        is_member = standing.generation >= 0 and isinstance(self.membership, ConsumerProtocolMember)
        request = FetchOffsets(
            self.group_id,
            standing.member_id if is_member else None,
            standing.generation if is_member else -1,
            tuple(named(index) for index in indexes),
            require_stable=True,
        )
        coordinator = self.world.books.group_partition(self.group_id)
        until_ms = self.now_ms + 40 * self.timeout_ms
        while True:
            response = yield from self.call(coordinator, request, until_ms=until_ms)
            if response is None:
                return None
            assert isinstance(response, FetchOffsetsResponse), response
            if response.error in GONE:
                return None
            if response.error == Error.NONE and not any(each.error for each in response.offsets):
                return {each.partition.partition: max(0, each.offset) for each in response.offsets}
            if self.now_ms >= until_ms:
                return None
            yield Sleep(RETRY_MS)

    # -- records

    def poll(self, index: int, most: int) -> Steps[list[tuple[int, int]]]:
        """The next records of a partition, from at most so many batches: (offset, value). Moves
        its position behind them."""
        partition = self.partition(index)
        leader = yield from self.leader_of(partition)
        position = self.positions[index]
        request = m.ConsumerRead(
            self.world.new_request_id(),
            partition,
            ConsumerFetch(position, NO_EPOCH),
            most,
            READ_WAIT_MS,
        )
        reply = yield Ask(leader, request, READ_WAIT_MS + self.timeout_ms)
        if reply is None or reply.error != Error.NONE or reply.diverging is not None:
            self.forget_leader(partition)
            if reply is not None and reply.error == Error.OFFSET_OUT_OF_RANGE:
                self.out_of_range(index, partition)
            yield Sleep(IDLE_MS)
            return []
        records = [
            (offset, value)
            for batch in reply.batches
            if not batch.is_control
            for offset, value in enumerate(batch.values, batch.base_offset)
            if offset >= position
        ]
        if reply.batches:
            self.positions[index] = max(position, reply.batches[-1].last_offset + 1)
        return records

    def out_of_range(self, index: int, partition: PartitionId) -> None:
        """Only where records may be lost, or by a leader that does not know yet what it has."""
        if not self.world.expected_durable(partition):
            self.positions[index] = 0


class GroupMember(GroupReader):
    """Reads and commits: at least once. Now and then it leaves, vanishes, or sleeps too long."""

    __slots__ = ("_committed", "_committed_ms", "_cuts", "_plan")

    def __init__(self, world: World, plan: GroupPlan, group_id: str) -> None:
        super().__init__(world, group_id)
        self._plan = plan
        self._cuts = stream(world.plan.seed, f"cuts of client {self.address}")
        self._committed: dict[int, int] = {}
        self._committed_ms = 0
        compact = Compact(
            group_id,
            plan.session_timeout_ms,
            plan.rebalance_timeout_ms,
            cooperative=plan.protocol == COOPERATIVE,
        )
        self.membership = (
            ConsumerProtocolMember(self, compact)
            if plan.protocol == CONSUMER
            else ClassicMember(self, compact)
        )

    def life(self) -> Steps[None]:
        while not self.done:
            self.positions.clear()
            if (yield from self.membership.join(())):
                yield from self._serve()
            else:
                yield Sleep(RETRY_MS)

    def _serve(self) -> Steps[None]:
        """Until it is no member any more."""
        while (yield from self.adopt()):
            yield from self._read()
            state = yield from self.membership.beat(self.owned)
            if state == REBALANCE:
                yield from self._commit()
                if self.membership.gives_up_first:
                    self.positions.clear()
                if not (yield from self.membership.join(self.owned)):
                    return
            elif state == LOST:
                return
            elif set(self.positions) - set(self.membership.assigned):
                yield from self._commit()
            if self._cuts.randrange(100) < CUT_PERCENT:
                self._hang_up(client_is_there=self._cuts.random() < 0.3)
            if self._tempted() and not (yield from self._misbehave()):
                return

    def _tempted(self) -> bool:
        return not self.stopping and self.chance(self._plan.mischief)

    def _read(self) -> Steps[None]:
        """A few polls, and what they brought committed."""
        for _ in range(self._plan.commit_every):
            for index in self.owned:
                for offset, _value in (yield from self.poll(index, self._most())):
                    self.world.books.deliveries.processed(self.group_id, named(index), offset)
        moved = self.positions != self._committed
        if self.positions and (moved or self.now_ms >= self._committed_ms + COMMIT_AGAIN_MS):
            yield from self._commit()
        else:
            yield Sleep(IDLE_MS)

    def _most(self) -> int:
        return self.world.disturbances.least_read_batches or 5

    def _commit(self) -> Steps[bool]:
        """False if it is not ours to commit any more."""
        if not self.positions:
            return True
        standing = self.membership.standing
        number = self.world.new_request_id()
        offsets = tuple(
            NewOffset(named(index), CommittedOffset(position, -1, f"c{number}", self.now_ms))
            for index, position in sorted(self.positions.items())
        )
        request = CommitOffsets(self.group_id, *standing, None, offsets)
        response = yield from self.call(
            self.world.books.group_partition(self.group_id),
            request,
            until_ms=self.now_ms + self._plan.session_timeout_ms,
        )
        if response is None or response.error != Error.NONE:
            return False
        self._committed = dict(self.positions)
        self._committed_ms = self.now_ms
        return True

    def _hang_up(self, *, client_is_there: bool) -> None:
        """Its connection breaks. It opens the next one when it has something to say."""
        partition = self.world.books.group_partition(self.group_id)
        leader = self.known_leader(partition)
        if leader != NO_LEADER:
            member_id = self.membership.standing.member_id
            lost = ConnectionLost(self.group_id, member_id, client_is_there)
            self.world.network.send(self.address, leader, m.ConnectionClosed(partition, lost))

    def _misbehave(self) -> Steps[bool]:
        """False: it is out of the group, or gone."""
        what = self.entropy.choice(("leave", "vanish", "sleep"))
        if what == "leave":
            yield from self._commit()
            yield from self.membership.leave()
            yield Sleep(self.entropy.randrange(self._plan.session_timeout_ms))
            return False
        if what == "vanish":
            self.world.workload.start_member(
                self._plan, self.group_id, self.entropy.randrange(self._plan.session_timeout_ms)
            )
            if self._cuts.random() < 0.5:  # or its machine is gone as well
                self._hang_up(client_is_there=False)
            self.crash()
            return False
        yield Sleep(self._plan.session_timeout_ms * self.entropy.choice((2, 3)))
        # Late, and without asking whether it still is a member.
        return (yield from self._commit())
