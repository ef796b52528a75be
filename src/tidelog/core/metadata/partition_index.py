"""Which partitions a broker has a seat in, kept up to date by replay.

A controller that fences a broker must touch the partitions of that broker, not all of them,
and every heartbeat asks whether its sender still leads something. So the image keeps these
answers ready. The index is derived state: the partitions alone determine it, and equal
images have equal indexes whether they came from a log or from a snapshot.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.core.types import NO_LEADER, PartitionId

# A dict without values is a set that keeps its order: iteration is the same in every run.
PartitionSet = dict[PartitionId, None]
ByBroker = dict[int, PartitionSet]


class Seats(NamedTuple):
    """The brokers one partition is filed under, by role."""

    leader: tuple[int, ...]
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    preferred: tuple[int, ...]
    displaced: tuple[int, ...]


NO_SEATS = Seats((), (), (), (), (), ())


def seats(
    leader: int, replicas: tuple[int, ...], isr: tuple[int, ...], elr: tuple[int, ...]
) -> Seats:
    preferred = replicas[:1]
    displaced = preferred if preferred != (leader,) else ()
    return Seats((leader,), replicas, isr, elr, preferred, displaced)


@dataclass(slots=True)
class PartitionIndex:
    """Only replay writes here. A broker without an entry has no such partition, so membership
    is the answer to "any?"; partitions without a leader are filed under `NO_LEADER`."""

    led_by: ByBroker = field(default_factory=dict)
    replicated_by: ByBroker = field(default_factory=dict)
    in_sync_on: ByBroker = field(default_factory=dict)
    eligible_on: ByBroker = field(default_factory=dict)
    preferred_by: ByBroker = field(default_factory=dict)
    displaced_from: ByBroker = field(default_factory=dict)
    """By preferred leader: the partitions that somebody else leads, or nobody."""

    def move(self, partition: PartitionId, before: Seats, after: Seats) -> None:
        assert before is not after, f"{partition} changed without a new set of seats"
        move_partition(self.led_by, partition, before.leader, after.leader)
        move_partition(self.replicated_by, partition, before.replicas, after.replicas)
        move_partition(self.in_sync_on, partition, before.isr, after.isr)
        move_partition(self.eligible_on, partition, before.elr, after.elr)
        move_partition(self.preferred_by, partition, before.preferred, after.preferred)
        move_partition(self.displaced_from, partition, before.displaced, after.displaced)

    def leads_any(self, broker: int) -> bool:
        assert broker != NO_LEADER, f"asked what broker {broker} leads"
        return broker in self.led_by

    def copy(self) -> "PartitionIndex":
        return PartitionIndex(
            copy_by_broker(self.led_by),
            copy_by_broker(self.replicated_by),
            copy_by_broker(self.in_sync_on),
            copy_by_broker(self.eligible_on),
            copy_by_broker(self.preferred_by),
            copy_by_broker(self.displaced_from),
        )


def move_partition(
    index: ByBroker, partition: PartitionId, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    if before == after:
        return
    for broker in before:
        if broker not in after:
            partitions = index[broker]
            del partitions[partition]
            if not partitions:
                del index[broker]
    for broker in after:
        if broker not in before:
            index.setdefault(broker, {})[partition] = None


def copy_by_broker(index: ByBroker) -> ByBroker:
    return {broker: dict(partitions) for broker, partitions in index.items()}
