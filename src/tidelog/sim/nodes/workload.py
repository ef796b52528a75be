"""Clients of a whole-node run: our own client, writing, electing and reading back.

Every record has a value of its own. What was acknowledged is kept with its offset, and compared
in the end with what a reader finds.
"""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any, NamedTuple

from tidelog.client import Admin, Client, NewRecord, NewTopic, Producer
from tidelog.client.consumer import Consumer
from tidelog.client.errors import ClientError
from tidelog.host.ports import NetworkError
from tidelog.sim.entropy import stream
from tidelog.sim.nodes.cluster import NodeCluster
from tidelog.sim.nodes.loop import OnError, VirtualLoop
from tidelog.sim.nodes.plan import NodePlan

EMPTY_READS_AT_THE_END = 3
READ_WAIT_MS = 300
PAUSE_AFTER_FAILURE_S = 0.1

Place = tuple[int, int]
"""(partition, offset)"""


class Sent(NamedTuple):
    """One write of a writer, in the order of its writes."""

    writer: int
    number: int
    partition: int


class Workload:
    """What clients did and what they were told."""

    def __init__(self, cluster: NodeCluster, plan: NodePlan, on_error: OnError) -> None:
        self._cluster = cluster
        self._plan = plan
        self._topic = plan.topics[0]
        self._on_error = on_error
        self._stopped = False
        self.acknowledged: dict[bytes, Place] = {}
        self.sent: dict[bytes, Sent] = {}
        self.failed = 0
        self.found: dict[bytes, list[Place]] = {}
        self._admin_loop, self._admin = self._new_client()

    # -- beginning and end

    def create_topic(self) -> asyncio.Task[None]:
        async def create() -> None:
            for topic in self._plan.topics:
                name, partitions, factor, settings = topic
                new = NewTopic(name, partitions, factor, dict(settings))
                await Admin(self._admin).create_topic(new)

        return self._spawn(self._admin_loop, create())

    def begin(self) -> None:
        for writer in range(self._plan.clients.writers):
            loop, client = self._new_client()
            self._spawn(loop, self._write(writer, client))

    def stop(self) -> None:
        self._stopped = True

    def elect(self) -> None:
        """Preferred leaders, for every partition."""
        self._spawn(self._admin_loop, self._elect())

    def read_back(self) -> asyncio.Task[None]:
        loop, client = self._new_client()
        return self._spawn(loop, self._read(client))

    # -- clients

    async def _write(self, writer: int, client: Client) -> None:
        entropy = stream(self._plan.seed, f"writer {writer}")
        producer = Producer(client)
        number = 0
        while not self._stopped:
            partition = entropy.randrange(self._topic.partitions)
            value = b"%d-%d" % (writer, number)
            self.sent[value] = Sent(writer, number, partition)
            number += 1
            try:
                written = await producer.write(
                    self._topic.name, [NewRecord(value, partition=partition)]
                )
            except (ClientError, NetworkError):
                self.failed += 1
                producer = Producer(client)
                await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
            else:
                self.acknowledged[value] = (partition, written[0].base_offset)
            await asyncio.sleep(_pause_s(entropy, self._plan.clients.pause_ms_max))

    async def _elect(self) -> None:
        partitions = [(self._topic.name, index) for index in range(self._topic.partitions)]
        try:
            await Admin(self._admin).elect_leaders(partitions)
        except (ClientError, NetworkError):
            return  # nobody could be asked; the next one tries again

    async def _read(self, client: Client) -> None:
        consumer = Consumer(
            client, {(self._topic.name, each): 0 for each in range(self._topic.partitions)}
        )
        empty = 0
        while empty < EMPTY_READS_AT_THE_END:
            fetched = await consumer.read(max_wait_ms=READ_WAIT_MS)
            empty += 1
            for each in fetched.values():
                for read in each.reads:
                    empty = 0
                    place = (read.partition, read.record.offset)
                    self.found.setdefault(bytes(read.record.value or b""), []).append(place)

    def _new_client(self) -> tuple[VirtualLoop, Client]:
        return self._cluster.new_client(self._on_error)

    @staticmethod
    def _spawn(loop: VirtualLoop, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        tasks: list[asyncio.Task[None]] = []
        loop.perform(lambda: tasks.append(loop.create_task(work)))
        return tasks[0]


def _pause_s(entropy: Random, most_ms: int) -> float:
    return entropy.randrange(most_ms * 1000) / 1_000_000
