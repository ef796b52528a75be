"""Plans that are a little smaller than another one: a node, a topic or a client less.

Each is a plan that can be run, whether or not it still shows what the larger one did.
"""

from types import NoneType
from typing import Any, get_args, get_type_hints

from tidelog.sim.nodes.client_plan import ClientPlan
from tidelog.sim.nodes.cluster_plan import ClusterPlan
from tidelog.sim.nodes.fault_kinds import ALL_NODES, BETWEEN_TWO, NodeFault
from tidelog.sim.nodes.plan import NodePlan
from tidelog.sim.nodes.topic_plan import TopicPlan

MIN_ISR = "min.insync.replicas"


def ending_at(plan: NodePlan, at_ms: int) -> NodePlan:
    """Without the faults that come later; the healing begins then, if not before."""
    phases = plan.phases
    chaos_ms = max(1, min(phases.chaos_ms, at_ms + 1 - phases.calm_ms))
    return plan._replace(
        phases=phases._replace(chaos_ms=chaos_ms),
        faults=tuple(fault for fault in plan.faults if fault.at_ms <= at_ms),
    )


def sooner(plan: NodePlan, by_ms: int) -> NodePlan:
    """All faults come so much earlier, and the healing too."""
    moved = tuple(fault._replace(at_ms=max(0, fault.at_ms - by_ms)) for fault in plan.faults)
    phases = plan.phases._replace(chaos_ms=max(1, plan.phases.chaos_ms - by_ms))
    return plan._replace(phases=phases, faults=moved)


def less_calm(plan: NodePlan, calm_ms: int) -> NodePlan:
    by_ms = plan.phases.calm_ms - calm_ms
    assert by_ms > 0, f"{calm_ms} ms of calm are not fewer than {plan.phases.calm_ms}"
    moved = tuple(fault._replace(at_ms=max(0, fault.at_ms - by_ms)) for fault in plan.faults)
    return plan._replace(phases=plan.phases._replace(calm_ms=calm_ms), faults=moved)


def without_node(plan: NodePlan, removed: int) -> NodePlan | None:
    """One node less, those after it renumbered; everything else cut to fit. None if it is needed:
    a cluster has a broker and a voter."""
    cluster = _cluster_without(plan.cluster, removed)
    if cluster is None:
        return None
    faults = (_fault_without(fault, removed, cluster.nodes) for fault in plan.faults)
    return plan._replace(
        cluster=cluster,
        topics=tuple(_fitting(topic, cluster.brokers) for topic in plan.topics),
        faults=tuple(fault for fault in faults if fault is not None),
    )


def _cluster_without(cluster: ClusterPlan, removed: int) -> ClusterPlan | None:
    brokers, voters = cluster.brokers, cluster.voters
    if removed in cluster.broker_ids:
        brokers -= 1
    if cluster.separate and removed in cluster.voter_ids:
        voters -= 1
    voters = voters if cluster.separate else min(voters, brokers)
    if brokers < 1 or voters < 1:
        return None
    return cluster._replace(
        brokers=brokers,
        voters=voters,
        racks=_without(cluster.racks, removed) if removed in cluster.broker_ids else cluster.racks,
        clocks=_without(cluster.clocks, removed),
    )


def with_one_role_each(plan: NodePlan) -> NodePlan:
    """The first brokers are the voters; there are no controllers beside them."""
    cluster = plan.cluster
    voters = min(cluster.voters, cluster.brokers)
    smaller = cluster._replace(
        separate=False, voters=voters, clocks=cluster.clocks[: cluster.brokers]
    )
    faults = plan.faults
    for node_id in reversed(range(cluster.brokers + 1, cluster.nodes + 1)):
        moved = (_fault_without(fault, node_id, node_id - 1) for fault in faults)
        faults = tuple(fault for fault in moved if fault is not None)
    return plan._replace(cluster=smaller, faults=faults)


def _fault_without(fault: NodeFault, removed: int, left: int) -> NodeFault | None:
    """The fault among those who are left; None when its point is gone."""
    gone = fault.node == removed or (fault.kind in BETWEEN_TWO and fault.other == removed)
    if gone or (left == 1 and fault.kind in BETWEEN_TWO):
        return None
    node = fault.node if fault.node == ALL_NODES else _renumbered(fault.node, removed)
    other = _renumbered(fault.other, removed) if fault.other != removed else node
    return fault._replace(node=node, other=max(1, other))


def _renumbered(node_id: int, removed: int) -> int:
    return node_id - 1 if node_id > removed else node_id


def _without(each: tuple[Any, ...], removed: int) -> tuple[Any, ...]:
    return each[: removed - 1] + each[removed:]


def _fitting(topic: TopicPlan, brokers: int) -> TopicPlan:
    factor = min(topic.replication_factor, brokers)
    settings = tuple(
        (name, str(min(int(value), factor)) if name == MIN_ISR else value)
        for name, value in topic.settings
    )
    return topic._replace(replication_factor=factor, settings=settings)


def with_partitions(plan: NodePlan, topic: int, partitions: int) -> NodePlan:
    topics = list(plan.topics)
    topics[topic] = topics[topic]._replace(partitions=partitions)
    return plan._replace(topics=tuple(topics))


def lists_of_clients(clients: ClientPlan) -> list[str]:
    """The fields that list clients: any of these may be left out."""
    return [
        name
        for name, value in zip(clients._fields, clients, strict=True)
        if isinstance(value, tuple) and value and all(hasattr(each, "_fields") for each in value)
    ]


def optional_clients(clients: ClientPlan) -> list[str]:
    """The fields that may be None and are not."""
    hints = get_type_hints(ClientPlan)
    return [
        name
        for name, value in zip(clients._fields, clients, strict=True)
        if value is not None and NoneType in get_args(hints[name])
    ]
