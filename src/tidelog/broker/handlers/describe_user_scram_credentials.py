"""DescribeUserScramCredentials (50): who has a password, and for which mechanisms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.core.errors import Error
from tidelog.core.security.decoys import DECOY_USER
from tidelog.wire.protocol.schemas.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from tidelog.wire.protocol.schemas.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.rpc import Call

MISSING = "no such user: "
TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request: "


def handle(metadata: LocalMetadata, call: Call) -> None:
    request = call.request
    assert isinstance(request, DescribeUserScramCredentialsRequest), request
    known = infos_by_user(metadata)
    asked = Counter(each.name for each in request.users or ())
    results = [
        result_of(user, known.get(user, []), times)
        for user, times in (asked or everybody(known)).items()
    ]
    call.answer(DescribeUserScramCredentialsResponse(results=results))


def everybody(known: Iterable[str]) -> dict[str, int]:
    """Each once. The secret for decoys is nobody; whoever asks for it by name is told of it."""
    return {user: 1 for user in known if user != DECOY_USER}


def infos_by_user(metadata: LocalMetadata) -> dict[str, list[CredentialInfo]]:
    found: dict[str, list[CredentialInfo]] = {}
    for (mechanism, user), credential in sorted(metadata.image.scram_credentials.items()):
        info = CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
        found.setdefault(user, []).append(info)
    return found


def result_of(
    user: str, infos: list[CredentialInfo], times: int
) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return DescribeUserScramCredentialsResult(
            user=user, error_code=Error.DUPLICATE_RESOURCE, error_message=TWICE + user
        )
    if not infos:
        return DescribeUserScramCredentialsResult(
            user=user, error_code=Error.RESOURCE_NOT_FOUND, error_message=MISSING + user
        )
    return DescribeUserScramCredentialsResult(user=user, credential_infos=infos)
