"""How the console says no: an error, and what to try instead."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import JSONResponse, Response


class Refused(Exception):  # noqa: N818 - what it is, not an accident of ours
    """The request is answered with a status, a reason and advice."""

    def __init__(self, status: int, error: str, advice: str = "") -> None:
        super().__init__(error)
        self.status = status
        self.advice = advice


def bad_input(error: str, advice: str = "") -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, error, advice)


def refusal_response(status: int, error: str, advice: str = "") -> JSONResponse:
    return JSONResponse({"error": error, "try": advice}, status)


async def on_refused(_: Request, reason: Exception) -> Response:
    assert isinstance(reason, Refused), reason
    return refusal_response(reason.status, str(reason), reason.advice)
