"""Logins with SASL (KIP-43, KIP-152, KIP-368): a peer identifies itself before its first request.

    SaslHandshake      which mechanism
    SaslAuthenticate   once or more, the messages of that mechanism
    …                  everything else, for as long as the login holds

A stranger reaches ApiVersions and these two alone, in small frames, a few times, for a few seconds.
A login that failed is answered after a pause, and the connection ends. When a login has an end,
the client logs in again on the same connection before that; the principal stays the same.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from tidelog.core.security.principal import ANONYMOUS, USER, Principal
from tidelog.core.security.protocols import SaslSettings
from tidelog.core.security.sasl import LoggedIn, LoginFailed, ServerConversation
from tidelog.host.ports import BadRequest, Clock, CloseReason, PeerConnection, ResponseSlot
from tidelog.host.timers import Timer, TimerWheel
from tidelog.rpc.caller import Caller
from tidelog.rpc.calls import Call, Handler
from tidelog.rpc.connection import Connection, Served
from tidelog.wire.protocol import (
    API_VERSIONS,
    ProtocolError,
    decode,
    read_request_header,
    request_class,
)
from tidelog.wire.protocol.schemas.sasl_authenticate_request import SaslAuthenticateRequest
from tidelog.wire.protocol.schemas.sasl_authenticate_response import SaslAuthenticateResponse
from tidelog.wire.protocol.schemas.sasl_handshake_request import SaslHandshakeRequest
from tidelog.wire.protocol.schemas.sasl_handshake_response import SaslHandshakeResponse

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE, SASL_AUTHENTICATION_FAILED = 33, 34, 58

LOGIN_TIMEOUT_MS = 10_000
MOST_REQUESTS = 20
"""Of one login: ApiVersions twice, a handshake and the few messages of a mechanism."""
MOST_STRANGERS = 1_000
"""Connections of one listener that are not logged in; the oldest makes room for the next."""
LEAST_BETWEEN_LOGINS_MS = 1_000
"""On one connection, as in Kafka."""


class NotLoggedIn(BadRequest):
    reason = CloseReason.NOT_LOGGED_IN


class LoginRefused(BadRequest):
    reason = CloseReason.LOGIN_FAILED


class LoginExpired(BadRequest):
    reason = CloseReason.LOGIN_EXPIRED


BeginConversation = Callable[[], ServerConversation]


class Logins:
    """What the logins of one listener share."""

    __slots__ = ("_clock", "_timers", "failed", "mechanisms", "settings", "strangers", "succeeded")

    def __init__(
        self,
        settings: SaslSettings,
        mechanisms: Mapping[str, BeginConversation],
        clock: Clock,
        timers: TimerWheel,
    ) -> None:
        self.settings = settings
        self.mechanisms = mechanisms
        self._clock = clock
        self._timers = timers
        self.strangers: dict[LoginConnection, None] = {}
        """Oldest first."""
        self.succeeded = 0
        self.failed = 0

    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def after(self, delay_ms: int, work: Callable[[], None]) -> Timer:
        return self._timers.after(delay_ms, work)

    def enter(self, stranger: "LoginConnection") -> None:
        self.strangers[stranger] = None
        if len(self.strangers) > MOST_STRANGERS:
            next(iter(self.strangers)).send_away(f"{MOST_STRANGERS} connections wait for logins")

    def lifetime_ms(self, login: LoggedIn) -> int | None:
        """For how long the login holds from now on; None for as long as the connection."""
        limits = [self.settings.reauth_max_ms] if self.settings.reauth_max_ms else []
        if login.expires_ms is not None:
            limits.append(login.expires_ms - self._clock.wall_ms())
        if not limits:
            return None
        if min(limits) <= 0:
            raise LoginFailed("the token has expired", user=login.user)
        return min(limits)


class Login(NamedTuple):
    """One that succeeded."""

    mechanism: str
    principal: Principal
    begun_ms: int
    expires_ms: int | None


class LoginConnection:
    """One accepted connection of a listener with SASL: a `RequestHandler`."""

    __slots__ = (
        "_bare",
        "_conversation",
        "_inner",
        "_login",
        "_logins",
        "_mechanism",
        "_peer",
        "_requests",
        "_served",
        "_stranger",
        "_timer",
    )

    def __init__(self, peer: PeerConnection, served: Served, logins: Logins) -> None:
        self._peer = peer
        self._served = served
        self._logins = logins
        self._stranger = Connection(peer, served._replace(on_opened=None), ANONYMOUS)
        """Serves ApiVersions."""
        self._inner: Connection | None = None
        """Serves everything; None before the first login."""
        self._login: Login | None = None
        self._conversation: ServerConversation | None = None
        self._mechanism = ""
        self._bare = False
        """After SaslHandshake v0 the messages come without a request around them."""
        self._requests = 0
        self._timer: Timer | None = logins.after(LOGIN_TIMEOUT_MS, self._on_late)
        logins.enter(self)

    def on_request(self, frame: memoryview, slot: ResponseSlot) -> None:
        if self._bare and self._conversation is not None:
            self._on_bare_message(frame, slot)
            return
        key = int.from_bytes(frame[:2], "big")
        if key in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
            self._on_sasl(key, frame, slot)
            return
        login, inner = self._login, self._inner
        if login is None or inner is None:
            self._on_stranger(key, frame, slot)
            return
        if self._conversation is not None:
            raise NotLoggedIn(f"API {key} in the middle of a login")
        if login.expires_ms is not None and login.expires_ms <= self._logins.now_ms():
            raise LoginExpired(f"the login of {login.principal} is over, and API {key} was asked")
        inner.on_request(frame, slot)

    def on_closed(self, reason: CloseReason) -> None:
        self._forget()
        self._conversation = None
        if self._inner is not None:
            self._inner.on_closed(reason)
        else:
            self._stranger.on_closed(reason)

    def send_away(self, why: str) -> None:
        self._forget()
        self._peer.fail(NotLoggedIn(why))

    def _on_late(self) -> None:
        self.send_away(f"no login within {LOGIN_TIMEOUT_MS // 1000} s")

    def _forget(self) -> None:
        """No stranger any more."""
        self._logins.strangers.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_stranger(self, key: int, frame: memoryview, slot: ResponseSlot) -> None:
        self._count()
        if key != API_VERSIONS or self._conversation is not None:
            raise NotLoggedIn(f"API {key} before a login")
        self._stranger.on_request(frame, slot)

    def _count(self) -> None:
        self._requests += 1
        if self._requests > MOST_REQUESTS:
            raise NotLoggedIn(f"{MOST_REQUESTS} requests, and no login")

    def _on_sasl(self, key: int, frame: memoryview, slot: ResponseSlot) -> None:
        self._count()
        try:
            header, position = read_request_header(frame)
            if self._served.table.message(key, header.api_version) is None:
                raise ProtocolError(f"API {key} v{header.api_version}")
            request = decode(request_class(key), header.api_version, frame, position)
        except ProtocolError as reason:
            raise BadRequest(str(reason)) from None
        call = Call(header, request, slot, self._peer, self._caller(ANONYMOUS))
        if isinstance(request, SaslHandshakeRequest):
            self._on_handshake(call, request)
        else:
            assert isinstance(request, SaslAuthenticateRequest), request
            self._on_message(call, request)

    def _caller(self, principal: Principal) -> Caller:
        return Caller(self._served.listener, self._peer.peer, principal)

    def _on_handshake(self, call: Call, request: SaslHandshakeRequest) -> None:
        if self._conversation is not None:
            raise NotLoggedIn("a second SaslHandshake in one login")
        logins, login = self._logins, self._login
        if login is not None:
            if call.version == 0:
                raise NotLoggedIn("SaslHandshake v0 after a login")
            since_ms = logins.now_ms() - login.begun_ms
            if login.expires_ms is None or since_ms < LEAST_BETWEEN_LOGINS_MS:
                refuse_late_login(call)
                return
        begin = logins.mechanisms.get(request.mechanism)
        if begin is None:
            error = UNSUPPORTED_SASL_MECHANISM
            call.answer(SaslHandshakeResponse(error_code=error, mechanisms=[*logins.mechanisms]))
            logins.failed += 1
            self._peer.fail(LoginRefused(f"no login with {request.mechanism[:40]!r} here"))
            return
        self._mechanism = request.mechanism
        self._bare = call.version == 0
        self._conversation = begin()
        call.answer(SaslHandshakeResponse(mechanisms=[*logins.mechanisms]))

    def _on_message(self, call: Call, request: SaslAuthenticateRequest) -> None:
        conversation = self._conversation
        if conversation is None:
            if self._login is None:
                raise NotLoggedIn("SaslAuthenticate before SaslHandshake")
            refuse_late_login(call)
            return
        try:
            step = conversation.answer(bytes(request.auth_bytes))
            lifetime_ms = None if step.done is None else self._accept(step.done)
        except LoginFailed as failed:
            self._refuse(failed, partial(tell_refusal, call))
            return
        call.answer(
            SaslAuthenticateResponse(auth_bytes=step.answer, session_lifetime_ms=lifetime_ms or 0)
        )

    def _on_bare_message(self, frame: memoryview, slot: ResponseSlot) -> None:
        """There is no way to say why somebody is refused but to hang up."""
        assert self._conversation is not None, "no handshake"
        self._count()
        try:
            step = self._conversation.answer(bytes(frame))
            if step.done is not None:
                self._accept(step.done)
        except LoginFailed as failed:
            self._refuse(failed, lambda _: None)
            return
        slot.answer([step.answer])

    def _accept(self, done: LoggedIn) -> int | None:
        """It is logged in, for so long. LoginFailed if it was somebody else before."""
        logins, before = self._logins, self._login
        principal = Principal(USER, done.user)
        if before is not None and (before.principal, before.mechanism) != (
            principal,
            self._mechanism,
        ):
            raise LoginFailed(
                f"this connection is that of {before.principal}, not of {principal}",
                user=done.user,
            )
        lifetime_ms, now_ms = logins.lifetime_ms(done), logins.now_ms()
        expires_ms = None if lifetime_ms is None else now_ms + lifetime_ms
        self._login = Login(self._mechanism, principal, now_ms, expires_ms)
        self._conversation = None
        self._requests = 0
        logins.succeeded += 1
        if self._inner is None:
            self._forget()
            self._peer.trusted = True
            self._inner = Connection(self._peer, self._served, principal)
        return lifetime_ms

    def _refuse(self, failed: LoginFailed, tell: Callable[[str], None]) -> None:
        """After a pause, in which nothing more is taken from this peer: guessing takes time."""
        self._conversation = None
        self._logins.failed += 1
        self._peer.pause()
        if self._timer is not None:
            self._timer.cancel()  # it is not late, it is refused
        hang_up = partial(self._hang_up, failed, tell)
        self._timer = self._logins.after(self._logins.settings.failed_delay_ms, hang_up)

    def _hang_up(self, failed: LoginFailed, tell: Callable[[str], None]) -> None:
        tell(str(failed))
        who = f"as {failed.user!r} " if failed.user else ""
        text = f"login {who}with {self._mechanism} refused: {failed.reason}"
        self._peer.fail(LoginRefused(text))


def tell_refusal(call: Call, why: str) -> None:
    call.answer(SaslAuthenticateResponse(error_code=SASL_AUTHENTICATION_FAILED, error_message=why))


def refuse_late_login(call: Call) -> None:
    """Nobody has to log in here, or they have done so: as Kafka's brokers answer it."""
    if call.header.api_key == SASL_HANDSHAKE:
        call.answer(SaslHandshakeResponse(error_code=ILLEGAL_SASL_STATE))
        return
    text = "this connection needs no login, or no other one"
    call.answer(SaslAuthenticateResponse(error_code=ILLEGAL_SASL_STATE, error_message=text))


LATE_LOGINS: dict[int, Handler] = dict.fromkeys(
    (SASL_HANDSHAKE, SASL_AUTHENTICATE), refuse_late_login
)
"""For every table: clients look whether these are offered before they log in."""
