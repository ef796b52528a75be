"""AlterPartition: a leader proposes a new in-sync set (kraft.md §6.4), or a member leaves it.

The checks run in the order of the table, and the first that fails is the answer. Each rule
is a function of its own. Together they keep a leader that no longer leads, or one that
looks at old metadata, from changing the set a clean election chooses from.
"""

from typing import NamedTuple

from tidelog.core.errors import Error
from tidelog.core.metadata import leaving_isr, partition_change
from tidelog.core.metadata.contexts import Contexts
from tidelog.core.metadata.decision import Decision, View, sender
from tidelog.core.metadata.image import BrokerRegistration, MetadataImage, PartitionState
from tidelog.core.metadata.partition_change import WantedChange
from tidelog.core.metadata.records import (
    LEADER_UNCHANGED,
    RECOVERED,
    RECOVERING,
    MetadataRecord,
    PartitionChange,
)
from tidelog.core.requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrMember,
    IsrProposal,
    IsrResult,
)
from tidelog.core.types import PartitionId


class ProposalOutcome(NamedTuple):
    result: IsrResult
    change: PartitionChange | None = None


def decide_alter_partition(view: View, request: AlterPartitionRequest) -> Decision:
    if sender(view.image, request.broker_id, request.broker_epoch) is None:
        return Decision(AlterPartitionResponse(Error.STALE_BROKER_EPOCH))
    results: list[IsrResult] = []
    records: list[MetadataRecord] = []
    answered: dict[PartitionId, None] = {}
    contexts = Contexts(view)
    for proposal in request.proposals:
        if proposal.partition in answered:
            # The second would be judged by a state that the first has already changed.
            results.append(IsrResult(proposal.partition, Error.INVALID_REQUEST))
            continue
        answered[proposal.partition] = None
        outcome = decide_proposal(view, request.broker_id, proposal, contexts)
        results.append(outcome.result)
        if outcome.change is not None:
            records.append(outcome.change)
    return Decision(AlterPartitionResponse(Error.NONE, tuple(results)), tuple(records))


def decide_proposal(
    view: View, broker: int, proposal: IsrProposal, contexts: Contexts
) -> ProposalOutcome:
    image = view.image
    error = judge_proposal(image, broker, proposal)
    if error is Error.INELIGIBLE_REPLICA:
        change = outdate_copies(view, proposal, contexts)
        return ProposalOutcome(IsrResult(proposal.partition, error), change)
    if error is not Error.NONE:
        return ProposalOutcome(IsrResult(proposal.partition, error))
    partition = image.partition(proposal.partition)
    assert partition is not None, proposal.partition
    if leaving_isr.leaves_out_its_sender(broker, proposal):
        change = leaving_isr.leave(partition, broker, contexts.of(partition))
        return ProposalOutcome(IsrResult(proposal.partition, Error.NONE), change)
    wanted = WantedChange(
        target_isr=tuple(member.broker_id for member in proposal.isr),
        leader_recovery_state=proposal.leader_recovery_state,
    )
    change = partition_change.build_change(partition, wanted, contexts.of(partition))
    if change is not None and change.leader not in (LEADER_UNCHANGED, broker):
        # It completed a reassignment that leaves the proposer out (T24): the record is written
        # and still the answer is an error, so that the proposer waits for its metadata.
        return ProposalOutcome(IsrResult(proposal.partition, Error.NEW_LEADER_ELECTED), change)
    return ProposalOutcome(result_after(partition, change), change)


def outdate_copies(view: View, proposal: IsrProposal, contexts: Contexts) -> PartitionChange | None:
    """The ISR as it is, under a new partition epoch.

    The leader takes this refusal as proof that its proposal will never be applied, and stops
    waiting for the replica. But a copy of the request may still be on its way, sent before a
    reconnect, and the replica may be eligible again by the time it arrives: it would join the
    ISR without what was committed in between. With a new partition epoch every copy is old.
    """
    partition = view.image.partition(proposal.partition)
    assert partition is not None, proposal.partition
    wanted = WantedChange(new_partition_epoch=True)
    return partition_change.build_change(partition, wanted, contexts.of(partition))


def judge_proposal(image: MetadataImage, broker: int, proposal: IsrProposal) -> Error:
    """The table of §6.4 in its order. `NONE`: the proposal may be carried out."""
    if proposal.partition.topic_id not in image.topics:
        return Error.UNKNOWN_TOPIC_ID
    partition = image.partition(proposal.partition)
    if partition is None:
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    if knows_more_than_we_do(proposal, partition):
        return Error.NOT_CONTROLLER
    if leader_epoch_is_old(proposal, partition):
        return Error.FENCED_LEADER_EPOCH
    if leaving_isr.leaves_out_its_sender(broker, proposal):
        if partition_epoch_is_old(proposal, partition):
            return Error.INVALID_UPDATE_VERSION
        return leaving_isr.judge_leave(image, broker, proposal, partition)
    if broker != partition.leader:
        return Error.INVALID_REQUEST
    if partition_epoch_is_old(proposal, partition):
        return Error.INVALID_UPDATE_VERSION
    if not is_possible_isr(proposal, partition):
        return Error.INVALID_REQUEST
    if not is_possible_recovery(proposal, partition):
        return Error.INVALID_REQUEST
    if not all(is_eligible(image.brokers.get(member.broker_id), member) for member in proposal.isr):
        return Error.INELIGIBLE_REPLICA
    return Error.NONE


def knows_more_than_we_do(proposal: IsrProposal, partition: PartitionState) -> bool:
    """An epoch we never gave out: another controller did, and we have been replaced."""
    return (
        proposal.leader_epoch > partition.leader_epoch
        or proposal.partition_epoch > partition.partition_epoch
    )


def leader_epoch_is_old(proposal: IsrProposal, partition: PartitionState) -> bool:
    return proposal.leader_epoch < partition.leader_epoch


def partition_epoch_is_old(proposal: IsrProposal, partition: PartitionState) -> bool:
    """Compare and set: a proposal made from an older state would silently undo a newer one."""
    return proposal.partition_epoch < partition.partition_epoch


def is_possible_isr(proposal: IsrProposal, partition: PartitionState) -> bool:
    members = [member.broker_id for member in proposal.isr]
    return (
        partition.leader in members
        and len(set(members)) == len(members)
        and all(member in partition.replicas for member in members)
    )


def is_possible_recovery(proposal: IsrProposal, partition: PartitionState) -> bool:
    """While a leader recovers from an unclean election it is alone, and recovery only ends."""
    if proposal.leader_recovery_state == RECOVERED:
        return True
    if proposal.leader_recovery_state != RECOVERING:
        return False
    return len(proposal.isr) == 1 and partition.leader_recovery_state == RECOVERING


def is_eligible(broker: BrokerRegistration | None, member: IsrMember) -> bool:
    """Only an active broker counts (KIP-841), and only the incarnation that caught up."""
    return broker is not None and broker.active and names_this_incarnation(member, broker)


def names_this_incarnation(member: IsrMember, broker: BrokerRegistration) -> bool:
    """A broker that lost its disk comes back under the same id with an empty log; the broker
    epoch the leader saw it fetch with tells the two apart (KIP-903). -1: not heard from yet."""
    return member.broker_epoch in (-1, broker.broker_epoch)


def result_after(partition: PartitionState, change: PartitionChange | None) -> IsrResult:
    """The state the leader may adopt as soon as the change is committed."""
    if change is None:
        return IsrResult(
            partition.id,
            Error.NONE,
            partition.leader,
            partition.leader_epoch,
            partition.isr,
            partition.leader_recovery_state,
            partition.partition_epoch,
        )
    recovery = change.leader_recovery_state
    return IsrResult(
        partition.id,
        Error.NONE,
        partition.leader,
        partition.leader_epoch + (change.leader != LEADER_UNCHANGED),
        partition.isr if change.isr is None else change.isr,
        partition.leader_recovery_state if recovery is None else recovery,
        partition.partition_epoch + 1,
    )
