"""Faults performed: every kind of `faults.KINDS` on the nodes and links of a world.

A fault undoes itself after its duration. `heal` ends all of them: first for a core of nodes
that is just enough to make progress, then for everybody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.core import requests as rq
from tidelog.core.types import NO_LEADER, PartitionId
from tidelog.sim import trace as t
from tidelog.sim.coordination_plan import TRANSACTIONS
from tidelog.sim.disk_faults import DiskFaults
from tidelog.sim.faults import KINDS, Fault
from tidelog.sim.happenings import FaultEnded, NodeStopped, Note
from tidelog.sim.kernel import WORLD
from tidelog.sim.ledger import holders
from tidelog.sim.topic_plan import TopicPlan
from tidelog.storage.errors import DirectoryOffline, StorageError

if TYPE_CHECKING:
    from tidelog.sim.node import SimNode
    from tidelog.sim.world import World

HEALED_FETCH_BATCHES = 1_000
"""Catching up one batch at a time can take hours of simulated time that show nothing new."""
RESTART_MS = 200
"""Until somebody starts a process again that ended itself."""


OPERATOR_LOOKS_EVERY_MS = 100


class Disturbances:
    __slots__ = (
        "_disks",
        "_perform",
        "_restart_at_ms",
        "_world",
        "all_healed",
        "healed_nodes",
        "least_read_batches",
    )

    def __init__(self, world: World) -> None:
        self._world = world
        self._disks = DiskFaults(world)
        self.healed_nodes: tuple[int, ...] = ()
        self.all_healed = False
        self.least_read_batches = 0
        self._restart_at_ms: dict[int, int] = {}
        self._perform: dict[str, Callable[[Fault], bool]] = {
            kind: getattr(self, f"_{kind}") for kind in KINDS
        }

    def apply(self, fault: Fault) -> bool:
        """Perform it; False when it makes no sense now or would break what we promise."""
        return self._perform[fault.kind](fault)

    # -- who is hit

    def _partition(self, fault: Fault) -> PartitionId | None:
        topic = self._world.plan.every_topic[fault.topic].name
        topic_id = self._world.image.topic_ids.get(topic)
        if topic_id is None:
            return None
        partition = PartitionId(topic_id, fault.partition)
        return partition if self._world.image.partition(partition) is not None else None

    def _target(self, fault: Fault) -> SimNode:
        """Whoever has the role that is aimed at, else the node that was drawn."""
        world = self._world
        fallback = world.nodes[fault.nodes[0]]
        if fault.aim == "controller":
            for node in world.nodes.values():
                if node.running and node.controller is not None and node.controller.active:
                    return node
            return fallback
        partition = self._partition(fault) if fault.aim else None
        state = world.image.partition(partition) if partition is not None else None
        if state is None or state.leader == NO_LEADER:
            return fallback
        if fault.aim == "leader":
            return world.nodes[state.leader]
        if fault.aim == "outsider":
            hit = [node for node in state.replicas if node not in state.isr]
        else:
            hit = [node for node in state.isr if node != state.leader]
        # Rather one that nothing has happened to yet.
        hit.sort(key=lambda node: not world.nodes[node].running or world.kernel.is_paused(node))
        return world.nodes[hit[0]] if hit else fallback

    # -- processes

    def _stop(self, node: SimNode, kind: str, lost_records: int = 0) -> None:
        node.crash(kind)
        self._world.trace.set_state(node.id, t.DOWN)
        self._world.trace.happened(node.id, NodeStopped(node.id, kind, lost_records))

    def _start_later(self, node: SimNode, delay_ms: int) -> None:
        self._world.kernel.call_in(delay_ms * 1000, WORLD, self._start, node)

    def _start(self, node: SimNode) -> None:
        left_broken = self.healed_nodes and node.id not in self.healed_nodes
        if not node.running and not left_broken:
            self._world.start_node(node)

    def _crash(self, fault: Fault) -> bool:
        node = self._target(fault)
        if not node.running:
            return False
        self._stop(node, "crash")
        self._start_later(node, fault.duration_ms)
        return True

    def _power_loss(self, fault: Fault) -> bool:
        node = self._target(fault)
        if not node.running:
            return False
        self._cut_power(node, fault.args[0])
        self._start_later(node, fault.duration_ms)
        return True

    def _power_loss_all(self, fault: Fault) -> bool:
        for position, node in enumerate(self._world.nodes.values()):
            if node.running:
                self._cut_power(node, fault.args[0])
            self._start_later(node, fault.duration_ms + 50 * position)
        return True

    def _cut_power(self, node: SimNode, kept_permille: int, kind: str = "power loss") -> None:
        raft_log = node.disk.raft_log
        if raft_log.durable_offset < raft_log.log_end_offset:
            self._world.marks.add("power_loss_lost_metadata")
        lost = node.disk.cut_power(kept_permille, node.draw)
        self._stop(node, kind, lost)
        self._count_lost(node, lost)

    def _count_lost(self, node: SimNode, lost: int) -> None:
        if lost:
            self._world.marks.add("power_loss_lost_records")
        if lost and not node.disk.fsync:
            self._world.marks.add("page_cache_lost")
            self._world.ledger.damage(self._world.image, node.id)

    def _pause(self, fault: Fault) -> bool:
        node = self._target(fault)
        if not node.running or self._world.kernel.is_paused(node.id):
            return False
        self._world.kernel.pause(node.id)
        self._world.trace.set_state(node.id, t.PAUSED)
        self._later(fault, self._resume, node)
        return True

    def _resume(self, node: SimNode) -> None:
        if self._world.kernel.is_paused(node.id):
            self._world.kernel.resume(node.id)
            self._world.trace.set_state(node.id, t.UP)
            self._world.trace.happened(node.id, FaultEnded("pause", (node.id,)))

    def _clean_stop(self, fault: Fault) -> bool:
        node = self._target(fault)
        if not node.running or node.stopping:
            return False
        self._restart_at_ms[node.id] = fault.duration_ms
        node.begin_clean_stop()
        return True

    def stopped_cleanly(self, node_id: int) -> None:
        node = self._world.nodes[node_id]
        self._world.trace.set_state(node_id, t.DOWN)
        self._world.trace.happened(node_id, NodeStopped(node_id, "clean stop", 0))
        self._start_later(node, self._restart_at_ms.pop(node_id, 100))

    def _roll_restart(self, fault: Fault) -> bool:
        for position, node_id in enumerate(fault.nodes):
            stop = fault._replace(kind="clean_stop", nodes=(node_id,), aim="")
            delay_us = position * 4 * fault.duration_ms * 1000
            self._world.kernel.call_in(delay_us, WORLD, self._clean_stop_now, stop)
        return True

    def _clean_stop_now(self, fault: Fault) -> None:
        if not self.healed_nodes:
            self._clean_stop(fault)

    def _wipe(self, fault: Fault) -> bool:
        node = self._target(fault)
        if not node.running or not self._world.ledger.survives(self._world.image, node.id):
            return False
        records = sum(log.log_end_offset for log in node.disk.logs.values())
        self._stop(node, "data disk lost", records)
        self._world.ledger.damage(self._world.image, node.id)
        node.disk.replace_data()
        self._world.control_marks.wiped(node.id)
        self._start_later(node, fault.duration_ms)
        return True

    # -- links

    def _isolate(self, fault: Fault) -> bool:
        node = self._target(fault).id
        others = [other for other in self._world.nodes if other != node]
        if fault.args and fault.args[0]:
            others += self._clients()
        if self._world.nodes[node].running and not self._world.kernel.is_paused(node):
            self._world.trace.set_state(node, t.CUT_OFF)
        return self._cut(fault, [node], others)

    def _split(self, fault: Fault) -> bool:
        others = [node for node in self._world.nodes if node not in fault.nodes]
        return self._cut(fault, list(fault.nodes), others)

    def _one_way(self, fault: Fault) -> bool:
        return self._cut(fault, [fault.nodes[0]], [fault.nodes[1]], both_ways=False)

    def _lost_answers(self, fault: Fault) -> bool:
        image = self._world.image
        topic_id = image.topic_ids.get(TRANSACTIONS)
        state = None if topic_id is None else image.partition(PartitionId(topic_id, fault.args[0]))
        if state is None or state.leader == NO_LEADER:
            return False
        return self._cut(fault, [self._target(fault).id], [state.leader], both_ways=False)

    def _controller_cut(self, fault: Fault) -> bool:
        node = self._target(fault).id
        voters = [voter.node_id for voter in self._world.voters if voter.node_id != node]
        return self._cut(fault, [node], voters)

    def _client_cut(self, fault: Fault) -> bool:
        return self._cut(fault, [self._target(fault).id], self._clients())

    def _clients(self) -> list[int]:
        return [self._world.admin.address, *self._world.clients]

    def _cut(
        self, fault: Fault, sources: list[int], targets: list[int], *, both_ways: bool = True
    ) -> bool:
        if not sources or not targets:
            return False
        handle = self._world.network.cut(sources, targets, both_ways=both_ways)
        self._later(fault, self._restore, (fault.kind, handle, tuple(sources)))
        return True

    def _restore(self, cut: tuple[str, int, tuple[int, ...]]) -> None:
        kind, handle, nodes = cut
        self._world.network.restore(handle)
        if kind == "isolate" and self._world.nodes[nodes[0]].running:
            paused = self._world.kernel.is_paused(nodes[0])
            self._world.trace.set_state(nodes[0], t.PAUSED if paused else t.UP)
        self._world.trace.happened(t.NOWHERE, FaultEnded(kind, nodes))

    def _clog(self, fault: Fault) -> bool:
        network = self._world.network
        handle = network.clog([fault.nodes[0]], [fault.nodes[1]], fault.args[0])
        self._later(fault, network.unclog, handle)
        return True

    def _connection_reset(self, fault: Fault) -> bool:
        node = self._target(fault)
        if not node.running or not self._world.hints.given:
            return False
        self._world.hints.reset(node.id)
        return True

    def _late_proposals(self, fault: Fault) -> bool:
        node = self._target(fault)
        node.proposals_late_ms, node.proposals_copied = fault.args[0], bool(fault.args[1])
        self._later(fault, self._proposals_in_time, node)
        return True

    def _proposals_in_time(self, node: SimNode) -> None:
        node.proposals_late_ms = 0

    def _late_fetches(self, fault: Fault) -> bool:
        node = self._target(fault)
        node.fetches_late_ms = fault.args[0]
        self._later(fault, self._fetches_in_time, node)
        return True

    def _fetches_in_time(self, node: SimNode) -> None:
        node.fetches_late_ms = 0

    # -- disks and clocks

    def _slow_disk(self, fault: Fault) -> bool:
        node = self._target(fault)
        node.sync_delay_extra_us = fault.args[0] * 1000
        self._later(fault, self._fast_disk, node)
        return True

    def _fast_disk(self, node: SimNode) -> None:
        node.sync_delay_extra_us = 0

    def _clock_jump(self, fault: Fault) -> bool:
        self._target(fault).wall_offset_ms += fault.args[0]
        return True

    def _bit_flip(self, fault: Fault) -> bool:
        partition = self._partition(fault)
        return partition is not None and self._disks.flip_bit(
            self._target(fault), partition, *fault.args
        )

    def _segment_loss(self, fault: Fault) -> bool:
        partition = self._partition(fault)
        return partition is not None and self._disks.lose_segment(self._target(fault), partition)

    def _disk_full(self, fault: Fault) -> bool:
        node = self._target(fault)
        if not self._disks.fill(node, fault.args[0]):
            return False
        self._later(fault, self._disks.heal, node)
        return True

    def _sync_error(self, fault: Fault) -> bool:
        return self._disks.fail_sync(self._target(fault), fault.args[0])

    def storage_failed(self, node: SimNode, error: StorageError) -> None:
        """The process ended itself. A failed sync takes the machine with it: the page cache may
        hold what can no longer get to the disk, and a new process would believe it."""
        self._world.trace.happened(node.id, Note(f"node {node.id}: {error}"))
        if isinstance(error, DirectoryOffline):
            self._cut_power(node, 0, "disk failed")
        else:
            self._stop(node, "disk failed")
        self._start_later(node, RESTART_MS)

    def start_refused(self, node: SimNode, error: StorageError) -> None:
        """The disk does not let it start; somebody tries again."""
        self._world.trace.happened(node.id, Note(f"node {node.id} cannot start: {error}"))
        self._world.marks.add("start_refused")
        if isinstance(error, DirectoryOffline):
            self._count_lost(node, node.disk.cut_power(0, node.draw))
        self._start_later(node, RESTART_MS)

    # -- wishes of operators

    def _reassign(self, fault: Fault) -> bool:
        partition = self._partition(fault)
        if partition is None:
            return False
        self._world.admin.reassign(partition, fault.nodes)
        return True

    def _min_isr_change(self, fault: Fault) -> bool:
        topic = self._world.plan.topics[fault.topic].name
        self._world.admin.set_min_isr(topic, fault.args[0])
        return True

    def _preferred_election(self, fault: Fault) -> bool:
        return self._elect(fault, rq.ELECT_PREFERRED)

    def _unclean_election(self, fault: Fault) -> bool:
        """The operator looks on for a while and acts when nobody leads."""
        partition = self._partition(fault)
        if partition is None:
            return False
        state = self._world.image.partition(partition)
        if state is not None and state.leader == NO_LEADER:
            return self._elect(fault, rq.ELECT_UNCLEAN)
        if fault.duration_ms > 0:
            later = fault._replace(duration_ms=fault.duration_ms - OPERATOR_LOOKS_EVERY_MS)
            self._world.kernel.call_in(
                OPERATOR_LOOKS_EVERY_MS * 1000, WORLD, self._look_again, later
            )
        return True

    def _look_again(self, fault: Fault) -> None:
        if not self.healed_nodes:
            self._unclean_election(fault)

    def _elect(self, fault: Fault, election_type: int) -> bool:
        partition = self._partition(fault)
        if partition is None:
            return False
        self._world.admin.ask(rq.ElectLeadersRequest(election_type, (partition,)))
        return True

    def _trim(self, fault: Fault) -> bool:
        """Not under an idempotent producer: who has no record left is forgotten (KIP-360)."""
        partition = self._partition(fault)
        state = self._world.image.partition(partition) if partition is not None else None
        if partition is None or state is None or state.leader == NO_LEADER:
            return False
        if any(p.topic == fault.topic and p.idempotent for p in self._world.plan.producers):
            return False
        node = self._world.nodes[state.leader]
        if not node.running or not node.broker.trim(partition, fault.args[0]):
            return False
        self._world.trimmed[partition] = None
        return True

    def _create_topic(self, fault: Fault) -> bool:
        ordinal, partitions, factor, min_isr = fault.args
        topic = TopicPlan(f"extra-{ordinal}", partitions, factor, min_isr, unclean=False)
        self._world.admin.create_topic(topic)
        return True

    def _delete_topic(self, fault: Fault) -> bool:
        self._world.admin.ask(rq.DeleteTopicRequest(self._world.plan.topics[fault.topic].name))
        return True

    # -- beginning, ending, healing

    def _later(self, fault: Fault, callback: Callable[..., None], argument: object) -> None:
        self._world.kernel.call_in(fault.duration_ms * 1000, WORLD, callback, argument)

    def heal(self, *, everything: bool) -> None:
        """End every fault for a sufficient core, and stop the rest; or for all nodes."""
        world = self._world
        world.network.heal()
        world.network.calm()
        self.all_healed = everything
        self.least_read_batches = HEALED_FETCH_BATCHES
        self.healed_nodes = tuple(world.nodes) if everything else self._core()
        for node in world.nodes.values():
            self._resume(node)
            node.sync_delay_extra_us = 0
            node.proposals_late_ms = 0
            self._disks.heal(node)
            node.fetches_late_ms = 0
            node.fetch_max_batches = HEALED_FETCH_BATCHES
            if node.id in self.healed_nodes:
                self._start(node)
            elif node.running:
                self._stop(node, "left broken")

    def _core(self) -> tuple[int, ...]:
        """A majority of voters, every holder of committed data, and enough for min ISR."""
        world = self._world
        if any(topic.name not in world.image.topic_ids for topic in world.plan.every_topic):
            return tuple(world.nodes)  # creating a topic may need every broker
        majority = world.plan.voters // 2 + 1
        core = dict.fromkeys(voter.node_id for voter in world.voters[-majority:])
        for state in world.image.partitions():
            core.update(dict.fromkeys(holders(state)))
            core.update(dict.fromkeys(state.last_known_elr))
            core.update(dict.fromkeys(state.replicas[: world.min_isr(state.id)]))
        return tuple(sorted(core))
