"""From a partition and what is wanted of it to the record that changes it, or to nothing.

Every change of a partition is built here, in one order (kraft.md §6): complete a reassignment
if that is possible now, recompute the ELR, elect, decide on a new leader epoch, and write down
the fields that differ. So a fenced broker, a leader's proposal and an operator's request cannot
end in states that another path would not have allowed.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from tidelog.core.errors import Error
from tidelog.core.metadata import elections, elr, reassignment
from tidelog.core.metadata import records as r
from tidelog.core.metadata.elections import Ballot, Elected, Election
from tidelog.core.metadata.elr import ElrInputs
from tidelog.core.metadata.image import PartitionState
from tidelog.core.metadata.reassignment import Assignment, excluding, only
from tidelog.core.metadata.refusal import PlacementError, ReassignmentError
from tidelog.core.requests import ELECT_PREFERRED
from tidelog.core.types import NO_LEADER

T = TypeVar("T", int, tuple[int, ...])


class ChangeContext(NamedTuple):
    """What a change depends on besides the partition.

    `is_acceptable`: may this broker lead *after* the batch this change belongs to, i.e. is it
    registered, unfenced and not shutting down then.
    """

    min_insync_replicas: int
    elr_enabled: bool
    is_acceptable: Callable[[int], bool]
    unclean_allowed: bool = False


class WantedChange(NamedTuple):
    """What is asked for; `None` leaves the partition as it is."""

    target_isr: tuple[int, ...] | None = None
    target_replicas: tuple[int, ...] | None = None
    target_adding: tuple[int, ...] | None = None
    target_removing: tuple[int, ...] | None = None
    election: Election = Election.ONLINE
    uncleanly_restarted: tuple[int, ...] = ()
    disk_replaced: tuple[int, ...] = ()
    """Of those: they come back with other log directories, so with nothing."""
    leader_recovery_state: int | None = None
    new_partition_epoch: bool = False
    """Write a record even if nothing else changes: proposals made before are then refused."""


class Draft(NamedTuple):
    """The partition as it will be, complete; the record is its difference to what is."""

    assignment: Assignment
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    elected: Elected


def build_change(
    partition: PartitionState, wanted: WantedChange, context: ChangeContext
) -> r.PartitionChange | None:
    """The record that brings about `wanted`, or None when the partition is like that already."""
    assignment, isr = wanted_sets(partition, wanted)
    if reassignment.may_complete(assignment, isr):
        assignment = reassignment.complete(assignment)
        isr = only(isr, assignment.replicas)
    inputs = ElrInputs(
        partition,
        assignment.replicas,
        isr,
        wanted.uncleanly_restarted,
        context.min_insync_replicas,
        context.elr_enabled,
    )
    elected = elections.elect(ballot_for(inputs, context), wanted.election)
    inputs = inputs._replace(isr=isr_after_election(inputs, elected))
    # Recomputed with the ISR the election left: it may be large enough now (elr.py, 3).
    draft = Draft(
        assignment,
        inputs.isr,
        () if elected.unclean else elr.next_elr(inputs),
        () if elected.unclean else last_known_after(inputs, wanted),
        elected,
    )
    return record_of(partition, wanted, draft)


def last_known_after(inputs: ElrInputs, wanted: WantedChange) -> tuple[int, ...]:
    """Who led last comes closest to having everything, unless its disk is gone: then another
    replica may have what it has not, and an operator decides. A sole replica has nobody behind."""
    last_known = elr.next_last_known_elr(inputs)
    if len(inputs.replicas) == 1:
        return last_known
    return excluding(last_known, wanted.disk_replaced)


def leave_isr(
    partition: PartitionState, broker: int, context: ChangeContext
) -> r.PartitionChange | None:
    """A broker is fenced, shuts down or restarts cleanly: it keeps its log, so it may enter the
    ELR. It cannot lead, whatever the context still believes of it."""
    wanted = WantedChange(target_isr=excluding(partition.isr, (broker,)))
    return build_change(partition, wanted, without_broker(context, broker))


def lose_seats(
    partition: PartitionState, broker: int, context: ChangeContext, *, disk_replaced: bool = False
) -> r.PartitionChange | None:
    """A broker restarted uncleanly or was unregistered: it leaves both ISR and ELR, because its
    log may lack a tail that it had acknowledged (KIP-966)."""
    replaced = (broker,) if disk_replaced else ()
    wanted = WantedChange(uncleanly_restarted=(broker,), disk_replaced=replaced)
    return build_change(partition, wanted, without_broker(context, broker))


def elect_on_request(
    partition: PartitionState, election_type: int, context: ChangeContext
) -> tuple[Error, r.PartitionChange | None]:
    """One partition of ElectLeaders: either a record or the reason why there is none."""
    assert partition.replicas, f"{partition.id} has {len(partition.replicas)} replicas"
    if election_type == ELECT_PREFERRED:
        preferred = partition.preferred_leader
        if partition.leader == preferred:
            return Error.ELECTION_NOT_NEEDED, None
        inputs = present_inputs(partition, context)
        if not elections.is_valid(ballot_for(inputs, context), preferred):
            return Error.PREFERRED_LEADER_NOT_AVAILABLE, None
        change = build_change(partition, WantedChange(election=Election.PREFERRED), context)
        return Error.NONE, change
    if partition.leader != NO_LEADER:
        return Error.ELECTION_NOT_NEEDED, None
    change = build_change(partition, WantedChange(election=Election.UNCLEAN), context)
    if change is None or change.leader < 0:
        return Error.ELIGIBLE_LEADERS_NOT_AVAILABLE, None
    return Error.NONE, change


def after_min_isr_change(
    partition: PartitionState, previous_min_insync_replicas: int, context: ChangeContext
) -> r.PartitionChange | None:
    """The change that goes with a new `min.insync.replicas`, which `context` holds already.

    Lowered: drop the ELR where the ISR may commit again; put the change before the config
    record or into the same batch. Raised: restate the ISR, after the config record, so that no
    proposal of a leader that knows only the lower minimum is accepted (elr.py says why).
    """
    count = len(partition.replicas)
    before = elr.effective_min_isr(previous_min_insync_replicas, count)
    minimum = elr.effective_min_isr(context.min_insync_replicas, count)
    wanted = WantedChange(new_partition_epoch=must_restate_isr(before, minimum))
    return build_change(partition, wanted, context)


def must_restate_isr(previous_minimum: int, minimum: int) -> bool:
    """A leader that has not heard of a higher minimum yet would commit with too small an ISR."""
    return minimum > previous_minimum


def start_reassignment(
    partition: PartitionState,
    target: tuple[int, ...],
    is_registered: Callable[[int], bool],
    context: ChangeContext,
) -> r.PartitionChange | None:
    """Aim at `target`; None when it is in force already. Raises ReassignmentError."""
    reassignment.check_target(target, is_registered)
    started = reassignment.start(reassignment.assignment_of(partition), target)
    wanted = WantedChange(
        target_replicas=started.replicas,
        target_adding=started.adding,
        target_removing=started.removing,
    )
    return build_change(partition, wanted, context)


def cancel_reassignment(
    partition: PartitionState, context: ChangeContext
) -> r.PartitionChange | None:
    """Return to the replicas from before. Raises ReassignmentError."""
    reassignment.check_in_progress(partition)
    original = reassignment.cancel(reassignment.assignment_of(partition))
    isr = only(partition.isr, original.replicas)
    inputs = present_inputs(partition, context)._replace(replicas=original.replicas, isr=isr)
    if gives_up_all_holders(inputs) and not may_give_up_holders(original, context):
        raise ReassignmentError(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"only added replicas are in sync ({list(partition.isr + partition.elr)}): wait for"
            f" one of {list(original.replicas)}, or allow unclean election while one is active",
        )
    wanted = WantedChange(
        target_isr=isr, target_replicas=original.replicas, target_adding=(), target_removing=()
    )
    return build_change(partition, wanted, context)


def gives_up_all_holders(inputs: ElrInputs) -> bool:
    """Would nobody be left of those who surely hold every committed record?"""
    before = inputs.partition
    return bool(before.isr or before.elr) and not inputs.isr and not elr.next_elr(inputs)


def may_give_up_holders(original: Assignment, context: ChangeContext) -> bool:
    """That is an unclean choice, and pointless unless somebody can lead with what is left."""
    return context.unclean_allowed and any(map(context.is_acceptable, original.replicas))


def new_partition(
    topic_id: bytes, partition: int, replicas: tuple[int, ...], is_active: Callable[[int], bool]
) -> r.Partition:
    """A partition is born with its active replicas in sync: an empty log lacks nothing."""
    isr = tuple(replica for replica in replicas if is_active(replica))
    if not isr:
        raise PlacementError(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"no broker of {list(replicas)} is active, partition {partition} could not be led",
        )
    assert len(set(replicas)) == len(replicas), f"{replicas} repeats a broker"
    return r.Partition(partition, topic_id, replicas, isr, leader=isr[0])


def wanted_sets(
    partition: PartitionState, wanted: WantedChange
) -> tuple[Assignment, tuple[int, ...]]:
    current = reassignment.assignment_of(partition)
    assignment = Assignment(
        current.replicas if wanted.target_replicas is None else wanted.target_replicas,
        current.adding if wanted.target_adding is None else wanted.target_adding,
        current.removing if wanted.target_removing is None else wanted.target_removing,
    )
    isr = partition.isr if wanted.target_isr is None else wanted.target_isr
    for member in isr:
        assert member in assignment.replicas, f"ISR {isr} is not part of {assignment.replicas}"
    return assignment, elr.without_uncleanly_restarted(isr, wanted.uncleanly_restarted)


def present_inputs(partition: PartitionState, context: ChangeContext) -> ElrInputs:
    return ElrInputs(
        partition,
        partition.replicas,
        partition.isr,
        (),
        context.min_insync_replicas,
        context.elr_enabled,
    )


def ballot_for(inputs: ElrInputs, context: ChangeContext) -> Ballot:
    before = inputs.partition
    return Ballot(
        inputs.replicas,
        inputs.isr,
        elr.next_elr(inputs),
        before.leader,
        before.last_known_elr,
        context.elr_enabled,
        context.unclean_allowed,
        context.is_acceptable,
    )


def isr_after_election(inputs: ElrInputs, elected: Elected) -> tuple[int, ...]:
    """A leader from outside the ISR is all that is in sync with itself. Without a leader and
    without ELR the last member keeps its seat, or nobody could ever be elected cleanly."""
    if elected.leader != NO_LEADER:
        return inputs.isr if elected.leader in inputs.isr else (elected.leader,)
    if inputs.isr or inputs.elr_enabled:
        return inputs.isr
    return only(inputs.partition.isr, inputs.replicas)


def needs_new_leader_epoch(partition: PartitionState, draft: Draft) -> bool:
    """kraft.md §6.3. An ISR change alone needs none (KAFKA-15021)."""
    return draft.elected.leader != partition.leader or reassignment.drops_a_replica(
        partition.replicas, draft.assignment.replicas
    )


def next_recovery_state(partition: PartitionState, wanted: WantedChange, elected: Elected) -> int:
    """An unclean leader has to look at what it has before others may rely on it (KIP-704)."""
    if elected.unclean:
        return r.RECOVERING
    if wanted.leader_recovery_state is not None:
        return wanted.leader_recovery_state
    return partition.leader_recovery_state


def record_of(
    partition: PartitionState, wanted: WantedChange, draft: Draft
) -> r.PartitionChange | None:
    bump = needs_new_leader_epoch(partition, draft)
    recovery_state = next_recovery_state(partition, wanted, draft.elected)
    restate_isr = wanted.new_partition_epoch or draft.isr != partition.isr
    record = r.PartitionChange(
        partition.id.partition,
        partition.id.topic_id,
        isr=draft.isr if restate_isr else None,
        leader=draft.elected.leader if bump else r.LEADER_UNCHANGED,
        replicas=changed(partition.replicas, draft.assignment.replicas),
        removing_replicas=changed(partition.removing_replicas, draft.assignment.removing),
        adding_replicas=changed(partition.adding_replicas, draft.assignment.adding),
        leader_recovery_state=changed(partition.leader_recovery_state, recovery_state),
        elr=changed(partition.elr, draft.elr),
        last_known_elr=changed(partition.last_known_elr, draft.last_known_elr),
    )
    empty = r.PartitionChange(partition.id.partition, partition.id.topic_id)
    return None if record == empty else record


def changed(before: T, after: T) -> T | None:
    return None if before == after else after


def without_broker(context: ChangeContext, broker: int) -> ChangeContext:
    acceptable = context.is_acceptable
    return context._replace(is_acceptable=lambda other: other != broker and acceptable(other))
