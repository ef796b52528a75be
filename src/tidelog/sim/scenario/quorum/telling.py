"""What the active controller has decided, told when it is committed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

from tidelog.core.metadata import records as r
from tidelog.core.metadata.controller import Controller
from tidelog.core.metadata.image import MetadataImage, PartitionState
from tidelog.core.types import NO_LEADER, LogEntry, PartitionId

if TYPE_CHECKING:
    from tidelog.sim.scenario.quorum.stage import QuorumStage

SPEAKER = "controller"
MANY_RECORDS = 100
"""From this size on it is worth telling how big an entry is."""
Before = dict[PartitionId, PartitionState]


class Telling:
    def __init__(self, stage: QuorumStage) -> None:
        self._stage = stage
        self._before: Before = {}

    def remember(self, controller: Controller, entry: LogEntry) -> None:
        """An entry is about to be applied."""
        states = map(controller.committed.partition, _touched(entry))
        self._before = {state.id: state.copy() for state in states if state is not None}

    def tell(self, controller: Controller, entry: LogEntry) -> None:
        """It was."""
        image = controller.committed
        if len(entry.records) >= MANY_RECORDS:
            self._stage.line(f"{SPEAKER}: one entry of {len(entry.records)} records")
        for record in entry.records:
            text = _record_text(record)
            if text:
                self._stage.line(f"{SPEAKER}: {text}")
        found = map(image.partition, _touched(entry))
        states = [state for state in found if state is not None]
        for line in partition_lines(image, states, self._before):
            self._stage.line(f"{SPEAKER}: {line}")


def _touched(entry: LogEntry) -> dict[PartitionId, None]:
    return {
        PartitionId(record.topic_id, record.partition): None
        for record in entry.records
        if isinstance(record, r.Partition | r.PartitionChange)
    }


def partition_lines(
    image: MetadataImage, states: Iterable[PartitionState], before: Before | None = None
) -> list[str]:
    """One line each; neighbours about which the same is to be told share one."""
    lines: list[str] = []
    described = [
        (
            image.topics[state.id.topic_id].name,
            partition_text(state, (before or {}).get(state.id)),
            state,
        )
        for state in states
    ]
    for (topic, text), run in groupby(described, lambda item: item[:2]):
        numbers = [state.id.partition for _, _, state in run]
        last = f"..{numbers[-1]}" if len(numbers) > 1 else ""
        lines.append(f"{topic}-{numbers[0]}{last} {text}")
    return lines


def _record_text(record: object) -> str:
    if isinstance(record, r.RegisterBroker):
        return f"{record.broker_id} registered broker-epoch={record.broker_epoch}"
    if isinstance(record, r.BrokerRegistrationChange):
        if record.in_controlled_shutdown:
            return f"{record.broker_id} is shutting down"
        return f"{record.broker_id} {'fenced' if record.fenced > 0 else 'unfenced'}"
    if isinstance(record, r.Topic):
        return f"topic {record.name} created"
    if isinstance(record, r.RemoveTopic):
        return "topic deleted"
    return ""


def partition_text(after: PartitionState, before: PartitionState | None = None) -> str:
    parts: list[str] = []
    if before is None or before.leader_epoch != after.leader_epoch:
        leader = "none" if after.leader == NO_LEADER else str(after.leader)
        parts += [f"leader={leader}", f"leader-epoch={after.leader_epoch}"]
    parts.append(f"isr={names(after.isr)}")
    if after.elr or (before is not None and before.elr):
        parts.append(f"elr={names(after.elr)}")
    return " ".join([*parts, f"partition-epoch={after.partition_epoch}"])


def names(brokers: tuple[int, ...]) -> str:
    return f"({','.join(map(str, brokers))})"
