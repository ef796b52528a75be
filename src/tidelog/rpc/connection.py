"""One accepted connection: find the handler of a request by its API key and version.

A request that cannot be understood ends its connection, because there is no answer that every
client would understand. The one exception is ApiVersions: a client that is newer than we are gets
our versions, in the oldest version of that answer (KIP-511).
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from tidelog.core.security.principal import ANONYMOUS, Principal
from tidelog.host.ports import (
    BadRequest,
    CloseReason,
    PeerConnection,
    ResponseSlot,
    Workers,
)
from tidelog.host.work import Work
from tidelog.rpc.caller import Caller
from tidelog.rpc.calls import Call, Handler
from tidelog.rpc.request_times import RequestTimes
from tidelog.wire.protocol import (
    API_VERSIONS,
    ApiRange,
    Listener,
    Message,
    ProtocolError,
    Release,
    RequestHeader,
    UnsupportedVersion,
    Versions,
    decode,
    encode_response,
    read_request_header,
    request_class,
    supported_versions,
)
from tidelog.wire.protocol.schemas.api_versions_response import ApiVersion, ApiVersionsResponse

LARGE_PLAIN_FRAME_BYTES = 128 * 1024
"""Requests without records that are larger are decoded on another thread: 200,000 names take a
third of a second. The requests behind them wait, as they would for any other."""
PLAIN_FRAME_MAX_BYTES = 8 * 1024 * 1024
"""For requests without records. Decoded, many small elements take many times their bytes."""

FIRST_PRODUCE_VERSION = 3
"""Older ones are advertised, because old librdkafka wants it, and refused (wire.md gotcha 1)."""

_UNSUPPORTED_VERSION = 35
_PRODUCE = 0


class ApiTable:
    """What a listener serves: handlers by API key, and the versions it advertises for them."""

    __slots__ = ("_intercepted", "_served", "handlers", "messages", "ranges", "requests", "times")

    def __init__(self, listener: Listener, handlers: Mapping[int, Handler]) -> None:
        self.handlers = dict(handlers)
        self._intercepted: dict[int, Handler] = {}
        """The usual handlers of those APIs that somebody else serves for now."""
        self.requests = dict.fromkeys(self.handlers, 0)
        """How many came in, by API key."""
        self.times: dict[int, RequestTimes] = {}
        """Of those APIs that are timed."""
        self.messages: dict[tuple[int, int], type[Message]] = {}
        """The requests that were served already, by API key and version: one look instead of
        many, and their modules are imported when they are first wanted."""
        self.ranges: list[ApiRange] = supported_versions(listener, Release.FULL, self.handlers)
        self._served = {each.key: Versions(each.first, each.last) for each in self.ranges}
        missing = self.handlers.keys() - self._served.keys()
        assert not missing, f"handlers of APIs that {listener} does not offer: {sorted(missing)}"
        if _PRODUCE in self._served:
            last = self._served[_PRODUCE].last
            self._served[_PRODUCE] = Versions(FIRST_PRODUCE_VERSION, last)

    def use(self, handlers: Mapping[int, Handler]) -> None:
        """From now on, for those that are in it."""
        for key, handler in handlers.items():
            if key in self._intercepted:
                self._intercepted[key] = handler
            else:
                self.handlers[key] = handler

    def intercept(self, key: int, by: Callable[[Handler, "Call"], None]) -> None:
        """`by` serves this API, and is told who would, until it is given back."""
        if key not in self.handlers:
            return
        assert key not in self._intercepted, f"API {key} is intercepted already"
        self._intercepted[key] = self.handlers[key]
        self.handlers[key] = lambda call: by(self._intercepted.get(key, self.handlers[key]), call)

    def give_back(self, key: int) -> None:
        usual = self._intercepted.pop(key, None)
        if usual is not None:
            self.handlers[key] = usual

    def message(self, key: int, version: int) -> type[Message] | None:
        """What such a request is; None if it is not served."""
        if version not in self._served.get(key, ()):
            return None
        return self.messages.setdefault((key, version), request_class(key))


class Large(NamedTuple):
    """A request that is decoded on another thread, from a copy of its frame."""

    header: RequestHeader
    message: type[Message]
    frame: bytes
    position: int

    def decoded(self) -> Message:
        return decode(self.message, self.header.api_version, self.frame, self.position)


class Served(NamedTuple):
    """What the connections of one listener share."""

    table: ApiTable
    listener: str
    on_closed: "Callable[[PeerConnection, CloseReason], None] | None"
    on_opened: "Callable[[Call], None] | None"
    work: Work
    decoders: Workers | None


class Connection:
    """One accepted connection. Its requests are served in order, their answers may wait."""

    __slots__ = ("_caller", "_closed", "_on_opened", "_peer", "_served")

    def __init__(
        self, peer: PeerConnection, served: Served, principal: Principal = ANONYMOUS
    ) -> None:
        self._peer = peer
        self._served = served
        self._caller = Caller(served.listener, peer.peer, principal)
        self._on_opened = served.on_opened
        self._closed = False

    def on_request(self, frame: memoryview, slot: ResponseSlot) -> None:
        try:
            try:
                call = self._understand(frame, slot)
            except ProtocolError as reason:
                raise BadRequest(str(reason)) from None
            if call is not None:
                self._serve(call)
        finally:
            self._served.work.end()

    def _serve(self, call: Call) -> None:
        if self._on_opened is not None:
            self._on_opened(call)
            self._on_opened = None
        self._served.table.handlers[call.header.api_key](call)

    def _understand(self, frame: memoryview, slot: ResponseSlot) -> Call | None:
        """None if it is answered already, or served later."""
        header, position = read_request_header(frame)
        key, version = header.api_key, header.api_version
        table = self._served.table
        message = table.messages.get((key, version)) or table.message(key, version)
        if message is None:
            if key == API_VERSIONS:
                slot.answer(encode_response(header.correlation_id, self._what_we_speak(), 0))
                return None
            raise UnsupportedVersion(f"API {key} v{version}, asked for by {header.client_id!r}")
        if len(frame) > PLAIN_FRAME_MAX_BYTES and not message.__holds_records__:
            raise ProtocolError(f"API {key} v{version} in {len(frame)} bytes")
        table.requests[key] += 1
        self._served.work.begin(message.__name__, len(frame), "bytes")
        if (
            len(frame) > LARGE_PLAIN_FRAME_BYTES
            and not message.__holds_records__
            and self._served.decoders is not None
        ):
            self._understand_later(Large(header, message, bytes(frame), position), slot)
            return None
        request = decode(message, version, frame, position)
        times = table.times.get(key)
        if times is not None:
            slot = times.timed(slot, request)
        return Call(header, request, slot, self._peer, self._caller)

    def _understand_later(self, large: "Large", slot: ResponseSlot) -> None:
        self._peer.pause()
        assert self._served.decoders is not None, "there is no thread to decode it on"
        decoding = self._served.decoders.run(large.decoded)
        decoding.add_done_callback(partial(self._understood, large, slot))

    def _understood(
        self, large: "Large", slot: ResponseSlot, decoding: asyncio.Future[Message]
    ) -> None:
        if self._closed or decoding.cancelled():
            return
        work = self._served.work
        work.begin(large.message.__name__, len(large.frame), "bytes")
        try:
            request = decoding.result()
            self._serve(Call(large.header, request, slot, self._peer, self._caller))
        except ProtocolError as reason:
            self._peer.fail(BadRequest(str(reason)))
        except Exception as error:  # the border of a connection
            self._peer.fail(error)
        finally:
            work.end()
            self._peer.resume()

    def on_closed(self, reason: CloseReason) -> None:
        self._closed = True
        if self._served.on_closed is not None:
            self._served.on_closed(self._peer, reason)

    def _what_we_speak(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            error_code=_UNSUPPORTED_VERSION,
            api_keys=[
                ApiVersion(api_key=each.key, min_version=each.first, max_version=each.last)
                for each in self._served.table.ranges
            ],
        )
