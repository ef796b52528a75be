"""What goes wrong between the console and a cluster, as answers with a reason and advice."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from tidelog.client import KafkaError
from tidelog.client.batch_fetch import GarbledAnswer
from tidelog.client.errors import ClientError
from tidelog.console.refusal import refusal_response
from tidelog.core.errors import Error
from tidelog.host.ports import NetworkError
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


async def on_defect(_: Request, _reason: Exception) -> Response:
    error = "this failed in the console's own code"
    advice = "its log says where: console.log beside the data of the cluster"
    return refusal_response(HTTPStatus.INTERNAL_SERVER_ERROR, error, advice)


HANDLERS = {
    KafkaError: on_kafka_error,
    ClientError: on_unreachable,
    NetworkError: on_unreachable,
    GarbledAnswer: on_unreachable,
    Exception: on_defect,
    NotPossible: on_not_possible,
}
