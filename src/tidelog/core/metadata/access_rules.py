"""CreateAcls and DeleteAcls: access rules come and go."""

from collections.abc import Callable

from tidelog.core.errors import Error
from tidelog.core.metadata.decision import Decision, View
from tidelog.core.metadata.records import AccessControlEntry, RemoveAccessControlEntry
from tidelog.core.requests import (
    AdminResponse,
    CreateAclRequest,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tidelog.core.security.acls import misfit_of_filter, misfit_of_new


def decide_create_acl(
    view: View, request: CreateAclRequest, make_uuid: Callable[[], bytes]
) -> Decision:
    """A rule that is there already is not made twice, and that is no error."""
    reason = misfit_of_new(request.acl)
    if reason is not None:
        return Decision(AdminResponse(Error.INVALID_REQUEST, reason))
    if any(acl == request.acl for acl in view.image.acls.values()):
        return Decision(AdminResponse(Error.NONE))
    acl_id = make_uuid()
    while acl_id in view.image.acls:
        acl_id = make_uuid()
    return Decision(AdminResponse(Error.NONE), (AccessControlEntry(acl_id, request.acl),))


def decide_delete_acls(view: View, request: DeleteAclsRequest) -> Decision:
    """Every filter of a request looks at the rules as they were before it."""
    for wanted in request.filters:
        reason = misfit_of_filter(wanted)
        if reason is not None:
            return Decision(DeleteAclsResponse(Error.INVALID_REQUEST, reason))
    found = [
        tuple(acl_id for acl_id, acl in view.image.acls.items() if wanted.matches(acl))
        for wanted in request.filters
    ]
    doomed = dict.fromkeys(acl_id for ids in found for acl_id in ids)
    limit = view.settings.max_records_per_batch
    if len(doomed) > limit:
        reason = f"{len(doomed)} rules match, {limit} can be removed at once: narrow the filters"
        return Decision(DeleteAclsResponse(Error.INVALID_REQUEST, reason))
    removed = tuple(tuple(view.image.acls[acl_id] for acl_id in ids) for ids in found)
    assert len(removed) == len(request.filters), (len(removed), len(request.filters))
    records = tuple(RemoveAccessControlEntry(acl_id) for acl_id in doomed)
    return Decision(DeleteAclsResponse(Error.NONE, removed=removed), records)
