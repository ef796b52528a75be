"""CreateAcls (30) and DeleteAcls (31): create and delete access rules."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.controller.handlers.items import said
from tidelog.controller.open_request import Refused, Step, expect
from tidelog.core.errors import Error
from tidelog.core.requests import (
    AdminResponse,
    ControllerResponse,
    DeleteAclsResponse,
)
from tidelog.core.requests import (
    CreateAclsRequest as CreateTogether,
)
from tidelog.core.requests import DeleteAclsRequest as DeleteMatching
from tidelog.core.security.acls import Acl, AclFilter, misfit_of_new
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas import create_acls_response, delete_acls_response
from tidelog.wire.protocol.schemas.create_acls_request import AclCreation, CreateAclsRequest
from tidelog.wire.protocol.schemas.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController

DISABLED = "No Authorizer is configured."


def create(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, CreateAclsRequest), request

    def result(error: int, message: str) -> create_acls_response.AclCreationResult:
        return create_acls_response.AclCreationResult(error_code=error, error_message=said(message))

    acls = [acl_of(each) for each in request.creations]
    misfits = [misfit_of_new(acl) for acl in acls]

    def finish(responses: Sequence[ControllerResponse]) -> None:
        told = [expect(each, AdminResponse) for each in responses]
        reasons = iter(told)
        results = [result(*(told[-1] if fits is None else next(reasons))) for fits in misfits]
        call.answer(create_acls_response.CreateAclsResponse(results=results))

    if not controller.facts.has_authorizer:
        refused = [result(Error.SECURITY_DISABLED, DISABLED)] * len(request.creations)
        call.answer(create_acls_response.CreateAclsResponse(results=refused))
        return
    steps: list[Step] = [
        Refused(AdminResponse(Error.INVALID_REQUEST, reason))
        for reason in misfits
        if reason is not None
    ]
    fitting = tuple(acl for acl, reason in zip(acls, misfits, strict=True) if reason is None)
    if fitting:
        steps.append(CreateTogether(fitting))
    controller.ask(call, steps, finish)


def acl_of(given: AclCreation) -> Acl:
    return Acl(
        given.resource_type,
        given.resource_name,
        given.resource_pattern_type,
        given.principal,
        given.host,
        given.operation,
        given.permission_type,
    )


def delete(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, DeleteAclsRequest), request

    def answer(error: int, message: str, removed: Sequence[Sequence[Acl]]) -> None:
        results = [
            delete_acls_response.DeleteAclsFilterResult(
                error_code=error,
                error_message=said(message),
                matching_acls=[match_of(acl) for acl in (removed[number] if removed else ())],
            )
            for number in range(len(request.filters))
        ]
        call.answer(delete_acls_response.DeleteAclsResponse(filter_results=results))

    def finish(responses: Sequence[ControllerResponse]) -> None:
        answer(*expect(responses[0], DeleteAclsResponse))

    if not controller.facts.has_authorizer:
        answer(Error.SECURITY_DISABLED, DISABLED, ())
        return
    filters = tuple(filter_of(each) for each in request.filters)
    controller.ask(call, [DeleteMatching(filters)], finish)


def filter_of(given: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        given.resource_type_filter,
        given.resource_name_filter,
        given.pattern_type_filter,
        given.principal_filter,
        given.host_filter,
        given.operation,
        given.permission_type,
    )


def match_of(acl: Acl) -> delete_acls_response.DeleteAclsMatchingAcl:
    return delete_acls_response.DeleteAclsMatchingAcl(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
