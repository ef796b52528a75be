"""Who uses the console: nobody in particular, or users of the cluster who have logged in.

A login is a real one: a connection with the user's name and password to the cluster itself. From
then on the console asks the cluster as that user, so a user sees and does what the ACLs allow.
Passwords are kept in memory alone, in the properties of the user's client.
"""

import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from http import HTTPStatus

from starlette.requests import Request

from tidelog.client import Client, ClusterUnreachable, KafkaError
from tidelog.client.errors import ClientError
from tidelog.client.producer import Producer
from tidelog.console.access import Access
from tidelog.console.guard import is_same
from tidelog.console.place import Place
from tidelog.console.polled import Polled
from tidelog.console.refusal import Refused, bad_input
from tidelog.host.ports import NetworkError
from tidelog.survey.lag_state import LagWindow

COOKIE = "tidelog_session"
CSRF_HEADER = "x-tidelog-csrf"
IDLE_SECONDS = 30 * 60
LONGEST_SECONDS = 12 * 60 * 60
MOST_SESSIONS = 64
NAME_MAX = 256
FAILURES_PER_MINUTE = 10

Clock = Callable[[], float]


class Session:
    """One user of the console, with a client that acts as that user."""

    __slots__ = (
        "access",
        "began",
        "client",
        "csrf",
        "id",
        "is_closed",
        "polled",
        "producer",
        "properties",
        "used",
        "user",
        "windows",
    )

    def __init__(
        self, user: str | None, client: Client, properties: Mapping[str, str], now: float
    ) -> None:
        self.id = secrets.token_urlsafe(24)
        self.csrf = secrets.token_urlsafe(16)
        self.user = user
        """None: nobody logs in here."""
        self.client = client
        self.properties = properties
        """Of the client; they hold the password."""
        self.windows: dict[str, LagWindow] = {}
        """How the groups that this user has looked at keep up."""
        self.access = Access(is_unlimited=user is None)
        self.polled = Polled(client)
        self.producer = Producer(client)
        self.began = self.used = now
        self.is_closed = False

    def is_over(self, now: float) -> bool:
        return now - self.used > IDLE_SECONDS or now - self.began > LONGEST_SECONDS


class Sessions:
    """Owner of everybody's client. Made inside the running loop."""

    __slots__ = ("_anonymous", "_clock", "_failures", "_known", "_place", "stranger_csrf")

    def __init__(self, place: Place, clock: Clock = time.monotonic) -> None:
        self._place = place
        self._clock = clock
        self._known: dict[str, Session] = {}
        self._failures: deque[tuple[float, str]] = deque(maxlen=1000)
        self._anonymous: Session | None = None
        self.stranger_csrf = secrets.token_urlsafe(16)
        """Of those who have not logged in yet."""
        if not place.wants_login:
            self._anonymous = Session(
                None, self._client(place.properties), place.properties, clock()
            )

    async def close(self) -> None:
        everybody = [*self._known.values(), *([self._anonymous] if self._anonymous else [])]
        self._known.clear()
        for session in everybody:
            await session.client.close()

    def find(self, request: Request) -> Session | None:
        """Of the one who asks; None: has not logged in."""
        if self._anonymous is not None:
            return self._anonymous
        session = self._known.get(request.cookies.get(COOKIE, ""))
        now = self._clock()
        if session is None or session.is_over(now):
            return None
        session.used = now
        return session

    def of(self, request: Request) -> Session:
        """Refused if nobody is logged in, or if a change comes without the header for it."""
        session = self.find(request)
        if session is None:
            raise Refused(HTTPStatus.UNAUTHORIZED, "log in first", "/login")
        if request.method in ("POST", "DELETE"):
            self.check_csrf(request, session.csrf)
        return session

    def is_open(self, session: Session) -> bool:
        """Streams of a session end with it."""
        if session.user is None:
            return True
        return not (session.is_closed or session.is_over(self._clock()))

    def check_csrf(self, request: Request, csrf: str) -> None:
        if not is_same(request.headers.get(CSRF_HEADER, ""), csrf):
            error = f"the header {CSRF_HEADER} is missing or old"
            raise Refused(HTTPStatus.FORBIDDEN, error, "reload the page")

    async def log_in(self, user: object, password: object, peer: str) -> Session:
        if self._anonymous is not None:
            raise bad_input("this cluster knows no users", "go on without a login")
        if not (isinstance(user, str) and isinstance(password, str) and user and password):
            raise bad_input("user and password have to be texts", '{"user": "…", "password": "…"}')
        if len(user) > NAME_MAX or len(password) > NAME_MAX:
            raise bad_input(f"names and passwords have at most {NAME_MAX} characters")
        self._refuse_guessing(peer)
        properties = self._place.properties_of(user, password)
        client = self._client(properties)
        try:
            await client.brokers()
        except BaseException as reason:
            await client.close()
            if isinstance(reason, (ClientError, NetworkError)):
                raise self._login_failed(reason, peer) from None
            raise
        return await self._remember(Session(user, client, properties, self._clock()))

    async def log_out(self, session: Session) -> None:
        session.is_closed = True
        if self._known.pop(session.id, None) is not None:
            await session.client.close()

    async def _remember(self, session: Session) -> Session:
        now = self._clock()
        for old in [each for each in self._known.values() if each.is_over(now)]:
            await self.log_out(old)
        while len(self._known) >= MOST_SESSIONS:
            await self.log_out(min(self._known.values(), key=lambda each: each.used))
        self._known[session.id] = session
        return session

    def _refuse_guessing(self, peer: str) -> None:
        since = self._clock() - 60
        failed = sum(at >= since and who == peer for at, who in self._failures)
        if failed >= FAILURES_PER_MINUTE:
            error = f"{FAILURES_PER_MINUTE} logins from {peer} failed within a minute"
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, error, "wait a minute")

    def _login_failed(self, reason: Exception, peer: str) -> Refused:
        if isinstance(reason, ClusterUnreachable) and "uthentication" not in str(reason):
            return Refused(HTTPStatus.BAD_GATEWAY, str(reason), "tidelog ps")
        self._failures.append((self._clock(), peer))
        words = reason.message if isinstance(reason, KafkaError) else ""
        error = words or "the cluster does not know this user and password"
        return Refused(HTTPStatus.UNAUTHORIZED, error, "tidelog user list, as an administrator")

    def _client(self, properties: Mapping[str, str]) -> Client:
        place = self._place
        return Client(place.bootstrap_servers, timeout_ms=place.timeout_ms, properties=properties)
