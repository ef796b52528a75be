"""SASL conversations, of both sides, without a network: bytes in, bytes out.

A server's conversation ends with a `LoggedIn` or with a `LoginFailed`, whose message is what the
client is told: never whether a user exists. A client's ends when it has nothing more to say.
"""

import hmac
import json
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from tidelog.core.security import scram
from tidelog.core.security.scram import ScramCredential, ScramError, ScramMechanism

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"
SCRAM = tuple(each.sasl_name for each in ScramMechanism)
MECHANISMS = (PLAIN, *SCRAM, OAUTHBEARER)

MOST_ITERATIONS = 100_000
"""That a server may ask of a client: Kafka's ask for 16384 at most, and each takes its time."""
LONGEST_LOGIN_BYTES = 1024
"""Of a user name or password of PLAIN, each."""

WRONG = "unknown user or wrong password"
"""One text for both: nobody learns which users there are."""

FindCredential = Callable[[ScramMechanism, str], ScramCredential | None]
"""What is known of a user's password, from the metadata of the cluster."""
MakeDecoy = Callable[[ScramMechanism, str], ScramCredential]
"""What is shown of a user who does not exist."""


class LoginFailed(Exception):  # noqa: N818 - it names what the peer did
    """Its message may be told to the peer; `reason` is for our own journal."""

    def __init__(self, message: str, reason: str = "", user: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message
        self.user = user


class LoggedIn(NamedTuple):
    user: str
    expires_ms: int | None = None
    """Wall time at which what was shown is worth nothing any more; None: no such time."""


class Step(NamedTuple):
    """What to answer, and who it is if that was the end."""

    answer: bytes
    done: LoggedIn | None = None


class Token(NamedTuple):
    """A bearer token that was found sound."""

    user: str
    expires_ms: int


VerifyToken = Callable[[str], Token]
"""LoginFailed if the token is not signed, not for us, or too old."""


class ServerConversation(Protocol):
    def answer(self, message: bytes) -> Step:
        """LoginFailed ends it."""
        ...


class ClientConversation(Protocol):
    def begin(self) -> bytes: ...
    def answer(self, message: bytes) -> bytes | None:
        """The next message; None when there is none. LoginFailed if the server is not who it
        should be."""
        ...


# ---- PLAIN (RFC 4616)


class PlainServer:
    """Compares every password in the same time, also with that of nobody."""

    __slots__ = ("_users",)

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users

    def answer(self, message: bytes) -> Step:
        try:
            authorize_as, user, password = message.decode("utf-8").split("\0")
        except ValueError:  # also of bytes that are no UTF-8
            raise LoginFailed("a PLAIN login has three parts") from None
        if not user or not password:
            what = "user name" if not user else "password"
            raise LoginFailed(f"the {what} is empty")
        if max(len(user), len(password)) > LONGEST_LOGIN_BYTES:
            raise LoginFailed(WRONG, "too long")
        known = self._users.get(user)
        fits = hmac.compare_digest((known or "").encode(), password.encode())
        if known is None or not fits:
            why = "wrong password" if known is not None else "unknown user"
            raise LoginFailed(WRONG, why, user)
        if authorize_as not in ("", user):
            raise LoginFailed("a user may act for nobody else", user=user)
        return Step(b"", LoggedIn(user))


class PlainClient:
    __slots__ = ("_message",)

    def __init__(self, user: str, password: str) -> None:
        self._message = f"\0{user}\0{password}".encode()

    def begin(self) -> bytes:
        return self._message

    def answer(self, message: bytes) -> bytes | None:
        return None


# ---- SCRAM


class ScramServer:
    """Goes on to the end with somebody who does not exist, as with a wrong password."""

    __slots__ = (
        "_answer",
        "_credential",
        "_decoy",
        "_find",
        "_first",
        "_mechanism",
        "_nonce",
    )

    def __init__(
        self, mechanism: ScramMechanism, find: FindCredential, nonce: str, decoy: MakeDecoy
    ) -> None:
        self._mechanism = mechanism
        self._find = find
        self._nonce = nonce
        self._decoy = decoy
        self._first: scram.ClientFirst | None = None
        self._answer: scram.ServerFirst | None = None
        self._credential: ScramCredential | None = None

    def answer(self, message: bytes) -> Step:
        try:
            return self._begun(message) if self._first is None else self._finished(message)
        except ScramError as reason:
            name = self._mechanism.sasl_name
            user = "" if self._first is None else self._first.name
            raise LoginFailed(f"{WRONG} ({name})", str(reason), user) from None

    def _begun(self, message: bytes) -> Step:
        first = scram.parse_client_first(message)
        if first.extensions.get("tokenauth"):
            raise ScramError("delegation tokens are not supported")
        if first.authzid not in ("", first.name):
            raise ScramError("another name to act for than the one that logs in")
        self._first = first
        found = self._find(self._mechanism, first.name)
        self._credential = found or self._decoy(self._mechanism, first.name)
        self._answer = scram.server_first(first, self._nonce, self._credential)
        return Step(self._answer.message)

    def _finished(self, message: bytes) -> Step:
        assert self._first is not None, "no first message"
        assert self._answer is not None, "no first answer"
        assert self._credential is not None, "no credential"
        final = scram.verify_client_final(
            self._mechanism, self._credential, self._first, self._answer, message
        )
        return Step(final, LoggedIn(self._first.name))


class ScramClient:
    __slots__ = ("_final", "_first", "_mechanism", "_password")

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, nonce: str) -> None:
        self._mechanism = mechanism
        self._password = password
        self._first = scram.client_first(user, nonce)
        self._final: scram.ClientFinal | None = None

    def begin(self) -> bytes:
        return self._first.message

    def answer(self, message: bytes) -> bytes | None:
        try:
            if self._final is None:
                answer = scram.parse_server_first(self._first, message)
                if answer.iterations > MOST_ITERATIONS:
                    raise ScramError(f"the server asks for {answer.iterations} iterations")
                self._final = scram.client_final(
                    self._mechanism, self._password, self._first, answer
                )
                return self._final.message
            scram.verify_server_final(self._final, message)
            return None
        except ScramError as reason:
            raise LoginFailed(str(reason)) from None


# ---- OAUTHBEARER (RFC 7628, as Kafka uses it: KIP-255)

_SEPARATOR = "\x01"
_BEARER = re.compile(
    r"n,(?:a=(?P<authzid>[^,\x01]*))?,\x01(?P<pairs>(?:[A-Za-z]+=[^\x01]*\x01)*)\x01"
)


class BearerServer:
    __slots__ = ("_failed", "_verify")

    def __init__(self, verify: VerifyToken) -> None:
        self._verify = verify
        self._failed: LoginFailed | None = None

    def answer(self, message: bytes) -> Step:
        if self._failed is not None:  # RFC 7628: the client has said that it has read why
            raise self._failed
        token, authzid = self._read(message)
        try:
            found = self._verify(token)
            if authzid not in ("", found.user):
                raise LoginFailed(f"the token is not of {authzid!r}")
        except LoginFailed as failed:
            self._failed = failed
            return Step(json.dumps({"status": "invalid_token"}).encode())
        return Step(b"", LoggedIn(found.user, found.expires_ms))

    @staticmethod
    def _read(message: bytes) -> tuple[str, str]:
        wrong = LoginFailed("the message has no bearer token")
        try:
            found = _BEARER.fullmatch(message.decode("utf-8"))
        except UnicodeDecodeError:
            raise wrong from None
        if found is None:
            raise wrong
        pairs = dict(pair.split("=", 1) for pair in found["pairs"].split(_SEPARATOR) if pair)
        scheme, _, token = pairs.get("auth", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise wrong
        return token.strip(), found["authzid"] or ""


class BearerClient:
    __slots__ = ("_token",)

    def __init__(self, token: str) -> None:
        self._token = token

    def begin(self) -> bytes:
        return f"n,,\x01auth=Bearer {self._token}\x01\x01".encode()

    def answer(self, message: bytes) -> bytes | None:
        """An answer with text is a refusal, and wants to be acknowledged."""
        return _SEPARATOR.encode() if message else None
