"""An administrator who is never content: topics come and go, move, and change their settings."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Final

from tidelog.client import Admin, Client, NewRecord, NewTopic, Producer
from tidelog.client.admin import TOPIC_RESOURCE
from tidelog.client.offsets import trim
from tidelog.sim.nodes.client_plan import (
    ADD_PARTITIONS,
    ALTER,
    CREATE,
    DELETE,
    DELETE_RECORDS,
    ELECT,
    REASSIGN,
    ChurnPlan,
)
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.clients.stage import FAILURES, Stage, pause_s

SCRATCH: Final = "scratch"
MOST_SCRATCH: Final = 4
MOST_PARTITIONS: Final = 6
HARMLESS: Final = (
    ("segment.bytes", ("1048576", "2097152")),
    ("segment.ms", ("200", "5000")),
    ("flush.messages", ("1", "9223372036854775807")),
    ("max.message.bytes", ("100000", "1048588")),
)
"""Settings that take no record from anybody, for topics that others use."""
LOSSY: Final = (
    ("retention.ms", ("1", "1000", "604800000")),
    ("retention.bytes", ("1", "-1")),
    ("cleanup.policy", ("delete", "compact", "compact,delete")),
    ("min.cleanable.dirty.ratio", ("0", "0.5")),
    ("min.insync.replicas", ("1", "2")),
)
"""For topics of our own."""


class Churn:
    """Topics named `scratch-…` are its own: it writes, trims and deletes them. Those of others it
    moves, and changes what does no harm."""

    __slots__ = ("_deleted", "_entropy", "_made", "_plan", "_scratch", "_stage")

    def __init__(self, stage: Stage, name: str, plan: ChurnPlan) -> None:
        self._stage = stage
        self._plan = plan
        self._entropy: Random = stage.stream(name)
        self._made = 0
        self._deleted: list[str] = []
        self._scratch: dict[str, int] = {}
        """Partitions of the topics that were created and not deleted."""

    async def run(self, process: ClientProcess) -> None:
        while not self._stage.stopped:
            with suppress(*FAILURES):  # refused, or nobody was there: then something else
                kind = self._entropy.choice(self._plan.kinds)
                await self._do(process.client, kind)
                self._stage.history.done[kind] += 1
            await asyncio.sleep(pause_s(self._entropy, self._plan.pause_ms))

    async def _do(self, client: Client, kind: str) -> None:
        admin, entropy = Admin(client), self._entropy
        if kind == CREATE or not self._scratch:
            await self._create(client)
            return
        scratch = entropy.choice(list(self._scratch))
        topic = entropy.choice([*self._stage.partitions, scratch])
        if kind == DELETE:
            del self._scratch[scratch]
            await admin.delete_topic(scratch)
            self._deleted.append(scratch)
        elif kind == ADD_PARTITIONS:
            total = min(MOST_PARTITIONS, self._scratch[scratch] + 1)
            await admin.add_partitions(scratch, total)
            self._scratch[scratch] = total
        elif kind == ALTER:
            settings = LOSSY if topic == scratch else HARMLESS
            name, values = entropy.choice(settings)
            value = entropy.choice((*values, None))
            await admin.alter_configs(TOPIC_RESOURCE, topic, {name: value})
        elif kind == REASSIGN:
            await self._reassign(client, topic)
        elif kind == ELECT:
            await admin.elect_leaders(None if entropy.random() < 0.5 else [(topic, 0)])
        else:
            assert kind == DELETE_RECORDS, kind
            await trim(client, scratch, 0, entropy.choice((-1, 1, 5)))

    async def _create(self, client: Client) -> None:
        if len(self._scratch) >= MOST_SCRATCH:
            return
        name, partitions = self._new_name(), self._entropy.choice((1, 2, 3))
        self._scratch[name] = partitions
        await Admin(client).create_topic(NewTopic(name, partitions))
        producer = Producer(client)
        for number in range(self._entropy.randrange(10)):
            key = b"%d" % (number % 3)
            await producer.write(name, [NewRecord(b"scratch-%d" % number, key)])

    def _new_name(self) -> str:
        """One that was never used, or that of a topic which was deleted."""
        if self._deleted and self._entropy.random() < 0.5:
            return self._deleted.pop()
        self._made += 1
        return f"{SCRATCH}-{self._made}"

    async def _reassign(self, client: Client, topic: str) -> None:
        """As many replicas as before, on any brokers; or back to where they were."""
        view = await client.view()
        known = view.topics.get(topic)
        if known is None or not known.partitions:
            return
        partition = self._entropy.choice(known.partitions)
        count = min(len(partition.replicas), len(view.brokers))
        where = (topic, partition.partition)
        if count == 0 or self._entropy.random() < 0.2:
            await Admin(client).reassign({where: None})
            return
        replicas = self._entropy.sample(sorted(view.brokers), count)
        await Admin(client).reassign({where: replicas})
