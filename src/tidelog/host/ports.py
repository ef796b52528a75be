"""The ports: everything a node may know about time, files, chance and its peers.

The real versions live beside this file; `tidelog.sim` gives virtual ones. Nothing above
this layer opens a file or a socket or reads a clock by itself.

The network is one of requests and answers, because that is all the protocol above has: a frame
is opaque bytes, a listener gets frames with a slot for the answer, answers leave a connection in
the order of its requests. Budgets, buffers and timeouts are the business of the real version.
"""

from asyncio import Future
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from ssl import SSLContext
from typing import NamedTuple, Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

Buffer = bytes | bytearray | memoryview


class Syncing(Protocol):
    """A sync that was asked for and may wait for a slow device on another thread. It stands for
    the file it was made from, also when that is closed, renamed or removed in the meantime."""

    def run(self) -> None:
        """What had been written when this began is on stable storage afterwards. Once; the only
        part of a disk that may be called on another thread. OSError: as after a failed `sync`."""
        ...

    def release(self) -> None:
        """It will not be run. Nothing is synced."""
        ...


class FileRange(Protocol):
    """Some bytes of a file, to be sent without reading them. It is only good until the callback
    that asked for it returns: later the file may have changed."""

    def __len__(self) -> int: ...
    def read(self, start: int = 0) -> bytes:
        """All from there on, or an OSError."""
        ...

    def send(self, socket_descriptor: int) -> int:
        """How many bytes the socket has taken, as it cannot wait."""
        ...


class DiskFile(Protocol):
    """An open file. Positions are explicit: nobody shares a cursor."""

    def size(self) -> int: ...
    def read(self, position: int, size_bytes: int) -> bytes:
        """Up to `size_bytes`; fewer only at the end of the file."""
        ...

    def range_in_memory(self, position: int, size_bytes: int) -> FileRange | None:
        """Something to send, if the operating system has all these bytes in memory; None if it
        has not, or if nobody can tell."""
        ...

    def read_ahead(self, *, allowed: bool) -> None:
        """Whether bytes may come into memory that were not asked for, as they do at first."""
        ...

    def write(self, position: int, data: Buffer | Sequence[Buffer]) -> None:
        """All of it, or an OSError."""
        ...

    def truncate(self, size_bytes: int) -> None: ...
    def sync(self) -> None:
        """Data and size are on stable storage afterwards. After an error they are unknown."""
        ...

    def start_sync(self) -> Syncing:
        """The same in two steps: this one returns at once, the other one may be slow."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A directory tree. Paths are relative to its root, with `/` between names."""

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """For reading and writing; FileNotFoundError unless `create`."""
        ...

    def exists(self, path: str) -> bool: ...
    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted. FileNotFoundError if there is none."""
        ...

    def make_dir(self, path: str) -> None:
        """Also the parents; no error if it is there."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces a file at `target`. Lasting only after `sync_dir` of the parent."""
        ...

    def remove(self, path: str) -> None:
        """A file, or an empty directory."""
        ...

    def sync_dir(self, path: str) -> None:
        """Names created, renamed and removed in this directory last afterwards."""
        ...

    def start_sync_dir(self, path: str) -> Syncing:
        """The same in two steps."""
        ...


class Lock(Protocol):
    """At most one holder at a time; given back by the kernel when its process dies."""

    def acquire(self) -> bool:
        """False if somebody else has it."""
        ...

    def release(self) -> None: ...


class Filesystem(Protocol):
    """The directories of a machine, by path."""

    def exists(self, path: str) -> bool: ...
    def is_directory(self, path: str) -> bool: ...
    def open(self, path: str) -> Disk:
        """What lies below a directory; NotADirectoryError if it is none."""
        ...

    def make_directory(self, path: str) -> None:
        """Also the parents; no error if it is there."""
        ...

    def lock(self, path: str) -> Lock:
        """The lock of a directory, not acquired yet: one process uses a directory."""
        ...


class Workers(Protocol):
    """Threads beside the event loop, for work that waits for a device or burns a processor."""

    def run(self, work: Callable[[], Result]) -> Future[Result]:
        """Do it on a thread. The future belongs to the running event loop."""
        ...

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Do the same to each, several at once; for callers that may wait."""
        ...

    def close(self, *, wait: bool = True) -> None:
        """Nothing new is begun. `wait` for what is under way."""
        ...


MakeWorkers = Callable[[str, int], Workers]
"""From a name and a number of threads."""


class DiskSpace(NamedTuple):
    """Of the file system that a directory is on."""

    total_bytes: int
    usable_bytes: int


class Clock(Protocol):
    """`monotonic_ms` for leases and waits; `wall_ms` only for timestamps and retention."""

    def monotonic_ms(self) -> int: ...
    def wall_ms(self) -> int: ...


class Entropy(Protocol):
    """The only source of chance: ids, jitter, timeouts."""

    def below(self, limit: int) -> int: ...
    def uuid(self) -> bytes: ...


class CloseReason(StrEnum):
    """Why a connection ended. Every end is counted under one of these."""

    CLOSED_BY_US = "closed-by-us"
    CLOSED_BY_PEER = "closed-by-peer"
    RESET_BY_PEER = "reset-by-peer"
    PEER_TIMED_OUT = "peer-timed-out"
    NETWORK_FAILED = "network-failed"
    NEGATIVE_LENGTH = "negative-length"
    FRAME_TOO_LARGE = "frame-too-large"
    HALF_FRAME = "half-frame"
    SLOW_READER = "slow-reader"
    IDLE = "idle"
    TOO_MANY_CONNECTIONS = "too-many-connections"
    TOO_MANY_FROM_ADDRESS = "too-many-from-address"
    HANDLER_FAILED = "handler-failed"
    BAD_REQUEST = "bad-request"
    FILE_FAILED = "file-failed"
    UNEXPECTED_RESPONSE = "unexpected-response"
    STOPPED = "stopped"
    STOPPED_LATE = "stopped-late"
    INSECURE = "insecure"
    NOT_LOGGED_IN = "not-logged-in"
    LOGIN_FAILED = "login-failed"
    LOGIN_EXPIRED = "login-expired"


class BadRequest(Exception):  # noqa: N818 - it names what the peer did
    """A handler cannot understand what the peer sent. Ends the connection; not our fault."""

    reason = CloseReason.BAD_REQUEST

    @property
    def kind(self) -> str:
        """What is told once per peer and minute."""
        return type(self).__qualname__


class NetworkError(Exception):
    """A peer could not be asked, or did not answer."""


class PeerRefused(NetworkError):  # noqa: N818 - these name what the peer did, not an accident
    """The host is there and nobody listens: the process is gone, and we know it at once."""


class PeerReset(NetworkError):  # noqa: N818
    """The connection was thrown away on the other side, as when a process dies."""


class PeerTimedOut(NetworkError):  # noqa: N818
    """Nothing came back: a dead host, a cut or a very slow network. Says little about the peer."""


class PeerNotTrusted(NetworkError):  # noqa: N818
    """TLS or the login failed: one of the two sides does not believe the other."""


class LoginRejected(PeerNotTrusted):
    """The peer does not believe who we say we are. Asking again changes nothing."""

    def __init__(self, text: str, error_code: int) -> None:
        super().__init__(text)
        self.error_code = error_code
        """Kafka's."""


class PeerUnreachable(NetworkError):  # noqa: N818
    """No route or no such name."""


class ConnectionClosed(NetworkError):  # noqa: N818
    """One of the two sides closed in good order before the answer came."""


class RequestTimedOut(NetworkError):  # noqa: N818
    """The deadline of one request passed. The connection lives; the peer may still perform it."""


class UnexpectedResponse(NetworkError):  # noqa: N818
    """An answer to nothing we asked. The connection cannot be trusted further and is closed."""


class TooManyInFlight(NetworkError):  # noqa: N818
    """So many requests wait for answers that another one may not be sent."""


class ResponseSlot(Protocol):
    """The place of one request in the order of answers. Filled once, now or later."""

    def answer(self, parts: Sequence[Buffer | FileRange]) -> None:
        """The frame of the answer, in parts that are not joined. They belong to the network until
        sent: a view of the request's frame must not be among them. After the connection ended
        this does nothing."""
        ...

    def answer_nothing(self) -> None:
        """This request has no answer (as with acks=0); the ones behind it may leave."""
        ...

    def when_it_holds_up(self, call: Callable[[], None]) -> None:
        """Call this once when answers to later requests wait for nothing but this one, at once if
        they do already. For requests that wait because they may, not because they must."""
        ...


class PeerConnection(Protocol):
    """An accepted connection, as the code that serves it sees it."""

    trusted: bool
    """False until its owner says so; until then frames must be small."""

    @property
    def peer(self) -> str:
        """The address it came from."""
        ...

    @property
    def certificate(self) -> bytes | None:
        """What the peer showed and proved to own, as DER; None without TLS or without one."""
        ...

    @property
    def congested(self) -> bool:
        """The peer reads slower than we answer. No new requests are taken until it catches up."""
        ...

    @property
    def allowance_bytes(self) -> int:
        """How large an answer of records made now may be, whoever of this node's peers do not
        read theirs. A first batch may be larger; 0: no records at all."""
        ...

    def pause(self) -> None:
        """Take no more requests until `resume`."""
        ...

    def resume(self) -> None: ...
    def fail(self, error: Exception) -> None:
        """Report an error of the code that serves this connection, or a BadRequest of its peer,
        and end the connection."""
        ...

    def close(self) -> None:
        """After what was answered so far has been sent."""
        ...


class RequestHandler(Protocol):
    """Serves one connection."""

    def on_request(self, frame: memoryview, slot: ResponseSlot) -> None:
        """`frame` is writable and valid during this call only: who keeps bytes of it copies them.
        An exception ends this connection and no other."""
        ...

    def on_closed(self, reason: CloseReason) -> None:
        """Once, after the last request. Open slots need not be filled any more."""
        ...


class Listener(Protocol):
    @property
    def port(self) -> int: ...
    async def stop(self, *, timeout_ms: int) -> int:
        """Accept and read nothing more, send what is owed, close. How many connections had to be
        cut off when the time was over."""
        ...


Outcome = memoryview | NetworkError
"""The frame of the answer (valid during the call that hands it over), or why there is none."""


OnOutcome = Callable[[Outcome], None]


class RequestConnection(Protocol):
    """A connection to a peer. Requests may be sent without waiting for earlier answers."""

    @property
    def is_closed(self) -> bool:
        """It has ended, by whomever: nothing can be sent any more."""
        ...

    def send(
        self,
        buffers: Sequence[Buffer],
        on_outcome: OnOutcome,
        *,
        timeout_ms: int,
        correlation_id: int | None = None,
    ) -> None:
        """`on_outcome` is called once, later; if this raises, never. Sent before this returns,
        so that the order of calls is the order on the wire."""
        ...

    def post(self, buffers: Sequence[Buffer]) -> None:
        """A request that has no answer."""
        ...

    def close(self) -> None:
        """Requests that wait for answers fail with ConnectionClosed."""
        ...


MakeTlsContext = Callable[[], SSLContext]
"""The context for one more connection: certificates may be renewed between two of them."""


class Network(Protocol):
    async def listen(
        self,
        host: str,
        port: int,
        on_connection: Callable[[PeerConnection], RequestHandler],
        *,
        privileged: bool = False,
        tls: MakeTlsContext | None = None,
    ) -> Listener:
        """`privileged` listeners may use the connections that are kept in reserve. With `tls`
        a handler is made when the handshake is done."""
        ...

    async def connect(
        self,
        host: str,
        port: int,
        *,
        timeout_ms: int,
        correlation_of: Callable[[memoryview], int] | None = None,
        tls: MakeTlsContext | None = None,
    ) -> RequestConnection:
        """PeerRefused, PeerReset, PeerTimedOut, PeerUnreachable or PeerNotTrusted if there is no
        connection.
        `correlation_of` reads the correlation id out of an answer, which is then compared."""
        ...

    def soon(self, work: Callable[[], None]) -> None:
        """In the next turn of the event loop. What it answers is sent when it returns."""
        ...
