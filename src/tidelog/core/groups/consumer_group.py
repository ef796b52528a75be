"""One group of the consumer protocol (KIP-848), as its records tell it.

This is all hard state: it changes in `replay` only, and two coordinators that have read the same
records have equal groups. The four kinds of records of a member are kept apart because a
compacted log may bring them in any order.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.core.groups.assignors import Partition, flatten
from tidelog.core.groups.records import (
    ConsumerGroupEpoch,
    ConsumerMember,
    ConsumerMemberValue,
    CurrentAssignment,
    CurrentAssignmentValue,
    GroupRecord,
    TargetAssignment,
    TargetAssignmentEpoch,
    TopicPartitions,
)

STABLE, UNREVOKED, UNRELEASED = 0, 1, 2
"""Where a member stands: it has what it can have; it has to give something up first; what it is
due is still in other hands. Kafka's numbers (CurrentAssignmentValue.state)."""

LEFT_FOR_A_WHILE = -2
"""Member epoch of a static member that will come back; also the heartbeat that says so."""

NOT_YET = CurrentAssignmentValue(0, 0, STABLE, (), ())
"""What a member has that has just come."""

ConsumerRecord = (
    ConsumerGroupEpoch
    | ConsumerMember
    | TargetAssignmentEpoch
    | TargetAssignment
    | CurrentAssignment
)


class MemberKey(NamedTuple):
    group_id: str
    member_id: str


class StoredGroup(NamedTuple):
    """A group as its records tell it, to compare two coordinators."""

    epoch: int
    assignment_epoch: int
    members: dict[str, ConsumerMemberValue]
    targets: dict[str, TopicPartitions]
    currents: dict[str, CurrentAssignmentValue]


class ConsumerGroup:
    __slots__ = (
        "assignment_epoch",
        "currents",
        "epoch",
        "group_id",
        "instances",
        "members",
        "owners",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.assignment_epoch = 0
        self.members: dict[str, ConsumerMemberValue] = {}
        self.targets: dict[str, TopicPartitions] = {}
        self.currents: dict[str, CurrentAssignmentValue] = {}
        # What follows is derived from the above.
        self.instances: dict[str, str] = {}
        """Instance id of a static member → its member id."""
        self.owners: dict[Partition, str] = {}
        """Who has a partition, or has not yet confirmed to have given it up."""

    def current(self, member_id: str) -> CurrentAssignmentValue:
        return self.currents.get(member_id, NOT_YET)

    def stored(self) -> StoredGroup:
        return StoredGroup(
            self.epoch,
            self.assignment_epoch,
            dict(self.members),
            dict(self.targets),
            dict(self.currents),
        )

    def state(self) -> str:
        """In Kafka's words."""
        if self.members and self.epoch > self.assignment_epoch:
            return "Assigning"
        return reconciliation(self.members, self.currents, self.epoch)

    def replay(self, record: ConsumerRecord) -> None:
        match record:
            case ConsumerGroupEpoch(epoch=int(epoch)):
                self.epoch = epoch
            case TargetAssignmentEpoch():
                self.assignment_epoch = record.epoch or 0
            case ConsumerMember():
                self._replay_member(record.member_id, record.value)
            case TargetAssignment(partitions=None):
                self.targets.pop(record.member_id, None)
            case TargetAssignment(partitions=partitions):
                assert partitions is not None, f"a tombstone of {record.member_id} came too far"
                self.targets[record.member_id] = partitions
            case CurrentAssignment():
                self._replay_current(record.member_id, record.value)

    def _replay_member(self, member_id: str, value: ConsumerMemberValue | None) -> None:
        before = self.members.get(member_id)
        instance_id = before.instance_id if before is not None else None
        if instance_id is not None and self.instances.get(instance_id) == member_id:
            del self.instances[instance_id]
        if value is None:
            self.members.pop(member_id, None)
            return
        self.members[member_id] = value
        if value.instance_id is not None:
            self.instances[value.instance_id] = member_id

    def _replay_current(self, member_id: str, value: CurrentAssignmentValue | None) -> None:
        before = self.currents.pop(member_id, None)
        if before is not None:
            for partition in held(before):
                if self.owners.get(partition) == member_id:
                    del self.owners[partition]
        if value is not None:
            self.currents[member_id] = value
            for partition in held(value):
                self.owners[partition] = member_id

    def tombstones_of(self, member_id: str) -> list[GroupRecord]:
        """In an order that leaves nothing half there if the log ends in between."""
        records: list[GroupRecord] = []
        if member_id in self.currents:
            records.append(CurrentAssignment(self.group_id, member_id, None))
        if member_id in self.targets:
            records.append(TargetAssignment(self.group_id, member_id, None))
        if member_id in self.members:
            records.append(ConsumerMember(self.group_id, member_id, None))
        return records


def held(value: CurrentAssignmentValue) -> list[Partition]:
    """What a member may be reading: also what it has not yet confirmed to have given up."""
    return [*flatten(value.assigned), *flatten(value.pending_revocation)]


def reconciliation(
    members: Mapping[str, ConsumerMemberValue],
    currents: Mapping[str, CurrentAssignmentValue],
    epoch: int,
) -> str:
    """Empty; Stable when everybody has what they shall have; else Reconciling."""
    for member_id in members:
        current = currents.get(member_id, NOT_YET)
        if current.state != STABLE or current.member_epoch != epoch:
            return "Reconciling"
    return "Stable" if members else "Empty"
