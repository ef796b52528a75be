"""Faults of a local cluster, one after the other, each mended before the next."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from tidelog.client import Client, ClientError
from tidelog.cluster import faults
from tidelog.cluster.nodes import LocalNodes
from tidelog.cluster.readiness import wait_ready
from tidelog.host.ports import NetworkError

KILL: Final = "kill"
RESTART: Final = "restart"
PAUSE: Final = "pause"
PARTITION: Final = "partition"
SLOW: Final = "slow"
KINDS: Final = (KILL, RESTART, PAUSE, PARTITION, SLOW)

HELD_SECONDS = 2.0
BETWEEN_SECONDS = 1.0
LATENCY_MS = 80
READY_WITHIN_MS = 30_000
STOP_WITHIN_MS = 15_000
LOOK_SECONDS = 0.02

Tell = Callable[[str], None]


class Disturbance:
    """Breaks the leader of one partition after the other, in the ways that were asked for."""

    __slots__ = ("_count", "_kinds", "_nodes", "_tell", "_topic")

    def __init__(
        self, nodes: LocalNodes, topic: str, kinds: Sequence[str], tell: Tell = lambda _: None
    ) -> None:
        self._nodes = nodes
        self._topic = topic
        self._kinds = tuple(kinds)
        self._tell = tell
        self._count = 0

    @property
    def count(self) -> int:
        return self._count

    async def run(self, seconds: float) -> None:
        """Faults until the time is over; the last one is mended too. Whoever cancels it has the
        cluster as it is then."""
        deadline = time.monotonic() + seconds
        async with Client(self._nodes.state.bootstrap_servers) as client:
            while time.monotonic() + HELD_SECONDS < deadline:
                await asyncio.sleep(BETWEEN_SECONDS)
                kind = self._kinds[self._count % len(self._kinds)]
                victim = await self._next_victim(client, kind)
                self._count += 1
                await self._break(kind, victim)
                await asyncio.sleep(HELD_SECONDS)
                await self._mend()
                await self._until_in_sync(client)

    async def _mend(self) -> None:
        """Everybody runs, and hears everybody."""
        nodes = self._nodes
        for node_id in nodes.node_ids:
            nodes.resume(node_id)
        await asyncio.to_thread(nodes.start, nodes.node_ids, attached=True)
        await wait_ready(nodes, timeout_ms=READY_WITHIN_MS)
        await asyncio.to_thread(faults.heal, nodes)

    async def _break(self, kind: str, victim: int) -> None:
        nodes = self._nodes
        if kind == KILL:
            await asyncio.to_thread(nodes.kill, victim)
        elif kind == RESTART:
            await asyncio.to_thread(nodes.stop, [victim], timeout_ms=STOP_WITHIN_MS)
        elif kind == PAUSE:
            await asyncio.to_thread(nodes.pause, victim)
        elif kind == PARTITION:
            others = [each for each in nodes.node_ids if each != victim]
            await asyncio.to_thread(faults.cut, nodes, [[victim], others])
        else:
            assert kind == SLOW, kind
            await asyncio.to_thread(faults.slow, nodes, victim, LATENCY_MS)

    async def _next_victim(self, client: Client, kind: str) -> int:
        while True:
            try:
                partitions = (await client.topic(self._topic)).partitions
            except (ClientError, NetworkError):
                partitions = ()  # asked again: who was broken is mended
            chosen = partitions[self._count % len(partitions)] if partitions else None
            if chosen is not None and chosen.leader is not None:
                name = f"{self._topic}-{chosen.partition}"
                self._tell(f"{kind} broker {chosen.leader}, which leads {name}")
                return chosen.leader
            await asyncio.sleep(LOOK_SECONDS)

    async def _until_in_sync(self, client: Client) -> None:
        async with asyncio.timeout(READY_WITHIN_MS / 1000):
            while True:
                partitions = (await client.topic(self._topic)).partitions
                if all(len(each.isr) == len(each.replicas) for each in partitions):
                    return
                await asyncio.sleep(LOOK_SECONDS)
