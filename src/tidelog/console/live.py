"""The documents of a live cluster, made of what the hub knows."""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from tidelog.console.divergence import LogShape, diverges_at
from tidelog.console.feed import ALIVE, DOWN
from tidelog.console.hub import NO_BROKER, Hub, Node
from tidelog.console.model import Key, Model, Partition, ReplicaLog, Unwell
from tidelog.survey.health import NO_QUORUM_LEADER
from tidelog.survey.partition_state import OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED, judge

Document = dict[str, Any]
Sees = Callable[[str], bool]
"""Whether somebody may see a topic."""

OK, WARN, BAD = "ok", "warn", "bad"
SHOWN_EVENTS = 20
SHOWN_UNWELL = 20
_RANKS = {OFFLINE: 0, UNDER_MIN_ISR: 1, UNDER_REPLICATED: 2}


def overview(hub: Hub, sees: Sees) -> Document:
    model = hub.model
    controller = active_controller(hub)
    quorum = controller.summary["quorum"] if controller is not None else {}
    return {
        "health": health(hub),
        "brokers": brokers(hub),
        "controller": {
            "id": quorum.get("leader_id"),
            "epoch": quorum.get("leader_epoch"),
            "metadata_offset": quorum.get("high_watermark"),
            "quorum_lag": quorum_lag(hub),
        },
        "topics": len(model.topics),
        "partitions": len(model.partitions),
        "under_replicated": model.count_of(UNDER_REPLICATED, UNDER_MIN_ISR),
        "offline": model.count_of(OFFLINE),
        "rates": {name: round(value, 1) for name, value in hub.history.rates.items()},
        "events": last_events(hub, sees),
    }


def last_events(hub: Hub, sees: Sees) -> list[Document]:
    seen = (event for event in reversed(hub.timeline) if may_see(event, sees))
    return list(islice(seen, SHOWN_EVENTS))


def may_see(event: Mapping[str, Any], sees: Sees) -> bool:
    topic = event.get("topic")
    return topic is None or sees(str(topic))


def active_controller(hub: Hub) -> Node | None:
    """The newest one, of those that think so and can be reached."""
    active = [
        node
        for node in hub.nodes.values()
        if node.state != DOWN and (node.summary.get("controller") or {}).get("active")
    ]
    return max(active, key=lambda node: node.summary["quorum"]["leader_epoch"], default=None)


def quorum_lag(hub: Hub) -> int | None:
    """Of the slowest node that is reached."""
    controller = active_controller(hub)
    if controller is None:
        return None
    end = controller.summary["quorum"]["high_watermark"]
    applied = [
        node.summary["quorum"]["applied_offset"]
        for node in hub.nodes.values()
        if node.summary and node.state != DOWN
    ]
    return max(0, end - min(applied)) if applied else None


# -- health


def health(hub: Hub) -> list[Document]:
    """Sentences, worst first; one that says so if all is well."""
    if hub.is_gone:
        return [_sentence(BAD, NO_BROKER, None, "tidelog ps"), *_nodes(hub)]
    found = [*_partitions(hub), *_nodes(hub)]
    found.sort(key=lambda each: each["severity"] != BAD)
    if not found:
        return [{"severity": OK, "text": "healthy", "since_ms": None, "next": None}]
    return found


def _nodes(hub: Hub) -> Iterable[Document]:
    for node in hub.nodes.values():
        if node.since_ms is not None and node.state != ALIVE:
            kind = "broker" if is_broker(hub, node) else "controller"
            text = f"{kind} {node.id} is {node.state}"
            verb = "resume" if node.state == "paused" else "restart"
            yield _sentence(WARN, text, node.since_ms, f"tidelog chaos {verb} {node.id}")
        if node.state == DOWN:
            continue
        for finding in node.summary.get("findings", ()):
            text = f"broker {node.id}: {finding['problem']}"
            yield _sentence(WARN, text, finding.get("since_ms"), finding.get("advice"))
    reached = [node for node in hub.nodes.values() if node.summary and node.state != DOWN]
    if reached and all(node.summary["quorum"]["leader_id"] < 0 for node in reached):
        yield _sentence(BAD, NO_QUORUM_LEADER, None, "tidelog cluster health")


def _partitions(hub: Hub) -> Iterable[Document]:
    alive = [node.id for node in hub.nodes.values() if node.state not in (DOWN, "fenced")]
    groups = sorted(hub.model.unwell.items(), key=lambda item: (_RANKS[item[0].state], item[0]))
    for unwell, keys in groups[:SHOWN_UNWELL]:
        yield _unwell(hub.model, unwell, keys, alive)


def _unwell(
    model: Model, unwell: Unwell, keys: Mapping[Key, int | None], alive: Iterable[int]
) -> Document:
    first = model.partitions[next(iter(keys))]
    judgement = judge(first.view, list(alive), first.min_isr)
    subject = first.name if len(keys) == 1 else f"{len(keys)} partitions"
    severity = BAD if unwell.state in (OFFLINE, UNDER_MIN_ISR) else WARN
    since_ms = first.since_ms
    return _sentence(severity, f"{subject} {judgement}", since_ms, f"tidelog explain {first.name}")


def _sentence(severity: str, text: str, since_ms: int | None, advice: str | None) -> Document:
    return {"severity": severity, "text": text, "since_ms": since_ms, "next": advice}


# -- brokers


def brokers(hub: Hub) -> list[Document]:
    return [broker(hub, node) for node in hub.nodes.values() if is_broker(hub, node)]


def is_broker(hub: Hub, node: Node) -> bool:
    local = hub.local.state.nodes.get(node.id)
    return local is None or local.is_broker


def broker(hub: Hub, node: Node) -> Document:
    local = hub.local.state.nodes.get(node.id)
    dirs = node.summary.get("log_dirs", ())
    usable = [each["usable_bytes"] for each in dirs if each["usable_bytes"] is not None]
    model = hub.model
    stream = hub.feeds[node.id].stream if node.id in hub.feeds else None
    return {
        "id": node.id,
        "address": f"{hub.local.state.host}:{local.port}" if local is not None else None,
        "rack": local.rack if local is not None else None,
        "roles": list(local.roles) if local is not None else [],
        "state": node.state,
        "since_ms": node.since_ms,
        "leaders": model.leaders[node.id],
        "preferred": model.preferred[node.id],
        "replicas": model.replicas[node.id],
        "disk_bytes": None,
        "usable_bytes": sum(usable) if usable else None,
        "disk_full": any(each["is_full"] for each in dirs),
        "quorum": quorum_role(node),
        "quorum_lag": node_lag(hub, node),
        "up_ms": stream if node.state != DOWN else None,
    }


def quorum_role(node: Node) -> str | None:
    role = (node.summary.get("quorum") or {}).get("role")
    if role is None:
        return None
    if role == "leader" and node.state != DOWN:
        return "leader"
    return "voter" if "controller" in node.summary.get("roles", ()) else "observer"


def node_lag(hub: Hub, node: Node) -> int | None:
    controller = active_controller(hub)
    quorum = node.summary.get("quorum")
    if controller is None or not quorum or node.state == DOWN:
        return None
    end: int = controller.summary["quorum"]["high_watermark"]
    return max(0, end - int(quorum["applied_offset"]))


# -- partitions


def row(partition: Partition) -> Document:
    log = partition.leader_log or ReplicaLog(-1)
    return {
        "name": partition.name,
        "topic": partition.key[0],
        "partition": partition.key[1],
        "leader": None if partition.leader < 0 else partition.leader,
        "preferred": partition.view.preferred,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "min_isr": partition.min_isr,
        "log_start": log.log_start,
        "high_watermark": log.high_watermark,
        "log_end": log.log_end,
        "state": partition.state,
        "since_ms": partition.since_ms,
        "bytes": None,
    }


def by_name(topic: str) -> tuple[bool, str]:
    """Topics of the cluster itself come last: nobody looks for them first."""
    return topic.startswith("__"), topic


def partition_document(hub: Hub, partition: Partition) -> Document:
    return {
        **row(partition),
        "replica_logs": list(replicas(hub, partition).values()),
        "parked_produces": partition.parked_produces,
        "consumers": [],
        "producers": [],
        "messages": list(partition.messages),
        "mode": "live",
    }


def replicas(hub: Hub, partition: Partition) -> dict[str, Document]:
    leader = partition.leader_log
    shape = None if leader is None else shape_of(leader)
    return {
        str(broker): replica(hub, partition, partition.log(broker), shape)
        for broker in partition.replicas
    }


def replica(hub: Hub, partition: Partition, log: ReplicaLog, leader: LogShape | None) -> Document:
    is_leader = log.broker == partition.leader
    node = hub.nodes.get(log.broker)
    state = DOWN if node is None else node.state
    diverging = None
    if leader is not None and not is_leader and log.epochs:
        diverging = diverges_at(shape_of(log), leader, partition.leader_epoch)
    lag = None if leader is None else max(0, leader.log_end - log.log_end)
    return {
        "broker": log.broker,
        "role": "leader" if is_leader else "follower",
        "in_isr": log.broker in partition.isr,
        "state": "down" if state == "paused" else state,
        "is_paused": state == "paused",
        "last_seen_ms": None if state == ALIVE else log.seen_ms,
        "log_start": log.log_start,
        "high_watermark": log.high_watermark,
        "log_end": log.log_end,
        "epochs": [list(each) for each in log.epochs],
        "diverges_at": diverging,
        "lag": 0 if is_leader else lag,
        "acknowledged": None if is_leader else partition.follower_ends.get(log.broker),
    }


def shape_of(log: ReplicaLog) -> LogShape:
    return LogShape(log.epochs, log.log_start, log.log_end)
