"""Members of groups: they read `inputs` and commit how far they are, and not all of them behave."""

import asyncio
from random import Random
from typing import Final, Protocol

from tidelog.client.consumer import Fetched
from tidelog.client.group_consumer import GroupConsumer
from tidelog.sim.nodes.client_plan import CLASSIC, GroupPlan, ProcessorPlan
from tidelog.sim.nodes.clients.consumer_member import ConsumerMember
from tidelog.sim.nodes.clients.history import Began, GroupLog, TopicPartition
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.clients.stage import FAILURES, INPUTS, PAUSE_AFTER_FAILURE_S, Stage

Membership = GroupConsumer | ConsumerMember


class Ownership(Protocol):
    """Who owns which partitions, and since when."""

    @property
    def generation(self) -> int: ...
    @property
    def member_id(self) -> str: ...
    @property
    def positions(self) -> dict[TopicPartition, int]: ...


MISCHIEF: Final = ("leave", "vanish", "stand_still", "lose_connections")
READ_WAIT_MS: Final = 200
PAUSE_BETWEEN_READS_S: Final = 0.05


class Progress:
    """How far one member is in what it owns: what it read, and has not committed yet."""

    __slots__ = ("_least", "_log", "pending")

    def __init__(self, log: GroupLog) -> None:
        self._log = log
        self._least: dict[TopicPartition, int] = {}
        self.pending: dict[TopicPartition, int] = {}

    @property
    def group(self) -> str:
        return self._log.name

    def about_to_read(self) -> None:
        """What is acknowledged as committed from here on must be seen by who asks from here on."""
        self._least = dict(self._log.committed)

    async def first_offset(self, topic: str, index: int, committed: int | None) -> int:
        """The partition is ours (again). What we knew of it from before is worth nothing."""
        where, offset = (topic, index), committed or 0
        self.pending.pop(where, None)
        self._log.began.append(Began(self._log.name, where, offset, self._least.get(where, 0)))
        return offset

    def note_reads(self, member: Ownership, fetched: dict[TopicPartition, Fetched]) -> None:
        for where, each in fetched.items():
            processed = self._log.processed.setdefault(where, {})
            for read in each.reads:
                processed[read.record.offset] = None
            if each.next_offset > each.from_offset:
                self.pending[where] = each.next_offset
        if member.generation >= 0 and member.member_id:
            for where in member.positions:
                self._log.note_owner(member.generation, where, member.member_id)

    def owned(self, member: Ownership) -> dict[TopicPartition, int]:
        """What may be committed: nothing that has gone to others meanwhile."""
        return {
            where: offset for where, offset in self.pending.items() if where in member.positions
        }


def join_group(
    process: ClientProcess, plan: GroupPlan | ProcessorPlan, progress: Progress, member_name: str
) -> Membership:
    """A new member of the group that this progress belongs to."""
    client, first_offset = process.client, progress.first_offset
    if plan.protocol == CLASSIC:
        return GroupConsumer(
            client,
            progress.group,
            [INPUTS],
            first_offset,
            session_timeout_ms=plan.session_timeout_ms,
        )
    return ConsumerMember(client, progress.group, [INPUTS], first_offset, member_id=member_name)


class Member:
    """One place in a group. Whoever vanishes from it is followed by another process."""

    __slots__ = ("_entropy", "_incarnation", "_log", "_name", "_plan", "_stage")

    def __init__(self, stage: Stage, plan: GroupPlan, log: GroupLog, name: str) -> None:
        self._stage = stage
        self._plan = plan
        self._log = log
        self._name = name
        self._entropy: Random = stage.stream(name)
        self._incarnation = 0

    def start(self, delay_ms: int = 0) -> None:
        self._stage.start_later(delay_ms, self._name, self._run)

    async def _run(self, process: ClientProcess) -> None:
        while not self._stage.drained:
            self._incarnation += 1
            name = f"{self._name}-{self._incarnation}"
            progress = Progress(self._log)
            member = join_group(process, self._plan, progress, name)
            await self._take_part(process, member, progress)
            await member.leave()

    async def _take_part(
        self, process: ClientProcess, member: Membership, progress: Progress
    ) -> None:
        """Until it leaves."""
        reads = 0
        while not self._stage.drained:
            progress.about_to_read()
            try:
                progress.note_reads(member, await member.read(max_wait_ms=READ_WAIT_MS))
                reads += 1
                if reads % self._plan.commit_every == 0 or self._stage.stopped:
                    await self._commit(member, progress)
            except FAILURES:
                await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
            if not self._stage.stopped and self._entropy.randrange(100) < self._plan.mischief:
                mischief = self._entropy.choice(MISCHIEF)
                if mischief == "leave":
                    return
                await self._misbehave(process, mischief)
            await asyncio.sleep(PAUSE_BETWEEN_READS_S)

    async def _commit(self, member: Membership, progress: Progress) -> None:
        offsets = progress.owned(member)
        if await member.commit(offsets):
            self._log.note_commit(offsets)
            progress.pending.clear()

    async def _misbehave(self, process: ClientProcess, mischief: str) -> None:
        if mischief == "vanish":
            self.start(self._entropy.randrange(3_000))
            await self._stage.vanish(process, power_lost=self._entropy.random() < 0.5)
        elif mischief == "stand_still":
            await self._stage.stand_still(process, self._plan.session_timeout_ms * 3 // 2)
        else:
            process.lose_connections()
