"""Moving a partition to other replicas (kraft.md §6.5, KIP-455).

While it runs, the assignment is the target followed by the replicas that will go. Two sets
describe it at any time, however often the target is changed on the way:

    replicas ∖ adding   = the assignment before the reassignment (what a cancel returns to)
    replicas ∖ removing = the target

A replica that an earlier target added and the present one abandoned is in both.
"""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.core.errors import Error
from tidelog.core.metadata.image import PartitionState
from tidelog.core.metadata.refusal import ReassignmentError


class Assignment(NamedTuple):
    """The assignment of a partition, with the reassignment in progress if there is one."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def in_progress(self) -> bool:
        return bool(self.adding or self.removing)


def assignment_of(partition: PartitionState) -> Assignment:
    return Assignment(partition.replicas, partition.adding_replicas, partition.removing_replicas)


def start(current: Assignment, target: tuple[int, ...]) -> Assignment:
    """Aim at `target`. A mere reorder needs no move and is in force at once."""
    original = excluding(current.replicas, current.adding)
    replicas = target + excluding(current.replicas, target)
    started = Assignment(
        replicas, adding=excluding(replicas, original), removing=excluding(replicas, target)
    )
    assert excluding(started.replicas, started.removing) == target, f"{started} misses {target}"
    return started


def may_complete(current: Assignment, isr: tuple[int, ...]) -> bool:
    """Every replica of the target must be in sync: then the others hold nothing it lacks."""
    if not current.in_progress:
        return False
    target = excluding(current.replicas, current.removing)
    return bool(target) and all(replica in isr for replica in target)


def complete(current: Assignment) -> Assignment:
    assert current.in_progress, f"nothing to complete in {current}"
    return Assignment(excluding(current.replicas, current.removing))


def cancel(current: Assignment) -> Assignment:
    assert current.in_progress, f"nothing to cancel in {current}"
    return Assignment(excluding(current.replicas, current.adding))


def drops_a_replica(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Then the leader epoch rises, so that the dropped one cannot go on as a follower that the
    leader believes in (§6.3)."""
    return any(replica not in after for replica in before)


def check_target(target: tuple[int, ...], is_registered: Callable[[int], bool]) -> None:
    """Refuse a target that cannot be an assignment."""
    if not target:
        raise ReassignmentError(
            Error.INVALID_REPLICA_ASSIGNMENT, "the target has no replicas: name at least one broker"
        )
    if len(set(target)) != len(target):
        raise ReassignmentError(
            Error.INVALID_REPLICA_ASSIGNMENT, f"the target {list(target)} names a broker twice"
        )
    unknown = [broker for broker in target if not is_registered(broker)]
    if unknown:
        raise ReassignmentError(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"the target {list(target)} names brokers that are not registered: {unknown}",
        )


def check_replication_factor(partition: PartitionState, target: tuple[int, ...]) -> None:
    """For those who say that they only move replicas: neither more nor fewer of them. What a
    reassignment in progress adds does not count (KIP-860)."""
    present = excluding(partition.replicas, partition.adding_replicas)
    if len(target) != len(present):
        raise ReassignmentError(
            Error.INVALID_REPLICATION_FACTOR,
            f"the target {list(target)} has {len(target)} replicas, partition"
            f" {partition.id.partition} has {len(present)}, and the number must stay",
        )


def check_in_progress(partition: PartitionState) -> None:
    if not assignment_of(partition).in_progress:
        raise ReassignmentError(
            Error.NO_REASSIGNMENT_IN_PROGRESS,
            f"partition {partition.id.partition} is not being reassigned: nothing to cancel",
        )


def excluding(brokers: tuple[int, ...], excluded: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(broker for broker in brokers if broker not in excluded)


def only(brokers: tuple[int, ...], kept: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(broker for broker in brokers if broker in kept)
