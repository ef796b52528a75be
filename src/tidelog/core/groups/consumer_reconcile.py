"""How a member gets from what it has to what it shall have (KIP-848, "Member assignment").

First it gives up what it shall not have, and keeps its epoch until it has confirmed that. Then it
moves to the epoch of the target, and is given whatever nobody else has; the rest follows when
others have given it up. So no partition is ever in two hands.
"""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.core.groups.assignors import Partition, flatten, fold
from tidelog.core.groups.consumer_group import STABLE, UNRELEASED, UNREVOKED
from tidelog.core.groups.records import CurrentAssignmentValue, TopicPartitions


class Goal(NamedTuple):
    epoch: int
    partitions: TopicPartitions


def reconcile(
    current: CurrentAssignmentValue,
    goal: Goal,
    owned: TopicPartitions | None,
    is_free: Callable[[Partition], bool],
) -> CurrentAssignmentValue:
    """The next step of a member that says what it owns (None: as before). `is_free` tells
    whether nobody but this member has a partition."""
    assert current.member_epoch <= goal.epoch, f"epoch {current.member_epoch} beyond {goal.epoch}"
    if current.state == STABLE and current.member_epoch == goal.epoch:
        return current
    if current.state == UNREVOKED and _owns_any(owned, current.pending_revocation):
        return current
    has, shall_have = set(flatten(current.assigned)), set(flatten(goal.partitions))
    kept, revoked = has & shall_have, fold(has - shall_have)
    if revoked and _owns_any(owned, revoked):
        revoking = current._replace(
            state=UNREVOKED, assigned=fold(kept), pending_revocation=revoked
        )
        return revoking.given_in(current.epochs())
    gained = {partition for partition in shall_have - kept if is_free(partition)}
    complete = len(kept) + len(gained) == len(shall_have)
    advanced = goal.epoch != current.member_epoch
    reached = CurrentAssignmentValue(
        member_epoch=goal.epoch,
        previous_member_epoch=(current.member_epoch if advanced else current.previous_member_epoch),
        state=STABLE if complete else UNRELEASED,
        assigned=fold(kept | gained),
        pending_revocation=(),
    )
    epochs = current.epochs()
    return reached.given_in({partition: epochs[partition] for partition in kept})


def is_subset(partitions: TopicPartitions, of: TopicPartitions) -> bool:
    return set(flatten(partitions)) <= set(flatten(of))


def _owns_any(owned: TopicPartitions | None, partitions: TopicPartitions) -> bool:
    """A member that does not say what it owns has not given up anything."""
    return owned is None or not set(flatten(owned)).isdisjoint(flatten(partitions))
