"""DescribeAcls, CreateAcls and DeleteAcls (29, 30, 31): there is no authorizer, and so no ACLs.

Kafka's tools ask anyway. They are told so in the words of a Kafka without an authorizer, which
they understand, and not by a closed connection, which they take for a network problem.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.errors import Error
from tidelog.wire.protocol.schemas.create_acls_request import CreateAclsRequest
from tidelog.wire.protocol.schemas.create_acls_response import (
    AclCreationResult,
    CreateAclsResponse,
)
from tidelog.wire.protocol.schemas.delete_acls_request import DeleteAclsRequest
from tidelog.wire.protocol.schemas.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsResponse,
)
from tidelog.wire.protocol.schemas.describe_acls_response import DescribeAclsResponse

if TYPE_CHECKING:
    from tidelog.rpc import Call

ERROR = Error.SECURITY_DISABLED
REASON = "Tidelog has no authorizer: there are no ACLs, and everybody may do everything"


def describe(call: Call) -> None:
    call.answer(DescribeAclsResponse(error_code=ERROR, error_message=REASON))


def create(call: Call) -> None:
    request = call.request
    assert isinstance(request, CreateAclsRequest), request
    results = [AclCreationResult(error_code=ERROR, error_message=REASON) for _ in request.creations]
    call.answer(CreateAclsResponse(results=results))


def delete(call: Call) -> None:
    request = call.request
    assert isinstance(request, DeleteAclsRequest), request
    results = [
        DeleteAclsFilterResult(error_code=ERROR, error_message=REASON) for _ in request.filters
    ]
    call.answer(DeleteAclsResponse(filter_results=results))
