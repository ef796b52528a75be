"""Which users may ask a secured node over HTTP, and for what.

| request | from this machine | from elsewhere |
|---|---|---|
| reading | anybody, unless `tidelog.http.loopback.open=false` | DESCRIBE on the cluster |
| /chaos, everything that changes something | ALTER on the cluster | ALTER on the cluster |

A login is a bearer token, the name and password of a SCRAM user, or a client certificate. The rules
are those of the node's authorizer; without one, every user who has logged in may do everything.
"""

import logging
from base64 import b64decode
from binascii import Error as Base64Error
from http import HTTPStatus
from typing import NamedTuple, NoReturn

from tidelog.config.security import HTTP
from tidelog.core.security.acls import CLUSTER_NAME, Operation, ResourceType
from tidelog.core.security.certificates import CertificateError, read_certificate
from tidelog.core.security.principal import ANONYMOUS, USER, Principal
from tidelog.core.security.principal_rules import user_name
from tidelog.core.security.sasl import LONGEST_LOGIN_BYTES, WRONG, LoginFailed
from tidelog.host.timers import pause
from tidelog.node.node import Node
from tidelog.node.passwords import Passwords
from tidelog.observe.http import CHAOS
from tidelog.observe.http_server import BadRequest, Request, is_local
from tidelog.rpc.authorization.gate import Refusal
from tidelog.rpc.caller import Caller

PATHS = ("/metrics", "/events", "/healthz", "/state", CHAOS)
"""What refusals name; anything else is anybody's invention."""
GUESSES_MAX, GUESSES_MS = 10, 60_000
"""Logins that may fail from one address within that time. After that even the right one waits,
unless it was right before."""
ADDRESSES_MAX = 1_000

_LOGGER = logging.getLogger("tidelog.http")


class Guessing(NamedTuple):
    since_ms: int
    failures: int


class NodeHttpAccess:
    """Implements `observe.http.HttpAccess`."""

    __slots__ = (
        "_guessing",
        "_host",
        "_node",
        "_passwords",
        "_security",
        "_verify",
        "failed",
        "succeeded",
    )

    def __init__(self, node: Node) -> None:
        host = node.host
        self._node = node
        self._host = host
        self._security = node.config.security.http
        self._verify = node.security.token_verifier(HTTP)
        self._passwords = Passwords(
            node.credential, host.entropy, lambda: host.make_workers("http-logins", 1)
        )
        self._guessing: dict[str, Guessing] = {}
        """By address, longest first."""
        self.succeeded = 0
        self.failed = 0

    def close(self) -> None:
        self._passwords.close()

    def is_stranger(self, request: Request) -> bool:
        shows_nothing = "authorization" not in request.headers and request.certificate is None
        return shows_nothing and not self._is_trusted_place(request)

    async def admit(self, request: Request) -> None:
        changes = request.method != "GET" or request.path == CHAOS
        operation = Operation.ALTER if changes else Operation.DESCRIBE
        if not changes and self._is_trusted_place(request):
            return
        principal = await self._principal(request, operation)
        gate = self._node.gate
        if gate is None or gate.authorizer.allows(
            principal, request.peer, operation, ResourceType.CLUSTER, CLUSTER_NAME
        ):
            return
        self._tell(request, principal, operation)
        reason = f"{principal} may not {operation.name} the cluster"
        raise BadRequest(HTTPStatus.FORBIDDEN, reason)

    def _is_trusted_place(self, request: Request) -> bool:
        return self._security.loopback_is_open and is_local(request.peer)

    # ---- logins

    async def _principal(self, request: Request, operation: Operation) -> Principal:
        shown = request.headers.get("authorization")
        if shown is None and request.certificate is not None:
            return self._owner_of(request.certificate)
        if shown is None:
            self._tell(request, ANONYMOUS, operation)
            raise self._unauthorized("a login is needed: the name and password of a user")
        began_ms = self._host.now_ms()
        try:
            user = await self._user_of(shown, request.peer)
        except LoginFailed as failed:
            await self._refuse(request, failed, operation, began_ms)
        self.succeeded += 1
        return Principal(USER, user)

    async def _user_of(self, shown: str, address: str) -> str:
        """By what the header `Authorization` has; LoginFailed if it is worth nothing."""
        scheme, _, value = shown.partition(" ")
        if scheme.lower() != "basic":
            self._refuse_guesser(address)
            if scheme.lower() == "bearer" and self._verify is not None:
                return self._verify(value.strip()).user
            raise LoginFailed(f"no login with {scheme[:20]!r} here")
        user, password = parse_basic(value.strip())
        if self._passwords.knows(user, password):
            return user
        self._refuse_guesser(address)
        if await self._passwords.fits(user, password):
            return user
        if not self._node.ready:
            reason = "this node does not know the users of the cluster yet"
            raise BadRequest(HTTPStatus.SERVICE_UNAVAILABLE, reason)
        raise LoginFailed(WRONG, user=user)

    def _owner_of(self, certificate: bytes) -> Principal:
        try:
            name = user_name(self._security.rules, read_certificate(certificate).subject)
        except CertificateError as reason:
            raise self._unauthorized(str(reason)) from None
        if not name:
            raise self._unauthorized("no rule of ssl.principal.mapping.rules has a user for it")
        return Principal(USER, name)

    # ---- refusals

    async def _refuse(
        self, request: Request, failed: LoginFailed, operation: Operation, began_ms: int
    ) -> NoReturn:
        """At a time that does not tell what was found out."""
        self.failed += 1
        self._count_guess(request.peer)
        self._tell(request, ANONYMOUS, operation)
        who = f"as {failed.user[:80]!r} " if failed.user else ""
        _LOGGER.warning("login %sfrom %s refused: %s", who, request.peer, failed.reason)
        left_ms = began_ms + self._security.failed_delay_ms - self._host.now_ms()
        if left_ms > 0:
            await pause(self._host.timers, left_ms)
        raise self._unauthorized(str(failed))

    def _unauthorized(self, reason: str) -> BadRequest:
        challenges = ['Basic realm="tidelog", charset="UTF-8"']
        if self._verify is not None:
            challenges.append('Bearer realm="tidelog"')
        headers = tuple(("WWW-Authenticate", each) for each in challenges)
        return BadRequest(HTTPStatus.UNAUTHORIZED, reason, headers)

    def _tell(self, request: Request, principal: Principal, operation: Operation) -> None:
        path = request.path if request.path in PATHS else "of another path"
        caller = Caller(HTTP, request.peer, principal)
        self._node.refusals.on_refused(
            Refusal(
                caller,
                f"HTTP {request.method} {path}",
                operation,
                ResourceType.CLUSTER,
                CLUSTER_NAME,
            )
        )

    def _refuse_guesser(self, address: str) -> None:
        known = self._guessing.get(address)
        if known is None or known.failures < GUESSES_MAX:
            return
        left_ms = known.since_ms + GUESSES_MS - self._host.now_ms()
        if left_ms > 0:
            reason = f"{known.failures} logins from {address} failed within a minute"
            headers = (("Retry-After", str(left_ms // 1000 + 1)),)
            raise BadRequest(HTTPStatus.TOO_MANY_REQUESTS, reason, headers)

    def _count_guess(self, address: str) -> None:
        now_ms = self._host.now_ms()
        known = self._guessing.pop(address, None)
        if known is None or now_ms - known.since_ms >= GUESSES_MS:
            known = Guessing(now_ms, 0)
        if len(self._guessing) >= ADDRESSES_MAX:
            del self._guessing[next(iter(self._guessing))]
        self._guessing[address] = known._replace(failures=known.failures + 1)


def parse_basic(value: str) -> tuple[str, str]:
    """LoginFailed unless it is a name and a password (RFC 7617)."""
    try:
        user, colon, password = b64decode(value, validate=True).decode("utf-8").partition(":")
    except (Base64Error, UnicodeDecodeError):
        raise LoginFailed("the login is no base64 of UTF-8") from None
    if not colon or not user or max(len(user), len(password)) > LONGEST_LOGIN_BYTES:
        raise LoginFailed("a login is a name, a colon and a password")
    return user, password
