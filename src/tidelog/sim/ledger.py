"""The fault ledger: what may still be promised after the damage done so far.

A promise holds while some replica in ISR ∪ ELR keeps its disk. After every fault that destroys
data, and after every change of the in-sync sets, the ledger works out whether an intact holder is
left. When none is, the run no longer expects the partition's acknowledged records back; it
still expects everything else.
"""

from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import MetadataImage, PartitionState
from tidelog.core.types import PartitionId


class Ledger:
    """Owner of "which nodes have lost data" and "which partitions may have"."""

    __slots__ = ("_damaged", "_lost")

    def __init__(self) -> None:
        self._damaged: dict[PartitionId, list[int]] = {}
        self._lost: dict[PartitionId, str] = {}

    def expected_durable(self, partition: PartitionId) -> bool:
        return partition not in self._lost

    def damage(self, image: MetadataImage, node: int) -> None:
        """The node has lost records that others may count on."""
        for state in _held_by(image, node):
            self._damaged.setdefault(state.id, []).append(node)
            if not self._intact(state):
                self._lost.setdefault(state.id, f"node {node} held the last intact copy")

    def observe(self, image: MetadataImage, record: object) -> None:
        """A committed record, already replayed into `image`."""
        kind = type(record)
        if kind is r.PartitionChange:
            self._observe_change(image, record)  # type: ignore[arg-type]
        elif kind is r.RegisterBroker:
            # It has lost its seat in every ISR and ELR; it returns only with the data.
            for partition, damaged in list(self._damaged.items()):
                state = image.partition(partition)
                node = record.broker_id  # type: ignore[attr-defined]
                if node in damaged and (state is None or node not in holders(state)):
                    damaged.remove(node)

    def _observe_change(self, image: MetadataImage, change: r.PartitionChange) -> None:
        partition = PartitionId(change.topic_id, change.partition)
        if change.leader_recovery_state == r.RECOVERING:
            self._lost.setdefault(partition, "a leader was elected uncleanly")
        state = image.partition(partition)
        if state is not None and self._damaged.get(partition) and not self._intact(state):
            self._lost.setdefault(partition, "only damaged replicas are left in ISR and ELR")

    def _intact(self, state: PartitionState) -> bool:
        damaged = self._damaged.get(state.id, ())
        return any(node not in damaged for node in holders(state))


def holders(state: PartitionState) -> tuple[int, ...]:
    """Everyone who provably holds every committed record."""
    return (*state.isr, *state.elr)


def _held_by(image: MetadataImage, node: int) -> list[PartitionState]:
    return [state for state in image.partitions() if node in holders(state)]
