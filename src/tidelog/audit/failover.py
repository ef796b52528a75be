"""A failover of real processes: load, a killed leader, its return, and the audit of it all."""

import asyncio
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tidelog.audit import replica_logs
from tidelog.audit.ledger import Found, Verdict
from tidelog.audit.load import Load, Work, longest_silence_ms, quantile_ms
from tidelog.audit.replica_logs import Comparison
from tidelog.client import Admin, Client, Consumer, NewTopic, TopicView
from tidelog.client.offsets import LATEST, find_offset
from tidelog.cluster import layout
from tidelog.cluster.node_http import http_of
from tidelog.cluster.node_state import partition_in, read_state
from tidelog.cluster.nodes import LocalNodes
from tidelog.cluster.readiness import wait_ready

STEP_WITHIN_MS = 20_000
AHEAD_WITHIN_SECONDS = 0.3
"""Longer, and the brokers that are held would be taken for dead themselves."""
POLL_SECONDS = 0.003
KILL_AT, RESTART_AT = 0.4, 0.7
"""Shares of the records to acknowledge."""

Tell = Callable[[str, str], None]
"""(what part, one line about it)"""


class Plan(NamedTuple):
    topic: str = "orders"
    partitions: int = 3
    writers: int = 6
    records: int = 20_000
    """How many are acknowledged before the writers stop."""
    batch_records: int = 10
    record_bytes: int = 100

    def work(self) -> Work:
        return Work(
            self.topic, self.partitions, self.writers, self.batch_records, self.record_bytes
        )


class Killed(NamedTuple):
    node_id: int
    was_active_controller: bool
    uncommitted: int
    """Records at its end that nobody else had."""
    election_ms: float
    """From the signal until the others name a new leader for everything it led."""
    silence_ms: float
    """The longest time a partition acknowledged nothing around that."""


class Returned(NamedTuple):
    serving_ms: float
    in_sync_ms: float
    """From its start until it is in the ISR of every partition."""
    truncated: int
    """Records that were on its disk when it died and that the new leader does not have there."""


class Report(NamedTuple):
    ready_ms: float
    killed: Killed
    returned: Returned
    verdict: Verdict
    copies: list[Comparison]
    ack_p50_ms: float
    ack_p99_ms: float
    rss_bytes: dict[int, int]
    given_up: list[str]

    @property
    def holds(self) -> bool:
        return self.verdict.holds and all(each.identical for each in self.copies)


class Failover:
    """The run over the nodes of one local cluster, which it starts and does not stop."""

    def __init__(self, nodes: LocalNodes, plan: Plan, tell: Tell) -> None:
        self._nodes = nodes
        self._plan = plan
        self._tell = tell

    async def run(self) -> Report:
        ready_ms = await self._start()
        async with Client(self._nodes.state.bootstrap_servers) as client:
            await self._create_topic(client)
            load = Load(self._nodes.state.bootstrap_servers, self._plan.work())
            load.start()
            try:
                killed = await self._kill_leader(client, load)
                returned = await self._restart(client, load, killed.node_id)
                await load.reach(self._plan.records, STEP_WITHIN_MS)
                await load.finish()
            finally:
                await load.cancel()
            rss = {each: rss_bytes(self._pid(each)) for each in self._nodes.node_ids}
            verdict, copies = await self._audit(client, load)
        return Report(
            ready_ms,
            killed,
            returned,
            verdict,
            copies,
            quantile_ms(load.acks, 0.5),
            quantile_ms(load.acks, 0.99),
            rss,
            load.failures,
        )

    async def _start(self) -> float:
        begin = time.monotonic()
        self._nodes.start(self._nodes.node_ids, attached=True)
        await wait_ready(self._nodes, timeout_ms=STEP_WITHIN_MS)
        ready_ms = (time.monotonic() - begin) * 1000
        count = len(self._nodes.node_ids)
        self._tell("cluster", f"{count} processes, ready in {ready_ms / 1000:.1f} s")
        return ready_ms

    async def _create_topic(self, client: Client) -> None:
        plan, factor = self._plan, len(self._nodes.node_ids)
        await Admin(client).create_topic(NewTopic(plan.topic, plan.partitions, factor, {}))
        await self._until_in_sync(client)
        self._tell(
            "load",
            f"{plan.writers} writers to {plan.topic}: {plan.partitions} partitions on {factor}"
            " brokers, acks=all, idempotent",
        )

    # ---- the kill ----

    async def _kill_leader(self, client: Client, load: Load) -> Killed:
        await load.reach(int(self._plan.records * KILL_AT), STEP_WITHIN_MS)
        view = await client.topic(self._plan.topic)
        victim = view.partitions[0].leader
        assert victim is not None, "a partition that was written to has no leader"
        active = (await Admin(client).quorum()).leader
        led = [each.partition for each in view.partitions if each.leader == victim]
        uncommitted, killed_at = await self._kill_ahead(victim, led[0])
        self._tell(
            "kill",
            f"SIGKILL to broker {victim}, leader of {self._names(led)}"
            + (" and active controller" if active == victim else ""),
        )
        elected_at = await self._until_led_elsewhere(victim, led)
        acknowledged = load.ledger.acknowledged
        await load.reach(acknowledged + self._plan.records // 10, STEP_WITHIN_MS)
        killed = Killed(
            victim,
            active == victim,
            uncommitted,
            (elected_at - killed_at) * 1000,
            longest_silence_ms(load.acks, killed_at, elected_at),
        )
        self._tell(
            "election",
            f"new leader after {killed.election_ms:.0f} ms; no partition silent for longer than"
            f" {killed.silence_ms:.0f} ms",
        )
        return killed

    async def _kill_ahead(self, victim: int, partition: int) -> tuple[int, float]:
        """Followers are held until the leader has records that only it has: then it dies, and
        they go on. So its log parts from theirs, as it may in any crash and seldom does."""
        others = [each for each in self._nodes.node_ids if each != victim]
        for node_id in others:
            self._nodes.pause(node_id)
        try:
            ahead = await self._until_ahead(victim, partition)
            killed_at = time.monotonic()
            self._nodes.signal(victim, signal.SIGKILL)
        finally:
            for node_id in others:
                self._nodes.resume(node_id)
        await asyncio.to_thread(self._nodes.kill, victim)  # waits until it is gone
        return ahead, killed_at

    async def _until_ahead(self, victim: int, partition: int) -> int:
        node = http_of(self._nodes, victim)
        deadline = time.monotonic() + AHEAD_WITHIN_SECONDS
        while True:
            document = await asyncio.to_thread(read_state, node)
            seen = partition_in(document, self._plan.topic, partition)
            ahead = seen.get("log_end_offset", 0) - seen.get("high_watermark", 0)
            if ahead > 0 or time.monotonic() >= deadline:
                return max(0, int(ahead))
            await asyncio.sleep(POLL_SECONDS)

    async def _until_led_elsewhere(self, victim: int, partitions: list[int]) -> float:
        alive = [node for node in self._nodes.state.brokers if node.id != victim]
        addresses = ",".join(f"{self._nodes.state.host}:{node.port}" for node in alive)
        async with asyncio.timeout(STEP_WITHIN_MS / 1000), Client(addresses) as client:
            while True:
                view = await client.topic(self._plan.topic)
                leaders = [view.partitions[each].leader for each in partitions]
                if not any(each in (None, victim) for each in leaders):
                    return time.monotonic()
                await asyncio.sleep(POLL_SECONDS)

    # ---- the return ----

    async def _restart(self, client: Client, load: Load, node_id: int) -> Returned:
        await load.reach(int(self._plan.records * RESTART_AT), STEP_WITHIN_MS)
        truncated = self._parted(node_id, await client.topic(self._plan.topic))
        begin = time.monotonic()
        self._nodes.start([node_id], attached=True)
        await wait_ready(self._nodes, timeout_ms=STEP_WITHIN_MS, expected=[node_id])
        serving_ms = (time.monotonic() - begin) * 1000
        await self._until_in_sync(client)
        in_sync_ms = (time.monotonic() - begin) * 1000
        self._tell(
            "return",
            f"broker {node_id} started again: {truncated} records only it had are truncated,"
            f" in sync everywhere after {in_sync_ms / 1000:.1f} s",
        )
        return Returned(serving_ms, in_sync_ms, truncated)

    def _parted(self, dead: int, view: TopicView) -> int:
        """Records on the disk of a dead node that the leaders do not have: it must truncate."""
        topic = self._plan.topic
        parted = 0
        for each in view.partitions:
            assert each.leader is not None, f"nobody leads {topic}-{each.partition}"
            partition = f"{topic}-{each.partition}"
            parted += replica_logs.records_only_in(
                self._data(dead) / partition, self._data(each.leader) / partition
            )
        return parted

    async def _until_in_sync(self, client: Client) -> None:
        count = len(self._nodes.node_ids)
        async with asyncio.timeout(STEP_WITHIN_MS / 1000):
            while True:
                view = await client.topic(self._plan.topic)
                in_sync = [len(each.isr) for each in view.partitions if each.leader is not None]
                if in_sync == [count] * self._plan.partitions:
                    return
                await asyncio.sleep(POLL_SECONDS)

    # ---- the audit ----

    async def _audit(self, client: Client, load: Load) -> tuple[Verdict, list[Comparison]]:
        ends = await self._committed_ends(client)
        found = await read_all(client, self._plan.topic, ends)
        verdict = load.ledger.judge(found)
        data = {each: self._data(each) for each in self._nodes.node_ids}
        copies = [
            await asyncio.to_thread(
                replica_logs.compare, data, f"{self._plan.topic}-{partition}", end
            )
            for partition, end in ends.items()
        ]
        return verdict, copies

    async def _committed_ends(self, client: Client) -> dict[int, int]:
        """High watermarks: every in-sync copy holds what lies below."""
        topic = self._plan.topic
        return {
            partition: (await find_offset(client, topic, partition, LATEST)).offset
            for partition in range(self._plan.partitions)
        }

    def _data(self, node_id: int) -> Path:
        return layout.data_directory(self._nodes.directory, node_id)

    def _pid(self, node_id: int) -> int:
        process = self._nodes.node(node_id).process
        assert process is not None, f"node {node_id} does not run"
        return process.pid

    def _names(self, partitions: list[int]) -> str:
        return ", ".join(f"{self._plan.topic}-{each}" for each in partitions)


async def read_all(client: Client, topic: str, ends: dict[int, int]) -> list[Found]:
    """Every record below the given ends, partition by partition."""
    found: list[Found] = []
    for partition, end in ends.items():
        consumer = Consumer(client, {(topic, partition): 0})
        while consumer.positions[topic, partition] < end:
            for fetched in (await consumer.read()).values():
                found.extend(
                    Found(partition, each.record.offset, bytes(each.record.value or b""))
                    for each in fetched.reads
                    if each.record.offset < end
                )
    return found


def rss_bytes(pid: int) -> int:
    """Resident memory of a process now; 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text("ascii")
    except OSError:
        return 0
    for line in text.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0
