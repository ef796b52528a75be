"""What every request passes before it is looked at: who may ask at all, and what answers carry.

Anything on the machine can reach a loopback port, pages in a browser too (ADR 0019). A page comes
with its own origin, or by a name that its owner made point here; neither is let in. What changes
something needs a header that no foreign page can send. Off loopback everything needs the token.
"""

import hmac
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidelog.console.refusal import refusal_response
from tidelog.observe.http_server import is_local

TOKEN_COOKIE = "tidelog_token"  # noqa: S105 - its name
API = "/api/"
BODY_MAX_BYTES = 1024 * 1024 + 64 * 1024
POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
CHANGING = ("POST", "PUT", "PATCH", "DELETE")


class Guard:
    """ASGI middleware around the whole application."""

    __slots__ = ("_app", "_loopback", "_token")

    def __init__(self, app: ASGIApp, *, loopback: bool, token: str | None) -> None:
        assert loopback or token, "a console off loopback needs a token"
        self._app = app
        self._loopback = loopback
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = str(scope["path"])

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                add_headers(MutableHeaders(scope=message), path)
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        return self._of_strangers(headers) or self._without_token(scope, headers) or _body(headers)

    def _of_strangers(self, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            name = ""
        if self._loopback and not is_local(name):
            error = f"Host {name[:80]!r} is not a name of this machine"
            return refusal_response(HTTPStatus.MISDIRECTED_REQUEST, error, "use 127.0.0.1")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            error = f"pages of {origin[:80]!r} may not use this console"
            return refusal_response(HTTPStatus.FORBIDDEN, error, "open the console itself")
        return None

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        """Who opens the address that was printed is given a cookie for the pages that follow."""
        if self._token is None or self._has_token(headers):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        given = dict(query).get("token")
        path = str(scope["path"])
        if given is not None and is_same(given, self._token) and scope["method"] == "GET":
            rest = urlencode([each for each in query if each[0] != "token"])
            target = "/" + path.lstrip("/")
            answer = RedirectResponse(f"{target}?{rest}" if rest else target, 303)
            answer.set_cookie(TOKEN_COOKIE, given, httponly=True, samesite="strict")
            return answer
        error = "this console needs its token"
        return refusal_response(
            HTTPStatus.UNAUTHORIZED, error, "open the address that `tidelog console` printed"
        )

    def _has_token(self, headers: Headers) -> bool:
        assert self._token is not None, "no token is asked for"
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and is_same(given, self._token):
            return True
        return is_same(cookies_of(headers).get(TOKEN_COOKIE, ""), self._token)


def cookies_of(headers: Headers) -> Mapping[str, str]:
    return cookie_parser(headers.get("cookie", ""))


def is_same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode(), right.encode())


def _body(headers: Headers) -> Response | None:
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not (length.isascii() and length.isdigit()):
        error = "bodies need a Content-Length"
        return refusal_response(HTTPStatus.LENGTH_REQUIRED, error)
    if len(length) > 9 or int(length) > BODY_MAX_BYTES:
        error = f"bodies have at most {BODY_MAX_BYTES} bytes"
        return refusal_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error)
    return None


def add_headers(headers: MutableHeaders, path: str) -> None:
    headers["Content-Security-Policy"] = POLICY
    headers["X-Content-Type-Options"] = "nosniff"
    headers["X-Frame-Options"] = "DENY"
    headers["Referrer-Policy"] = "no-referrer"
    headers["Cross-Origin-Opener-Policy"] = "same-origin"
    if path.startswith(API):
        headers["Cache-Control"] = "no-store"
    else:
        headers["Cache-Control"] = "no-cache"  # asked again each time: a new version is seen
