"""The clients of a whole-node run, from their first topic to the last read."""

import asyncio

from tidelog.client import Admin, Client, ClientError, NewTopic
from tidelog.client.consumer import Consumer
from tidelog.host.ports import NetworkError
from tidelog.sim.nodes.clients.history import History, Place
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.clients.stage import Stage
from tidelog.sim.nodes.clients.writers import TIDES, Writer
from tidelog.sim.nodes.cluster import NodeCluster
from tidelog.sim.nodes.loop import OnError
from tidelog.sim.nodes.plan import NodePlan

EMPTY_READS_AT_THE_END = 3
READ_WAIT_MS = 300


class Workload:
    """Starts the clients of a plan, stops them, and reads everything back."""

    def __init__(self, cluster: NodeCluster, plan: NodePlan, on_error: OnError) -> None:
        self._cluster = cluster
        self._plan = plan
        self._on_error = on_error
        self._stage = Stage(plan.seed, plan.topics[0].partitions)
        self._admin = self._new_process()

    @property
    def history(self) -> History:
        return self._stage.history

    # -- beginning and end

    def create_topics(self) -> asyncio.Task[None]:
        async def create() -> None:
            admin = Admin(self._admin.client)
            for name, partitions, factor, settings in self._plan.topics:
                await admin.create_topic(NewTopic(name, partitions, factor, dict(settings)))

        return self._admin.spawn(create())

    def begin(self) -> None:
        for number, each in enumerate(self._plan.clients.writers):
            process = self._new_process()
            process.spawn(Writer(self._stage, each, f"w{number}").run(process.client))

    def stop(self) -> None:
        self._stage.stopped = True

    def elect(self) -> None:
        """Preferred leaders, for every partition."""
        self._admin.spawn(self._elect())

    def read_back(self) -> asyncio.Task[None]:
        process = self._new_process()
        return process.spawn(self._read(process.client))

    # -- clients

    async def _elect(self) -> None:
        partitions = [(TIDES, index) for index in range(self._stage.tides_partitions)]
        try:
            await Admin(self._admin.client).elect_leaders(partitions)
        except (ClientError, NetworkError):
            return  # nobody could be asked; the next one tries again

    async def _read(self, client: Client) -> None:
        consumer = Consumer(
            client, {(TIDES, each): 0 for each in range(self._stage.tides_partitions)}
        )
        found = self.history.found
        empty = 0
        while empty < EMPTY_READS_AT_THE_END:
            fetched = await consumer.read(max_wait_ms=READ_WAIT_MS)
            empty += 1
            for each in fetched.values():
                for read in each.reads:
                    empty = 0
                    place = Place(read.topic, read.partition, read.record.offset)
                    found.setdefault(bytes(read.record.value or b""), []).append(place)

    def _new_process(self) -> ClientProcess:
        return ClientProcess(self._cluster, self._on_error)
