"""AlterPartitionReassignments: start, redirect or cancel the move of one partition (§6.5)."""

from tidelog.core.errors import Error
from tidelog.core.metadata import partition_change, reassignment
from tidelog.core.metadata.contexts import Contexts
from tidelog.core.metadata.decision import Decision, View
from tidelog.core.metadata.refusal import ReassignmentError
from tidelog.core.requests import AdminResponse, AlterReassignmentRequest


def decide_reassignment(view: View, request: AlterReassignmentRequest) -> Decision:
    partition = view.image.partition(request.partition)
    if partition is None:
        return Decision(
            AdminResponse(
                Error.UNKNOWN_TOPIC_OR_PARTITION, f"no partition {request.partition.partition}"
            )
        )
    context = Contexts(view).of(partition)
    try:
        if request.replicas is None:
            change = partition_change.cancel_reassignment(partition, context)
        else:
            if not request.may_change_replication_factor:
                reassignment.check_replication_factor(partition, request.replicas)
            change = partition_change.start_reassignment(
                partition, request.replicas, view.image.brokers.__contains__, context
            )
    except ReassignmentError as refused:
        return Decision(AdminResponse(refused.error, refused.reason))
    return Decision(AdminResponse(Error.NONE), () if change is None else (change,))
