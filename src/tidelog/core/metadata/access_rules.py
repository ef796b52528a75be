"""CreateAcls and DeleteAcls: access rules come and go."""

from collections.abc import Callable

from tidelog.core.errors import Error
from tidelog.core.metadata.decision import Decision, View
from tidelog.core.metadata.records import AccessControlEntry, RemoveAccessControlEntry
from tidelog.core.requests import (
    AdminResponse,
    CreateAclsRequest,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tidelog.core.security.acls import misfit_of_filter, misfit_of_new


def decide_create_acls(
    view: View, request: CreateAclsRequest, make_uuid: Callable[[], bytes]
) -> Decision:
    """A rule that is there already is not made twice, and that is no error."""
    reasons = [reason for acl in request.acls if (reason := misfit_of_new(acl)) is not None]
    if reasons:
        return Decision(AdminResponse(Error.INVALID_REQUEST, reasons[0]))
    present = set(view.image.acls.values())
    missing = dict.fromkeys(acl for acl in request.acls if acl not in present)
    limit = view.settings.max_records_per_batch
    if len(missing) > limit:
        reason = f"{len(missing)} new rules, {limit} can be made at once"
        return Decision(AdminResponse(Error.INVALID_REQUEST, reason))
    records: dict[bytes, AccessControlEntry] = {}
    for acl in missing:
        acl_id = make_uuid()
        while acl_id in view.image.acls or acl_id in records:
            acl_id = make_uuid()
        records[acl_id] = AccessControlEntry(acl_id, acl)
    return Decision(AdminResponse(Error.NONE), tuple(records.values()))


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
