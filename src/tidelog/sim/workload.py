"""The clients of coordinators in a run: who writes in transactions, who reads in groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.replication.inputs import ACKS_ALL
from tidelog.core.types import NO_LEADER, PartitionId
from tidelog.sim.clients import ProducerClient
from tidelog.sim.coordination_plan import (
    INPUTS,
    OUTPUTS,
    TRANSACTIONS,
    TRANSFERS,
    CoordinationPlan,
    GroupPlan,
    ProcessorPlan,
    WriterPlan,
)
from tidelog.sim.group_clients import GroupMember
from tidelog.sim.plan import ConsumerPlan, ProducerPlan
from tidelog.sim.processors import Processor
from tidelog.sim.scripted_client import ScriptedClient
from tidelog.sim.transaction_clients import CommittedReader, TransactionWriter

if TYPE_CHECKING:
    from tidelog.sim.world import World


class Workload:
    """Owner of the scripted clients. Without coordinators in the plan there are none."""

    __slots__ = ("_begun", "_plan", "_scripted", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._plan = world.plan.coordination
        self._begun = False
        self._scripted: list[ScriptedClient] = []

    def topic_created(self) -> None:
        """When the last one exists, all begin."""
        plan = self._plan
        if plan is None or self._begun:
            return
        if all(topic.name in self._world.image.topic_ids for topic in plan.topics):
            self._begun = True
            self._begin(plan)

    def _begin(self, plan: CoordinationPlan) -> None:
        for number, writer in enumerate(plan.writers):
            self.start_writer(writer, f"writer-{number}", 0)
        for number, group in enumerate(plan.groups):
            for _ in range(group.members):
                self.start_member(group, f"group-{number}", 0)
        for number, processor in enumerate(plan.processors):
            group_id = f"app-{number}"
            deliveries = self._world.books.deliveries
            deliveries.exactly_once[group_id] = len(self._partitions(INPUTS))
            for instance in range(processor.instances):
                self.start_processor(processor, group_id, instance, 0)
        for partition in (*self._partitions(TRANSFERS), *self._partitions(OUTPUTS)):
            self._read_committed(partition)
        for partition in self._partitions(INPUTS) if self._world.producing else ():
            self._feed(plan, partition)

    def _partitions(self, topic: str) -> list[PartitionId]:
        image = self._world.image
        topic_id = image.topic_ids.get(topic)
        if topic_id is None:
            return []
        return [PartitionId(topic_id, index) for index in image.topics[topic_id].partitions]

    def _read_committed(self, partition: PartitionId) -> None:
        plan = ConsumerPlan(
            topic=0, rack="", from_follower=False, fetch_wait_ms=100, max_batches=5, start_ms=0
        )
        reader = CommittedReader(self._world, self._world.new_address(), plan, partition)
        self._world.add_client(reader)

    def _feed(self, plan: CoordinationPlan, partition: PartitionId) -> None:
        producer = ProducerPlan(
            topic=0,
            partitions=(partition.partition,),
            acks=ACKS_ALL,
            idempotent=True,
            interval_ms=plan.input_interval_ms,
            batch_records=1,
            in_flight=1,
        )
        address = self._world.new_address()
        self._world.add_client(ProducerClient(self._world, address, producer, partition))

    def start_writer(self, plan: WriterPlan, transactional_id: str, delay_ms: int) -> None:
        self._start(TransactionWriter(self._world, plan, transactional_id), delay_ms)

    def start_member(self, plan: GroupPlan, group_id: str, delay_ms: int) -> None:
        self._start(GroupMember(self._world, plan, group_id), delay_ms)

    def _start(self, client: ScriptedClient, delay_ms: int) -> None:
        client.stopping = not self._world.producing
        self._scripted.append(client)
        self._world.add_client(client, delay_ms)

    def start_processor(
        self, plan: ProcessorPlan, group_id: str, number: int, delay_ms: int
    ) -> None:
        self._start(Processor(self._world, plan, group_id, number), delay_ms)

    # -- the end of a run

    def come_to_an_end(self) -> None:
        for client in self._scripted:
            client.stopping = True

    def unfinished(self) -> str | None:
        """With everything healed: clients are done, and no transaction is left open."""
        for client in self._scripted:
            if (missing := client.waiting_for()) is not None:
                return missing
        plan = self._plan
        if plan is None:
            return None
        for topic in plan.topics if self.transactions_end else ():
            for partition in self._partitions(topic.name):
                if (missing := self._open_transaction(partition)) is not None:
                    return missing
        return self._undrained(plan)

    @property
    def transactions_end(self) -> bool:
        """A coordinator that has lost its records does not know what it has to end."""
        return all(map(self._world.expected_durable, self._partitions(TRANSACTIONS)))

    def _undrained(self, plan: CoordinationPlan) -> str | None:
        """How far every group has come is written down; nothing of `inputs` is left."""
        world = self._world
        groups = [f"group-{number}" for number in range(len(plan.groups))]
        if self.transactions_end:
            groups += [f"app-{number}" for number in range(len(plan.processors))]
        chronicle = world.judge.chronicle
        assert chronicle is not None, "a world without a judge"
        for group_id in groups:
            if not world.expected_durable(world.books.group_partition(group_id)):
                continue
            for partition in self._partitions(INPUTS):
                name = world.books.topic_partition(partition)
                committed = chronicle.groups.committed(group_id, name)
                reached = 0 if committed is None else committed.offset
                end = world.leader_high_watermark(partition)
                if reached < end:
                    return f"{group_id} has come to {reached} of {end} in {world.name(partition)}"
        return None

    def _open_transaction(self, partition: PartitionId) -> str | None:
        world = self._world
        state = world.image.partition(partition)
        assert state is not None, f"{partition} is gone"
        assert state.leader != NO_LEADER, f"{partition} has no leader"
        replica = world.nodes[state.leader].broker.replicas[partition]
        if replica.last_stable_offset < replica.high_watermark:
            return (
                f"{world.name(partition)}: last stable offset {replica.last_stable_offset},"
                f" high watermark {replica.high_watermark}: a transaction is open"
            )
        return None
