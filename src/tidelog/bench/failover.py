"""How long writing stands still when a leader goes, and whether everything is there afterwards.

A cluster of real processes, one partition on all of them, a steady load with acks=all. The leader
is killed again and again, then stopped in order, then paused for a moment. Each time the longest
stretch without an acknowledgement is measured where it matters: in the client.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tidelog.audit import replica_logs
from tidelog.audit.delivery import Delivery, judge
from tidelog.audit.replica_logs import Comparison
from tidelog.bench.load import Load, number_in
from tidelog.client import Admin, Client, Consumer, NewTopic, PartitionView
from tidelog.cluster import layout
from tidelog.cluster.nodes import LocalNodes
from tidelog.cluster.readiness import wait_ready

TOPIC = "failover"
WARM_UP_S = 2.0
SETTLE_S = 0.5
BEFORE_S = 0.1
POLL_S = 0.01
PAUSE_S = 2.0
START_WITHIN_MS = 30_000
RECOVER_WITHIN_S = 60.0
STOP_WITHIN_MS = 15_000

KILL, STOP, PAUSE = "SIGKILL", "SIGTERM", "SIGSTOP"


class Round(NamedTuple):
    number: int
    fault: str
    leader: int
    successor: int
    gap_ms: float
    """The longest stretch without an acknowledgement."""
    back_ms: float
    """From the start of the process until it is in the ISR again; 0 if it never was gone."""


class Plan(NamedTuple):
    kills: int
    stops: int
    pauses: int = 1


class Outcome(NamedTuple):
    rounds: list[Round]
    acknowledged: int
    failures: list[str]
    delivery: Delivery
    replicas: Comparison
    elections_by_pause: int

    @property
    def is_clean(self) -> bool:
        identical = self.replicas.verdict == replica_logs.IDENTICAL
        kept = not self.failures and not self.elections_by_pause
        return self.delivery.is_clean and identical and kept

    def gaps(self, fault: str) -> list[float]:
        return sorted(each.gap_ms for each in self.rounds if each.fault == fault)


OnRound = Callable[[Round], None]
MakeLoad = Callable[[str, str], Load]
"""Given bootstrap servers and a topic."""


class NoRecovery(Exception):  # noqa: N818 - it names what is so
    """The cluster did not come back."""


def share(ordered: list[float], part: float) -> float:
    """The value below which this part of them lies; they are in order."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0


def longest_gap_ms(moments: list[float], begin: float, end: float) -> float:
    """The longest time of the stretch without one of these moments: also one that began before
    it, or that has not ended with it."""
    inside = [each for each in moments if begin <= each <= end]
    return max(after - before for before, after in pairwise([begin, *inside, end])) * 1000


async def run(nodes: LocalNodes, make_load: MakeLoad, plan: Plan, on_round: OnRound) -> Outcome:
    """On a cluster that is ready. It still runs afterwards."""
    async with Client(nodes.state.bootstrap_servers) as client:
        brokers = len(nodes.state.brokers)
        await Admin(client).create_topic(NewTopic(TOPIC, 1, brokers, {}))
        load = make_load(nodes.state.bootstrap_servers, TOPIC)
        bench = Bench(nodes, client, load, on_round)
        load.start()
        try:
            await asyncio.sleep(WARM_UP_S)
            faults = [KILL] * plan.kills + [STOP] * plan.stops + [PAUSE] * plan.pauses
            for number, fault in enumerate(faults, 1):
                await bench.round(number, fault)
        finally:
            await asyncio.to_thread(load.stop)
        return await bench.judge()


class Bench:
    __slots__ = ("_client", "_elections_by_pause", "_load", "_nodes", "_on_round", "_rounds")

    def __init__(self, nodes: LocalNodes, client: Client, load: Load, on_round: OnRound) -> None:
        self._nodes = nodes
        self._client = client
        self._load = load
        self._on_round = on_round
        self._rounds: list[Round] = []
        self._elections_by_pause = 0

    async def round(self, number: int, fault: str) -> None:
        before = await self._partition()
        leader = before.leader
        if leader is None:
            raise NoRecovery(f"{TOPIC}-0 has no leader before round {number}")
        begin = time.monotonic()
        await self._break(fault, leader)
        await self._until(self._writes_since(time.monotonic()), "nothing is acknowledged")
        await asyncio.sleep(SETTLE_S)
        moments = [ack.at for ack in self._load.acks]
        gap_ms = longest_gap_ms(moments, begin - BEFORE_S, time.monotonic())
        after = await self._partition()
        if fault == PAUSE:
            self._elections_by_pause += after.leader_epoch - before.leader_epoch
        back_ms = 0.0 if fault == PAUSE else await self._bring_back(leader)
        done = Round(number, fault, leader, after.leader or 0, gap_ms, back_ms)
        self._rounds.append(done)
        self._on_round(done)

    async def judge(self) -> Outcome:
        await self._until(self._is_in_step, "not all replicas are in sync")
        read, high_watermark = await self._read_all()
        directories = {
            node.id: layout.data_directory(self._nodes.directory, node.id)
            for node in self._nodes.state.brokers
        }
        acks = self._load.acks
        return Outcome(
            self._rounds,
            len(acks),
            list(self._load.failures),
            judge([(ack.offset, ack.number) for ack in acks], read),
            await self._compared(directories, high_watermark),
            self._elections_by_pause,
        )

    async def _break(self, fault: str, leader: int) -> None:
        if fault == KILL:
            self._nodes.kill(leader)
        elif fault == STOP:
            await asyncio.to_thread(self._nodes.stop, [leader], timeout_ms=STOP_WITHIN_MS)
        else:
            self._nodes.pause(leader)
            try:
                await asyncio.sleep(PAUSE_S)
            finally:
                self._nodes.resume(leader)

    async def _bring_back(self, node_id: int) -> float:
        begin = time.monotonic()
        self._nodes.start([node_id], attached=True)
        await wait_ready(self._nodes, timeout_ms=START_WITHIN_MS, expected=[node_id])
        await self._until(self._is_in_step, f"broker {node_id} is not in the ISR")
        return (time.monotonic() - begin) * 1000

    async def _compared(self, directories: dict[int, Path], high_watermark: int) -> Comparison:
        """A follower may not have written yet what its next fetch will bring."""
        deadline = time.monotonic() + RECOVER_WITHIN_S
        while True:
            found = replica_logs.compare(directories, f"{TOPIC}-0", high_watermark)
            if found.verdict != replica_logs.LAGGING or time.monotonic() >= deadline:
                return found
            await asyncio.sleep(POLL_S)

    async def _read_all(self) -> tuple[list[tuple[int, int]], int]:
        """Offsets and numbers of all records, and the high watermark."""
        consumer = Consumer(self._client, {(TOPIC, 0): 0})
        read: list[tuple[int, int]] = []
        while True:
            fetched = (await consumer.read()).get((TOPIC, 0))
            if fetched is None:
                continue
            read += [(each.record.offset, number_in(each.record.value)) for each in fetched.reads]
            if fetched.next_offset >= fetched.high_watermark:
                return read, fetched.high_watermark

    async def _partition(self) -> PartitionView:
        return (await self._client.topic(TOPIC)).partitions[0]

    async def _is_in_step(self) -> bool:
        partition = await self._partition()
        return len(partition.isr) == len(partition.replicas)

    def _writes_since(self, moment: float) -> Callable[[], Awaitable[bool]]:
        """What was acknowledged before the leader died may be heard of a little later."""

        async def writes() -> bool:
            acks = self._load.acks
            return bool(self._load.failures) or (bool(acks) and acks[-1].at > moment + BEFORE_S)

        return writes

    async def _until(self, condition: Callable[[], Awaitable[bool]], otherwise: str) -> None:
        deadline = time.monotonic() + RECOVER_WITHIN_S
        while not await condition():
            if time.monotonic() >= deadline:
                raise NoRecovery(f"{otherwise} after {RECOVER_WITHIN_S:g} s")
            await asyncio.sleep(POLL_S)
