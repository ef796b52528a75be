"""The state of a cluster as a table, for the report of a broken rule."""

from collections.abc import Iterator
from typing import Final

from tidelog.broker.broker import Broker
from tidelog.core.metadata.image import PartitionState
from tidelog.core.types import NO_LEADER
from tidelog.sim.nodes.cluster import NodeCluster
from tidelog.sim.nodes.server import Server

PARTITIONS_SHOWN: Final = 12


def describe(cluster: NodeCluster) -> list[str]:
    """Partitions that are not at rest come first, as the broker that knows most has them."""
    brokers = [broker for broker in map(_broker, cluster.servers.values()) if broker is not None]
    if not brokers:
        return ["no broker is up"]
    knowing = max(brokers, key=lambda broker: broker.metadata.offset)
    states = list(knowing.image.partitions())
    shown = sorted(states, key=lambda state: _at_rest(state, brokers))[:PARTITIONS_SHOWN]
    lines = [line for state in shown for line in _partition(state, knowing, cluster)]
    if len(states) > len(shown):
        lines.append(f"and {len(states) - len(shown)} more partitions")
    return lines


def _broker(server: Server) -> Broker | None:
    return None if server.node is None else server.node.broker


def _at_rest(state: PartitionState, brokers: list[Broker]) -> bool:
    if state.leader == NO_LEADER or len(state.isr) < len(state.replicas):
        return False
    hosted = [broker.replicas.hosted.get(state.id) for broker in brokers]
    ends = [each.log.log_end_offset for each in hosted if each is not None]
    return len(ends) == len(state.replicas) and min(ends) == max(ends)


def _partition(state: PartitionState, knowing: Broker, cluster: NodeCluster) -> Iterator[str]:
    topic = knowing.image.topics[state.id.topic_id].name
    eligible = f" ELR {list(state.elr)}" if state.elr else ""
    yield (
        f"{topic}-{state.id.partition}: leader {state.leader}, leader epoch {state.leader_epoch}, "
        f"partition epoch {state.partition_epoch}, replicas {list(state.replicas)}, "
        f"ISR {list(state.isr)}{eligible}"
    )
    for node_id in state.replicas:
        server = cluster.servers.get(node_id)
        if server is not None:
            yield f"  node {node_id}: {_replica(state, server)}"


def _replica(state: PartitionState, server: Server) -> str:
    broker = _broker(server)
    if broker is None:
        return "down"
    hosted = broker.replicas.hosted.get(state.id)
    if hosted is None:
        return "has no log of it"
    log, replica = hosted.log, hosted.replica
    epochs = " ".join(f"{epoch}@{start}" for epoch, start in log.epochs.entries)
    role = "leads" if hosted.leader else "follows" if hosted.follower else "has no role"
    return (
        f"log {log.log_start_offset} to {log.log_end_offset}, synced {log.recovery_point}, "
        f"epochs {epochs or 'none'}, {role} in leader epoch {replica.leader_epoch}, "
        f"high watermark {replica.high_watermark}"
    )
