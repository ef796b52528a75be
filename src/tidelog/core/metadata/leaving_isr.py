"""A replica asks to leave the in-sync set: its disk is full, or its copy is damaged (ADR 0035).

It sends an AlterPartition whose ISR is the present one without itself. Leaders of Kafka never
send that, and a follower's proposal is refused there, so nothing else looks like it. A follower
just leaves; a leader leaves only if another member can lead, which is then elected cleanly. The
last member stays: it holds what is committed, and refusing writes is all that it can do.

The replica keeps its log, so it may stay eligible (ELR) where the ISR becomes too small.
"""

from tidelog.core.errors import Error
from tidelog.core.metadata import partition_change
from tidelog.core.metadata.image import MetadataImage, PartitionState
from tidelog.core.metadata.partition_change import ChangeContext
from tidelog.core.metadata.records import PartitionChange
from tidelog.core.requests import IsrProposal


def leaves_out_its_sender(broker: int, proposal: IsrProposal) -> bool:
    return all(member.broker_id != broker for member in proposal.isr)


def judge_leave(
    image: MetadataImage, broker: int, proposal: IsrProposal, partition: PartitionState
) -> Error:
    """`NONE`: it may leave. The epochs of the proposal have been compared already."""
    if not asks_for_the_rest(broker, proposal, partition):
        return Error.INVALID_REQUEST
    if broker == partition.leader and not another_can_lead(image, broker, partition):
        return Error.ELIGIBLE_LEADERS_NOT_AVAILABLE
    return Error.NONE


def asks_for_the_rest(broker: int, proposal: IsrProposal, partition: PartitionState) -> bool:
    """Nobody else joins or leaves by this way, and the last member stays."""
    rest = {member for member in partition.isr if member != broker}
    asked = [member.broker_id for member in proposal.isr]
    return broker in partition.isr and bool(rest) and set(asked) == rest and len(asked) == len(rest)


def another_can_lead(image: MetadataImage, broker: int, partition: PartitionState) -> bool:
    """In sync and active: whoever is elected holds every committed record."""
    return any(member != broker and image.is_active(member) for member in partition.isr)


def leave(partition: PartitionState, broker: int, context: ChangeContext) -> PartitionChange | None:
    assert broker in partition.isr, (broker, partition.isr)
    change = partition_change.leave_isr(partition, broker, context)
    assert change is None or change.leader != broker, change
    return change
