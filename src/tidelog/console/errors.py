"""What goes wrong between the console and a cluster, as answers with a reason and advice."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from tidelog.client import ClusterUnreachable, KafkaError
from tidelog.console.refusal import refusal_response
from tidelog.core.errors import Error
from tidelog.survey.refusal import NotPossible

FORBIDDEN = frozenset(
    (
        Error.TOPIC_AUTHORIZATION_FAILED,
        Error.GROUP_AUTHORIZATION_FAILED,
        Error.CLUSTER_AUTHORIZATION_FAILED,
        Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
)
NOT_FOUND = frozenset((Error.UNKNOWN_TOPIC_OR_PARTITION, Error.GROUP_ID_NOT_FOUND))
TRY_AGAIN = "tidelog cluster health"


async def on_kafka_error(_: Request, reason: Exception) -> Response:
    assert isinstance(reason, KafkaError), reason
    words = f"{reason.label}: {reason.message}" if reason.message else reason.label
    if reason.error in FORBIDDEN:
        return refusal_response(HTTPStatus.FORBIDDEN, words, "ask an administrator for an ACL")
    if reason.error in NOT_FOUND:
        return refusal_response(HTTPStatus.NOT_FOUND, words, "look at the list of them")
    if reason.is_passing:
        return refusal_response(HTTPStatus.SERVICE_UNAVAILABLE, words, TRY_AGAIN)
    return refusal_response(HTTPStatus.BAD_REQUEST, words, TRY_AGAIN)


async def on_unreachable(_: Request, reason: Exception) -> Response:
    return refusal_response(HTTPStatus.BAD_GATEWAY, str(reason), "tidelog ps")


async def on_not_possible(_: Request, reason: Exception) -> Response:
    assert isinstance(reason, NotPossible), reason
    status = HTTPStatus.BAD_REQUEST if reason.is_usage else HTTPStatus.CONFLICT
    return refusal_response(status, f"{reason.what}: {reason.why}", reason.advice)


HANDLERS = {
    KafkaError: on_kafka_error,
    ClusterUnreachable: on_unreachable,
    NotPossible: on_not_possible,
}
