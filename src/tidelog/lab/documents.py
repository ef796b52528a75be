"""The stage of a play as JSON: the partition with its replicas, or the quorum with its nodes."""

from collections.abc import Callable
from typing import Any

from tidelog.core.types import NO_LEADER, NO_OFFSET
from tidelog.sim.scenario import ArgumentError, PartitionPicture, ReplicaPicture, look
from tidelog.sim.scenario import passed as messages
from tidelog.sim.scenario.disks import TOPIC
from tidelog.sim.scenario.passed import Passed, PassedMessages
from tidelog.sim.scenario.quorum import QuorumStage
from tidelog.sim.scenario.quorum.machine import Machine
from tidelog.sim.scenario.stage import Stage
from tidelog.sim.scenario.view import DOWN, LEADER

Document = dict[str, Any]
MODE = "sim"
MOST_RECORDS = 200
"""Of each log, counted from its end."""

EXPLANATIONS = {
    messages.FETCH: "{source} asks {target} for offset {offset}: it has everything below.",
    messages.ANSWER: "{source} answers {target}: {text}.",
    messages.DIVERGING: (
        "{source} tells {target} where epoch {epoch} ends in its own log: at offset {offset}."
    ),
    messages.TRUNCATE: "{source} cuts its log: everything from offset {offset} on goes.",
}


def partition_document(stage: Stage, new_from: int) -> Document | None:
    """None while there is none. Messages from number `new_from` on belong to the last step."""
    try:
        seen = look(stage)
    except ArgumentError:  # no scene is set, or the topic is deleted
        return None
    partition = stage.partition
    leader = next((r for r in seen.replicas if r.broker == seen.leader), None)
    ids = {broker.name: broker.id for broker in stage.brokers.values()}
    minimum = stage.control.committed.topic_config(TOPIC, "min.insync.replicas")
    return {
        "name": f"{TOPIC}-0",
        "topic": TOPIC,
        "partition": 0,
        "leader": None if partition.leader == NO_LEADER else partition.leader,
        "preferred": partition.replicas[0],
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "elr": list(partition.elr),
        "min_isr": int(minimum or "1"),
        "log_start": None if leader is None else leader.log_start_offset,
        "high_watermark": None if leader is None else leader.high_watermark,
        "log_end": None if leader is None else leader.log_end_offset,
        "state": seen.state or "healthy",
        "since_ms": None,
        "bytes": _size_bytes(stage),
        "replica_logs": [_replica_document(stage, seen, r, ids[r.broker]) for r in _ordered(seen)],
        "parked_produces": sum(len(broker.parked) for broker in stage.brokers.values()),
        "consumers": [],
        "producers": [],
        "messages": message_documents(stage.passed, new_from, stage.cast.name_of),
        "mode": MODE,
    }


def _size_bytes(stage: Stage) -> int:
    leader = stage.leading_broker()
    hosted = None if leader is None else leader.hosted
    return 0 if hosted is None else hosted.log.size_bytes


def _ordered(seen: PartitionPicture) -> list[ReplicaPicture]:
    """In the order of the assignment, then whoever else has a log."""
    places = {name: place for place, name in enumerate(seen.assignment)}
    return sorted(seen.replicas, key=lambda replica: places.get(replica.broker, len(places)))


def _replica_document(
    stage: Stage, seen: PartitionPicture, replica: ReplicaPicture, broker: int
) -> Document:
    leader = next((r for r in seen.replicas if r.broker == seen.leader), None)
    end = replica.log_end_offset if leader is None else leader.log_end_offset
    acknowledged = replica.acknowledged
    return {
        "broker": broker,
        "role": LEADER if replica.broker == seen.leader else "follower",
        "in_isr": replica.broker in seen.isr,
        "state": _state(stage, replica, broker),
        "last_seen_ms": None,
        "log_start": replica.log_start_offset,
        "high_watermark": replica.high_watermark,
        "log_end": replica.log_end_offset,
        "acknowledged": None if acknowledged == NO_OFFSET else acknowledged,
        "epochs": [list(entry) for entry in replica.epochs],
        "diverges_at": replica.differs_from(leader),
        "lag": max(0, end - replica.log_end_offset),
        "records": [
            {
                "offset": batch.base_offset,
                "last_offset": batch.last_offset,
                "epoch": batch.leader_epoch,
                "names": list(batch.names),
            }
            for batch in replica.batches[-MOST_RECORDS:]
        ],
    }


def _state(stage: Stage, replica: ReplicaPicture, broker: int) -> str:
    if replica.role == DOWN:
        return DOWN
    if stage.brokers[broker].paused:
        return "paused"
    return "fenced" if stage.control.committed.brokers[broker].fenced else "alive"


def message_documents(
    passed: PassedMessages, new_from: int, name_of: Callable[[int], str]
) -> list[Document]:
    return [
        {
            "from": message.source,
            "to": message.target,
            "text": message.text,
            "kind": message.kind,
            "offset": message.offset,
            "epoch": message.epoch,
            "fate": message.fate,
            "new": number >= new_from,
            "explain": _explain(message, name_of),
        }
        for number, message in passed.last()
    ]


def _explain(message: Passed, name_of: Callable[[int], str]) -> str:
    sentence = EXPLANATIONS[message.kind].format(
        source=name_of(message.source),
        target=name_of(message.target),
        offset=message.offset,
        epoch=message.epoch,
        text=message.text,
    )
    if message.fate == messages.HELD:
        return f"{sentence} It is still on the wire."
    return f"{sentence} It gets lost." if message.fate == messages.LOST else sentence


def quorum_document(stage: QuorumStage) -> Document | None:
    """The nodes that keep the metadata log, the brokers, and what the active controller says."""
    if not stage.machines:
        return None
    active = stage.active_machine()
    machines = stage.machines.values()
    return {
        "leader": None if active is None else active.node_id,
        "nodes": [_node_document(machine) for machine in machines if not machine.is_broker],
        "brokers": [
            {"broker": machine.node_id, "name": machine.name, "running": machine.node is not None}
            for machine in machines
            if machine.is_broker
        ],
        "partitions": [] if active is None else _partition_rows(active),
    }


def _node_document(machine: Machine) -> Document:
    node, stored = machine.node, machine.stored
    voted = stored.voted if node is None else node.state.voted
    high_watermark = None if node is None else node.high_watermark
    return {
        "node": machine.node_id,
        "role": DOWN if node is None else node.role,
        "epoch": stored.epoch if node is None else node.epoch,
        "voted": None if voted is None else voted.node_id,
        "log_end": machine.log.log_end_offset,
        "high_watermark": None if high_watermark == NO_OFFSET else high_watermark,
    }


def _partition_rows(active: Machine) -> list[Document]:
    image = active.image
    return [
        {
            "name": f"{image.topics[state.id.topic_id].name}-{state.id.partition}",
            "leader": None if state.leader == NO_LEADER else state.leader,
            "leader_epoch": state.leader_epoch,
            "partition_epoch": state.partition_epoch,
            "replicas": list(state.replicas),
            "isr": list(state.isr),
        }
        for state in list(image.partitions())[:MOST_RECORDS]
    ]
