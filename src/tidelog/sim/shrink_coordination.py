"""Smaller plans of groups and transactions: fewer clients, topics and partitions."""

from collections.abc import Iterator
from dataclasses import replace

from tidelog.sim.coordination_plan import CoordinationPlan, without_idle_topics
from tidelog.sim.faults import Fault, concerns_topic
from tidelog.sim.plan import Plan


def smaller(plan: Plan) -> Iterator[Plan]:
    """One thing less each, the most first. Drawn anew after each that was kept."""
    coordination = plan.coordination
    if coordination is None:
        return
    yield with_coordination(plan, None)
    for name in ("processors", "groups", "writers"):
        clients = getattr(coordination, name)
        for index in range(len(clients)):
            fewer = clients[:index] + clients[index + 1 :]
            yield with_coordination(plan, replace(coordination, **{name: fewer}))
    yield from _fewer_members(plan, coordination)
    for index, topic in enumerate(coordination.topics):
        if topic.partitions > 1:
            topics = list(coordination.topics)
            topics[index] = replace(topic, partitions=topic.partitions - 1)
            yield with_coordination(plan, replace(coordination, topics=tuple(topics)))
    yield with_coordination(plan, replace(coordination, loading_batches=0, loading_delay_us=0))
    yield with_coordination(plan, replace(coordination, rebalance_delay_ms=0))


def _fewer_members(plan: Plan, coordination: CoordinationPlan) -> Iterator[Plan]:
    for index, group in enumerate(coordination.groups):
        if group.members > 1:
            groups = list(coordination.groups)
            groups[index] = replace(group, members=group.members - 1)
            yield with_coordination(plan, replace(coordination, groups=tuple(groups)))
    for index, processor in enumerate(coordination.processors):
        if processor.instances > 1:
            processors = list(coordination.processors)
            processors[index] = replace(processor, instances=processor.instances - 1)
            yield with_coordination(plan, replace(coordination, processors=tuple(processors)))


def with_coordination(plan: Plan, coordination: CoordinationPlan | None) -> Plan:
    """The plan with this instead; faults follow the topics they are about, or go with them."""
    if coordination is not None:
        coordination = without_idle_topics(coordination)
        if not (coordination.writers or coordination.groups or coordination.processors):
            coordination = None
    moved = replace(plan, coordination=coordination)
    faults = (_moved(fault, plan, moved) for fault in plan.faults)
    return replace(moved, faults=tuple(fault for fault in faults if fault is not None))


def _moved(fault: Fault, before: Plan, after: Plan) -> Fault | None:
    if fault.topic < len(before.topics):
        return fault
    name = before.every_topic[fault.topic].name
    for index, topic in enumerate(after.every_topic):
        if topic.name == name:
            return fault._replace(topic=index, partition=min(fault.partition, topic.partitions - 1))
    return None if concerns_topic(fault) else fault._replace(topic=0, partition=0)


def with_fewer_replicas(plan: CoordinationPlan | None, brokers: int) -> CoordinationPlan | None:
    """As many as there are brokers for."""
    if plan is None:
        return None
    return replace(
        plan,
        topics=tuple(
            replace(
                topic,
                replication_factor=min(topic.replication_factor, brokers),
                min_insync_replicas=min(topic.min_insync_replicas, brokers),
            )
            for topic in plan.topics
        ),
    )
