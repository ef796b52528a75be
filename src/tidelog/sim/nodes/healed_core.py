"""The nodes that are enough to go on, and whether they do while the others stay down."""

from typing import Final

from tidelog.broker.replication.hosted import Hosted
from tidelog.core.metadata.image import MetadataImage, PartitionState
from tidelog.core.types import NO_LEADER, PartitionId
from tidelog.sim.ledger import holders
from tidelog.sim.nodes.cluster import NodeCluster
from tidelog.sim.nodes.cluster_plan import ClusterPlan

NO_PROGRESS: Final = "L2 a healed core goes on without the rest"
MIN_ISR: Final = "min.insync.replicas"


def sufficient_core(image: MetadataImage, plan: ClusterPlan) -> tuple[int, ...]:
    """Every holder of committed records, enough for min ISR, and a majority of voters."""
    core: dict[int, None] = {}
    for topic in image.topics.values():
        own = image.topic_config(topic.name, MIN_ISR)
        min_isr = int(own) if own is not None else max(1, plan.replication_factor - 1)
        for state in topic.partitions.values():
            core.update(dict.fromkeys(holders(state)))
            core.update(dict.fromkeys(state.last_known_elr))
            core.update(dict.fromkeys(state.replicas[:min_isr]))
    voters = sorted(plan.voter_ids, key=lambda voter: voter not in core)
    core.update(dict.fromkeys(voters[: plan.voters // 2 + 1]))
    return tuple(sorted(core))


class CoreProgress:
    """Every partition has to get a leader in the core that commits whatever it has then."""

    __slots__ = ("_cluster", "_core", "_goals", "_image")

    def __init__(self, cluster: NodeCluster, core: tuple[int, ...], image: MetadataImage) -> None:
        self._cluster = cluster
        self._core = core
        self._image = image
        self._goals: dict[PartitionId, tuple[int, int]] = {}
        """Leader epoch and log end offset, when its leader was first seen."""

    def missing(self) -> str | None:
        """In words; None if nothing is."""
        for node_id in self._core:
            if not self._cluster.servers[node_id].ready:
                return f"node {node_id} does not serve"
        for state in self._image.partitions():
            missing = self._missing_of(state)
            if missing is not None:
                name = self._image.topics[state.id.topic_id].name
                return f"{name}-{state.id.partition} {missing}"
        return None

    def _missing_of(self, state: PartitionState) -> str | None:
        if state.leader == NO_LEADER or state.leader not in self._core:
            return f"has leader {state.leader}"
        hosted = self._hosted(state)
        if hosted is None or hosted.leader is None:
            return f"is not led by node {state.leader}, which does not know that it should"
        end_offset = hosted.log.log_end_offset
        epoch, goal = self._goals.setdefault(state.id, (state.leader_epoch, end_offset))
        if epoch != state.leader_epoch:
            self._goals[state.id] = (state.leader_epoch, end_offset)
            goal = end_offset
        if hosted.replica.high_watermark < goal:
            return f"has high watermark {hosted.replica.high_watermark}, {goal} is due"
        return None

    def _hosted(self, state: PartitionState) -> Hosted | None:
        node = self._cluster.servers[state.leader].node
        broker = None if node is None else node.broker
        return None if broker is None else broker.replicas.hosted.get(state.id)
