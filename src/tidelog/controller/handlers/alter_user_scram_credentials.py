"""AlterUserScramCredentials (51): passwords of users, salted by the client."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.controller.handlers.items import said
from tidelog.controller.open_request import Step, expect
from tidelog.core.requests import AdminResponse, AlterScramRequest, ControllerResponse
from tidelog.core.security.scram import ScramCredential, ScramMechanism, credential_of
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from tidelog.wire.protocol.schemas.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController


def handle(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, AlterUserScramCredentialsRequest), request
    changes = changes_of(request)

    def finish(responses: Sequence[ControllerResponse]) -> None:
        results = []
        for user, response in zip(changes, responses, strict=True):
            error, message = expect(response, AdminResponse)
            results.append(
                AlterUserScramCredentialsResult(
                    user=user, error_code=error, error_message=said(message)
                )
            )
        call.answer(AlterUserScramCredentialsResponse(results=results))

    steps: list[Step] = [
        AlterScramRequest(user, tuple(changed)) for user, changed in changes.items()
    ]
    controller.ask(call, steps, finish)


def changes_of(
    request: AlterUserScramCredentialsRequest,
) -> dict[str, list[tuple[int, ScramCredential | None]]]:
    """By user: Kafka answers once for each, whatever is asked for him."""
    changes: dict[str, list[tuple[int, ScramCredential | None]]] = {}
    for removal in request.deletions:
        changes.setdefault(removal.name, []).append((removal.mechanism, None))
    for each in request.upsertions:
        changes.setdefault(each.name, []).append((each.mechanism, kept_of(each)))
    return changes


def kept_of(given: ScramCredentialUpsertion) -> ScramCredential:
    """Of a mechanism that is not known nothing can be derived, and the core refuses it."""
    salt, iterations = bytes(given.salt), given.iterations
    if given.mechanism not in tuple(ScramMechanism):
        return ScramCredential(salt, b"", b"", iterations)
    mechanism = ScramMechanism(given.mechanism)
    return credential_of(mechanism, bytes(given.salted_password), salt, iterations)
