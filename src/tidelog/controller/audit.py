"""The audit trail: one event for each request that changed something, with its principal."""

from collections.abc import Sequence

from tidelog.controller.open_request import Refused, Step
from tidelog.core import requests as q
from tidelog.core.errors import Error
from tidelog.core.events import AdministrativeChange
from tidelog.core.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from tidelog.rpc import Call
from tidelog.wire.protocol import API_BY_KEY

SHOWN = 3
"""Things of one request that are named; of the others it is told how many there are."""

OF_BROKERS = (
    q.RegisterBrokerRequest,
    q.HeartbeatRequest,
    q.AlterPartitionRequest,
    q.AllocateProducerIdsRequest,
)
"""What nodes do for themselves is told elsewhere."""


def change_of(
    call: Call, steps: Sequence[Step], responses: Sequence[q.ControllerResponse]
) -> AdministrativeChange | None:
    """None if nothing was changed."""
    done = [
        subject_of(step)
        for step, response in zip(steps, responses, strict=True)
        if not isinstance(step, Refused)
        and not isinstance(step, OF_BROKERS)
        and response.error == Error.NONE
        and not getattr(step, "validate_only", False)
    ]
    if not done:
        return None
    caller, api = call.caller, API_BY_KEY[call.header.api_key].name
    return AdministrativeChange(str(caller.principal), caller.host, api, shortened(done))


def shortened(things: Sequence[str]) -> str:
    more = f" and {len(things) - SHOWN} more" if len(things) > SHOWN else ""
    return ", ".join(things[:SHOWN]) + more


def subject_of(request: q.ControllerRequest) -> str:
    """Never a password or the value of a setting: some are secrets."""
    if isinstance(request, q.CreateTopicRequest | q.CreatePartitionsRequest):
        return f"topic {request.name}"
    if isinstance(request, q.DeleteTopicRequest):
        return f"topic {request.name or request.topic_id.hex()}"
    if isinstance(request, q.AlterConfigRequest):
        names = ", ".join(name for name, _ in request.changes)
        return f"{request.resource_name or 'the cluster'}: {names}"
    if isinstance(request, q.AlterScramRequest):
        return f"user {request.user}"
    if isinstance(request, q.CreateAclsRequest):
        return shortened([words_of(acl) for acl in request.acls])
    if isinstance(request, q.DeleteAclsRequest):
        return f"rules of {len(request.filters)} filters"
    if isinstance(request, q.AlterQuotaRequest):
        entity = " ".join(f"{kind} {name or 'default'}" for kind, name in request.entity)
        return f"{entity}: {', '.join(name for name, _ in request.changes)}"
    if isinstance(request, q.UpdateFeaturesRequest):
        return ", ".join(f"{name} {level}" for name, level in request.levels)
    if isinstance(request, q.AlterReassignmentRequest):
        topic_id, partition = request.partition
        return f"partition {partition} of topic {topic_id.hex()}"
    if isinstance(request, q.UnregisterBrokerRequest):
        return f"broker {request.broker_id}"
    return "leaders"


def words_of(acl: Acl) -> str:
    pattern = " prefix" if acl.pattern_type == PatternType.PREFIXED else ""
    kind = ResourceType(acl.resource_type).name.lower()
    return (
        f"{Permission(acl.permission).name} {acl.principal} {Operation(acl.operation).name}"
        f" {kind}{pattern} {acl.resource_name} from {acl.host}"
    )
