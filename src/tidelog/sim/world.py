"""A whole simulated cluster with its clients: what a plan sets in motion.

The world starts and stops nodes, performs faults, and knows (as nobody in the cluster does)
the most advanced committed metadata anywhere. It decides nothing about replication.
"""

from __future__ import annotations

import random
from typing import cast

from tidelog.core.metadata import records as r
from tidelog.core.metadata.controller import Controller
from tidelog.core.metadata.image import MetadataImage, PartitionState
from tidelog.core.metadata.replay import replay
from tidelog.core.quorum.messages import VoterKey
from tidelog.core.quorum.node import QuorumNode
from tidelog.core.quorum.state import QuorumState
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.replica import Replica
from tidelog.core.types import NO_LEADER, LogEntry, PartitionId
from tidelog.sim import history
from tidelog.sim.admin import AdminClient
from tidelog.sim.batch_bytes import LARGEST_BATCH_BYTES
from tidelog.sim.books import Books
from tidelog.sim.byte_disk import ByteNodeDisk
from tidelog.sim.byte_node import ByteNode
from tidelog.sim.clients import ConsumerClient, ProducerClient
from tidelog.sim.control_marks import ControlMarks
from tidelog.sim.coordination_marks import CoordinationMarks
from tidelog.sim.data_marks import DataMarks
from tidelog.sim.disturbances import Disturbances
from tidelog.sim.entropy import stream
from tidelog.sim.faults import Fault
from tidelog.sim.happenings import MarkReached, NodeStarted
from tidelog.sim.hints import Hints
from tidelog.sim.judge import Judge, fan_out
from tidelog.sim.kernel import WORLD, Kernel
from tidelog.sim.ledger import Ledger
from tidelog.sim.marks import Marks
from tidelog.sim.network import Network
from tidelog.sim.node import SimNode
from tidelog.sim.node_disk import NodeDisk
from tidelog.sim.node_log import NodeLog
from tidelog.sim.plan import Plan
from tidelog.sim.recorder import Recorder
from tidelog.sim.recovery_facts import Recovery
from tidelog.sim.rules.recovery_rules import RECOVERY
from tidelog.sim.rules.view import WorldView
from tidelog.sim.scripted_client import ScriptedClient
from tidelog.sim.sim_log import SimBatch
from tidelog.sim.topic_plan import TopicPlan
from tidelog.sim.trace import DOWN, NOWHERE, UP, Trace
from tidelog.sim.transaction_clients import CommittedReader
from tidelog.sim.workload import Workload
from tidelog.sim.world_port import Counters, JudgePort, Report
from tidelog.storage.config import LogConfig

FIRST_CLIENT = 1001

Client = ProducerClient | ConsumerClient | ScriptedClient


class World:
    """Owner of nodes, clients, disks and what is known about the whole."""

    def __init__(self, plan: Plan, kernel: Kernel, trace: Trace, report: Report) -> None:
        self.plan = plan
        self.kernel = kernel
        self.trace = trace
        self._report = report
        self.judge = Judge(self.report)
        self.counters = Counters()
        self.marks = Marks(self.counters, self._mark_reached)
        self.data_marks = DataMarks(self)
        self.control_marks = ControlMarks(self)
        self.coordination_marks = CoordinationMarks(self)
        witnesses = (self.data_marks, self.control_marks, self.coordination_marks)
        self._watched = {
            kind: fan_out(tuple(w.events[kind] for w in witnesses if kind in w.events), 1)
            for witness in witnesses
            for kind in witness.events
        }
        self.ledger = Ledger()
        self.trimmed: dict[PartitionId, None] = {}
        self.recorder = Recorder()
        self.cluster_id = "sim"
        self.image = MetadataImage()
        self.image_offset = 0
        self.network = Network(kernel, stream(plan.seed, "network"), plan.network, self._deliver)
        self.hints = Hints(self)
        self._entropy = stream(plan.seed, "clients")
        self._values = 0
        self._producer_ids = 0
        self.books = Books(self.image, self.new_values)
        self._request_ids = 0
        self._addresses = FIRST_CLIENT
        self.voters = tuple(self.key_of(node) for node in range(1, plan.voters + 1))
        self.nodes = {node: self._make_node(node) for node in range(1, plan.brokers + 1)}
        self.clients: dict[int, Client] = {}
        self.producing = True
        self.workload = Workload(self)
        self.admin = AdminClient(self, FIRST_CLIENT - 1)
        self.disturbances = Disturbances(self)
        # Replicas see their log through a narrower face than the rules do; it is one object.
        self.judge.attend(cast(WorldView, self), witnesses=witnesses)
        assert self.judge.chronicle is not None, "a judge attends with its chronicle"
        for witness in witnesses:
            witness.attend(self.judge.chronicle)

    def _make_node(self, node_id: int) -> SimNode:
        nothing = QuorumState(0, NO_LEADER, None)
        if self.plan.depth == "byte":
            disk = ByteNodeDisk(
                node_id, draw_log_config(self.plan), self._log_recovered, quorum_state=nothing
            )
            return ByteNode(self, node_id, disk)
        fsync = self.plan.durability == "fsync"
        return SimNode(self, node_id, NodeDisk(fsync=fsync, quorum_state=nothing))

    def key_of(self, node_id: int) -> VoterKey:
        return VoterKey(node_id, b"disk-%d" % node_id)

    def node_entropy(self, node_id: int) -> random.Random:
        return stream(self.plan.seed, f"node {node_id}")

    # -- life of the run

    def start(self) -> None:
        for node in self.nodes.values():
            delay_us = self._entropy.randrange(200_000)
            self.kernel.call_in(delay_us, WORLD, self._start_node, node)
        for topic in self.plan.every_topic:
            self.admin.create_topic(topic)

    def _start_node(self, node: SimNode) -> None:
        if not node.running:
            self.start_node(node)

    def _topic_created(self, record: r.Topic) -> None:
        """Those who produce to it and read it may begin."""
        self.trace.name_topic(record.topic_id, record.name)
        for index, topic in enumerate(self.plan.topics):
            if topic.name == record.name:
                self._attach_clients(index, topic, record.topic_id)
        self.workload.topic_created()

    def _topic_removed(self, record: r.RemoveTopic, name: str) -> None:
        """Its clients give up; a topic of the plan is created again under its old name."""
        for node in self.nodes.values():
            if not node.running and any(p.topic_id == record.topic_id for p in node.disk.logs):
                self.marks.add("topic_deleted_while_replica_down")
        for client in self.clients.values():
            if isinstance(client, ScriptedClient):
                continue
            if client.partition.topic_id == record.topic_id:
                client.detach()
        for topic in self.plan.topics:
            if topic.name == name:
                self.marks.add("topic_recreated")
                self.admin.create_topic(topic)

    def _attach_clients(self, topic_index: int, topic: TopicPlan, topic_id: bytes) -> None:
        for producer in self.plan.producers:
            if producer.topic == topic_index and self.producing:
                for index in producer.partitions:
                    partition = PartitionId(topic_id, index)
                    self._add(ProducerClient(self, self._address(), producer, partition), 0)
        for consumer in self.plan.consumers:
            if consumer.topic == topic_index:
                for index in range(topic.partitions):
                    partition = PartitionId(topic_id, index)
                    self._add(
                        ConsumerClient(self, self._address(), consumer, partition),
                        max(0, consumer.start_ms - self.kernel.now_ms),
                    )

    def _address(self) -> int:
        self._addresses += 1
        return self._addresses

    def new_address(self) -> int:
        return self._address()

    def add_client(self, client: Client, delay_ms: int = 0) -> None:
        self._add(client, delay_ms)

    def _add(self, client: Client, delay_ms: int) -> None:
        self.clients[client.address] = client
        self.kernel.call_in(delay_ms * 1000, client.address, _start_client, client)

    def stop_producing(self) -> None:
        """No new batches; what is under way may still be acknowledged."""
        self.producing = False
        for client in self.clients.values():
            if isinstance(client, ProducerClient):
                client.stopped = True
        self.workload.come_to_an_end()

    def apply(self, fault: Fault) -> bool:
        return self.disturbances.apply(fault)

    def heal(self, *, everything: bool) -> None:
        self.disturbances.heal(everything=everything)

    def start_node(self, node: SimNode) -> None:
        """Told before it happens: starting has consequences that come after it in the story."""
        self.trace.set_state(node.id, UP)
        self.trace.happened(node.id, NodeStarted(node.id))
        if not node.start():
            self.trace.set_state(node.id, DOWN)

    def stopped_cleanly(self, node_id: int) -> None:
        self.disturbances.stopped_cleanly(node_id)

    # -- messages and happenings

    def _deliver(self, target: int, source: int, message: object) -> None:
        node = self.nodes.get(target)
        if node is not None:
            if node.running:
                node.receive(source, message)
        elif target == self.admin.address:
            self.admin.receive(source, message)
        else:
            self.clients[target].receive(source, message)

    def happened(self, node_id: int, event: tuple[object, ...]) -> None:
        self.trace.happened(node_id, event)
        watch = self._watched.get(type(event))
        if watch is not None:
            watch(event)

    def _mark_reached(self, name: str) -> None:
        self.trace.happened(NOWHERE, MarkReached(name))

    def metadata_committed(self, entry: LogEntry) -> None:
        """Called for every node that applies an entry; only the first time counts."""
        if entry.offset < self.image_offset:
            return
        assert entry.offset == self.image_offset, (entry.offset, self.image_offset)
        self.image_offset = entry.next_offset
        if entry.control:
            return
        for record in entry.records:
            removed = (
                self.image.topics[record.topic_id].name if type(record) is r.RemoveTopic else ""
            )
            replay(self.image, record)  # type: ignore[arg-type]
            self.ledger.observe(self.image, record)
            if type(record) is r.Topic:
                self._topic_created(record)
            elif type(record) is r.RemoveTopic:
                self._topic_removed(record, removed)

    def _log_recovered(self, recovery: Recovery) -> None:
        self.judge.log_recovered(recovery)
        if recovery.torn:
            self.marks.add("recovery_cut_mid_batch")
        if recovery.repaired:
            self.marks.add("log_repaired")
            self.ledger.mended(self.image, recovery.partition, recovery.node)

    def report(self, rule: str, text: str) -> None:
        """Rules know a topic by its id; who reads the report knows it by its name."""
        for topic_id, name in self.trace.narrator.topics.items():
            text = text.replace(topic_id.hex()[:8], name)
        self._report(rule, text)

    # -- what clients tell

    def new_values(self, count: int) -> tuple[int, ...]:
        first = self._values + 1
        self._values += count
        return tuple(range(first, first + count))

    def new_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids

    def new_request_id(self) -> int:
        self._request_ids += 1
        return self._request_ids

    def draw_broker(self) -> int:
        return 1 + self._entropy.randrange(self.plan.brokers)

    def acknowledged(
        self, partition: PartitionId, batch: SimBatch, base_offset: int, acks: int
    ) -> None:
        self.counters.acknowledged += batch.record_count
        self.trace.fact(base_offset)

    def sequence_refused(self, partition: PartitionId, producer_id: int, broker: int) -> None:
        """A leader that does not know of its successor misses what the successor appended, and
        may say so. A producer meets it when stale metadata reaches it late."""
        self.marks.add("producer_started_over")
        state = self.image.partition(partition)
        is_leader = state is not None and state.leader == broker
        if is_leader and self.expected_durable(partition):
            self.report(
                "P4 idempotence",
                f"{self.name(partition)}: producer {producer_id} was told that its first"
                " unacknowledged batch is out of order",
            )

    def consumer_reset(
        self, partition: PartitionId, position: int, target: int, reason: str
    ) -> None:
        self.marks.add("consumer_reset")
        if self.expected_durable(partition):
            self.report(
                "P3 what was read stays",
                f"{self.name(partition)}: consumer at {position} sent back to {target}: {reason}",
            )

    def latest_went_back(self, partition: PartitionId, before: int, offset: int) -> None:
        self.marks.add("latest_went_back")
        if self.expected_durable(partition):
            self.report(
                "P3 what was read stays",
                f"{self.name(partition)}: latest was {before}, now it is {offset}",
            )

    def name(self, partition: PartitionId) -> str:
        topic = self.image.topics.get(partition.topic_id)
        return f"{topic.name if topic else partition.topic_id.hex()[:8]}-{partition.partition}"

    # -- what the judge may know

    @property
    def now_ms(self) -> int:
        return self.kernel.now_ms

    def committed_end(self, partition: PartitionId) -> int:
        """Of everything that was ever committed there, whoever knows of it."""
        assert self.judge.chronicle is not None, "asked before there is a judge"
        return self.judge.chronicle.facts(partition).committed_end

    def expected_durable(self, partition: PartitionId) -> bool:
        return self.ledger.expected_durable(partition)

    def committed_image(self) -> MetadataImage:
        return self.image

    def partitions(self) -> list[PartitionId]:
        return [state.id for state in self.image.partitions()]

    def replicas(self, partition: PartitionId) -> list[Replica]:
        found = []
        for node in self.nodes.values():
            if node.running and partition in node.broker.replicas:
                found.append(node.broker.replicas[partition])
        return found

    def all_logs(self, partition: PartitionId) -> list[tuple[int, NodeLog]]:
        return [
            (node.id, node.disk.logs[partition])
            for node in self.nodes.values()
            if partition in node.disk.logs
        ]

    @property
    def check_quorum_ms(self) -> int:
        # By true time: the slowest clock of a plan runs five percent behind it.
        return self.plan.timings.quorum_fetch_timeout_ms * 3 // 2 * 21 // 20

    def controllers(self) -> list[tuple[int, Controller]]:
        return [
            (node.id, node.controller)
            for node in self.nodes.values()
            if node.running and node.controller is not None
        ]

    def incarnation_of(self, node_id: int) -> bytes | None:
        node = self.nodes[node_id]
        return node.link.lifecycle.incarnation_id if node.running else None

    def quorum_nodes(self) -> list[tuple[int, QuorumNode]]:
        return [(node.id, node.quorum) for node in self.nodes.values() if node.running]

    def min_isr(self, partition: PartitionId) -> int:
        """Effective: never more than there are replicas."""
        state = self.image.partition(partition)
        if state is None:
            return 1
        topic = self.image.topics[partition.topic_id].name
        wanted = int(self.image.topic_config(topic, "min.insync.replicas") or "1")
        return min(wanted, len(state.replicas))

    # -- liveness

    def unfinished(self) -> str | None:
        """What still has to happen before a healed cluster may be called whole."""
        healed = self.disturbances.healed_nodes
        for topic in self.plan.every_topic:
            if topic.name not in self.image.topic_ids:
                return f"topic {topic.name} does not exist yet"
        for state in self.image.partitions():
            name = self.name(state.id)
            if not self._can_be_led(state):
                continue
            if state.leader == NO_LEADER:
                return f"{name} has no leader"
            leader = self.nodes[state.leader]
            if leader.id not in healed or not leader.running:
                return f"{name} is led by node {state.leader}, which is not there"
            replica = leader.broker.replicas.get(state.id)
            if replica is None or not isinstance(replica.role, LeaderReplica):
                return f"{name}: node {state.leader} does not know that it leads"
            if replica.high_watermark != replica.log.log_end_offset:
                return (
                    f"{name}: high watermark {replica.high_watermark},"
                    f" log end {replica.log.log_end_offset}"
                )
            if self.disturbances.all_healed and (problem := self._not_whole(state.id, replica)):
                return f"{name}: {problem}"
        return self._clients_unfinished()

    def _can_be_led(self, state: PartitionState) -> bool:
        """While only a core is healed, the last holder of a partition may have stayed down."""
        healed = self.disturbances.healed_nodes
        if self.disturbances.all_healed:
            return True
        in_sync = [node for node in state.isr if node in healed]
        if in_sync or state.isr:
            return len(in_sync) > 0 and self._can_commit(state)
        return any(node in healed for node in (*state.elr, *state.last_known_elr))

    def _can_commit(self, state: PartitionState) -> bool:
        alive = [node for node in state.replicas if node in self.disturbances.healed_nodes]
        return len(alive) >= self.min_isr(state.id)

    def _not_whole(self, partition: PartitionId, leader: Replica) -> str | None:
        """With everything healed every replica is back in the ISR and knows the watermark."""
        state = self.image.partition(partition)
        assert state is not None
        if len(state.isr) != len(state.replicas) or state.adding_replicas:
            return f"ISR {state.isr} of {state.replicas}"
        if state.removing_replicas:
            return f"replicas {state.removing_replicas} not removed yet"
        for node in state.replicas:
            replica = self.nodes[node].broker.replicas.get(partition)
            if replica is None:
                return f"node {node} does not host it yet"
            if replica.high_watermark != leader.high_watermark:
                return f"node {node} knows high watermark {replica.high_watermark} only"
        return None

    def _clients_unfinished(self) -> str | None:
        for client in self.clients.values():
            if isinstance(client, ScriptedClient):
                continue
            state = self.image.partition(client.partition)
            if state is None or not self._can_be_led(state):
                continue
            if isinstance(client, ProducerClient):
                if client.busy:
                    return f"producer {client.address} waits for an answer"
            elif isinstance(client, CommittedReader) and not self.workload.transactions_end:
                continue
            elif self.disturbances.all_healed and not client.stopped:
                end = self.leader_high_watermark(client.partition)
                if client.position < end:
                    return f"consumer {client.address} is at {client.position} of {end}"
        return self.workload.unfinished() if self.disturbances.all_healed else None

    def leader_high_watermark(self, partition: PartitionId) -> int:
        state = self.image.partition(partition)
        if state is None or state.leader == NO_LEADER:
            return 0
        return self.nodes[state.leader].broker.replicas[partition].high_watermark

    def consumed_partitions(self) -> list[PartitionId]:
        """Those whose whole history some consumer has read: nothing was deleted before it came,
        and no loss is declared."""
        read = dict.fromkeys(
            client.partition
            for client in self.clients.values()
            if isinstance(client, ConsumerClient)
            and not client.stopped
            and (self.workload.transactions_end or not isinstance(client, CommittedReader))
        )
        return [p for p in read if self.expected_durable(p) and p not in self.trimmed]

    def describe(self) -> list[str]:
        """The state of everything, for the report of a failure."""
        lines = []
        for state in self.image.partitions():
            lines.append(
                f"{self.name(state.id)} leader {state.leader} epoch {state.leader_epoch}"
                f" partition epoch {state.partition_epoch} replicas {state.replicas}"
                f" ISR {state.isr} ELR {state.elr}"
            )
            for node in self.nodes.values():
                if state.id in node.disk.logs:
                    lines.append(f"  {_describe_replica(node, state.id)}")
        return lines


def draw_log_config(plan: Plan) -> LogConfig:
    """Segments of a batch or two, or of thousands; index entries for all batches or for few."""
    entropy = stream(plan.seed, "segments")
    smallest = LARGEST_BATCH_BYTES
    return LogConfig(
        segment_bytes=entropy.choice((smallest, 4 * smallest, 1 << 16, 1 << 20)),
        index_interval_bytes=entropy.choice((0, 512, 4096)),
        durability="fsync" if plan.durability == "fsync" else "page-cache",
    )


def _start_client(client: Client) -> None:
    client.start()


def _describe_replica(node: SimNode, partition: PartitionId) -> str:
    log = node.disk.logs[partition]
    text = f"node {node.id}: log [{log.log_start_offset}, {log.log_end_offset})"
    text += f" synced {log.synced_offset} epochs {log.epochs.entries}"
    if not node.running:
        return f"{text} (down)"
    replica = node.broker.replicas.get(partition)
    if replica is None:
        return f"{text} (not hosted)"
    role = "leader" if isinstance(replica.role, LeaderReplica) else "follower"
    return f"{text} {role} epoch {replica.leader_epoch} high watermark {replica.high_watermark}"


def assemble(plan: Plan, kernel: Kernel, trace: Trace, report: Report) -> tuple[World, JudgePort]:
    """The real state machines, judged by the real rules and by what the clients saw."""
    world = World(plan, kernel, trace, report)
    return world, Bench(world)


class Bench:
    """The judge of the cluster and the judge of the histories, as one."""

    __slots__ = ("_world",)

    def __init__(self, world: World) -> None:
        self._world = world

    def sweep(self) -> None:
        self._world.judge.sweep()

    def finish(self) -> None:
        world = self._world
        world.judge.finish()
        world.counters.lost = world.judge.lost
        world.counters.forfeited = world.judge.forfeited
        for node in world.nodes.values():
            for complaint in node.complaints():
                world.report(RECOVERY, f"node {node.id}: {complaint}")
        for partition in world.consumed_partitions():
            for anomaly in history.check(world.recorder.of(partition)):
                world.report(f"history: {anomaly.kind}", anomaly.text)
