"""DescribeAcls (29): the rules that a filter finds, by resource. The others are the controller's.

Without an authorizer there are none. Kafka's tools then get the same error as from a Kafka without
one, and not a closed connection, which they take for a network problem.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.errors import Error
from tidelog.core.security.acls import Acl, AclFilter, misfit_of_filter
from tidelog.rpc import admin_refusals
from tidelog.wire.protocol.schemas.create_acls_request import CreateAclsRequest
from tidelog.wire.protocol.schemas.delete_acls_request import DeleteAclsRequest
from tidelog.wire.protocol.schemas.describe_acls_request import DescribeAclsRequest
from tidelog.wire.protocol.schemas.describe_acls_response import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.rpc import Call


DISABLED = "No Authorizer is configured."


def no_authorizer(call: Call) -> None:
    """Serves all three."""
    request, error = call.request, Error.SECURITY_DISABLED
    if isinstance(request, CreateAclsRequest):
        call.answer(admin_refusals.create_acls(request, error, DISABLED))
    elif isinstance(request, DeleteAclsRequest):
        call.answer(admin_refusals.delete_acls(request, error, DISABLED))
    else:
        call.answer(DescribeAclsResponse(error_code=error, error_message=DISABLED))


def describe(metadata: LocalMetadata, call: Call) -> None:
    request = call.request
    assert isinstance(request, DescribeAclsRequest), request
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    misfit = misfit_of_filter(wanted)
    if misfit is not None:
        call.answer(DescribeAclsResponse(error_code=Error.INVALID_REQUEST, error_message=misfit))
        return
    found = [acl for acl in metadata.image.acls.values() if wanted.matches(acl)]
    call.answer(DescribeAclsResponse(resources=by_resource(found)))


def by_resource(acls: list[Acl]) -> list[DescribeAclsResource]:
    described: dict[tuple[int, str, int], list[AclDescription]] = {}
    for acl in acls:
        described.setdefault(acl[:3], []).append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
        )
    return [
        DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=how, acls=rules)
        for (kind, name, how), rules in described.items()
    ]
