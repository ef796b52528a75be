"""AlterUserScramCredentials: passwords of users come and go (KIP-554), with Kafka's refusals."""

from tidelog.core.errors import Error
from tidelog.core.metadata.decision import Decision, View
from tidelog.core.metadata.records import (
    MetadataRecord,
    RemoveUserScramCredential,
    UserScramCredential,
)
from tidelog.core.metadata.refusal import RefusedError
from tidelog.core.requests import AdminResponse, AlterScramRequest
from tidelog.core.security.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
)


class CredentialError(RefusedError):
    """This password cannot be set or removed."""


def decide_alter_scram(view: View, request: AlterScramRequest) -> Decision:
    """All changes of one user, or none."""
    try:
        records = tuple(
            record_of(view, request.user, mechanism, credential)
            for mechanism, credential in request.changes
        )
        mechanisms = [mechanism for mechanism, _ in request.changes]
        if len(set(mechanisms)) < len(mechanisms):
            reason = f"{request.user} is there twice with one mechanism"
            raise CredentialError(Error.DUPLICATE_RESOURCE, reason)
    except CredentialError as refused:
        return Decision(AdminResponse(refused.error, refused.reason))
    return Decision(AdminResponse(Error.NONE), records)


def record_of(
    view: View, user: str, mechanism: int, credential: ScramCredential | None
) -> MetadataRecord:
    if not user:
        raise CredentialError(Error.UNACCEPTABLE_CREDENTIAL, "a user needs a name")
    if mechanism not in tuple(ScramMechanism):
        raise CredentialError(
            Error.UNSUPPORTED_SASL_MECHANISM, f"{mechanism} is the number of no SCRAM mechanism"
        )
    if credential is None:
        if (mechanism, user) not in view.image.scram_credentials:
            reason = f"{user} has no credential to remove"
            raise CredentialError(Error.RESOURCE_NOT_FOUND, reason)
        return RemoveUserScramCredential(user, mechanism)
    if credential.iterations < MIN_ITERATIONS:
        raise CredentialError(
            Error.UNACCEPTABLE_CREDENTIAL, f"at least {MIN_ITERATIONS} iterations"
        )
    if credential.iterations > MAX_ITERATIONS:
        raise CredentialError(Error.UNACCEPTABLE_CREDENTIAL, f"at most {MAX_ITERATIONS} iterations")
    return UserScramCredential(user, mechanism, credential)
