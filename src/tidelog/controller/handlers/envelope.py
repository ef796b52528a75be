"""Envelope (58): a request that a broker forwards for a client, served as the client's own."""

from collections.abc import Callable, Mapping, Sequence

from tidelog.core.errors import Error
from tidelog.host.ports import Buffer, FileRange
from tidelog.rpc import Call, Handler
from tidelog.rpc.envelope import caller_of
from tidelog.wire.protocol import API_BY_KEY, ProtocolError, decode_request
from tidelog.wire.protocol.schemas.envelope_request import EnvelopeRequest
from tidelog.wire.protocol.schemas.envelope_response import EnvelopeResponse

DECIDED = frozenset((19, 20, 30, 31, 33, 37, 43, 44, 45, 49, 51, 57, 64))
"""What only the active controller answers."""
FORWARDABLE = DECIDED | {46, 55}
"""What clients may ask of a controller through a broker."""


class EnvelopeSlot:
    """The place of the inner answer: within the outer one."""

    __slots__ = ("_outer",)

    def __init__(self, outer: Call) -> None:
        self._outer = outer

    def answer(self, parts: Sequence[Buffer | FileRange]) -> None:
        joined = bytearray()
        for part in parts:
            assert isinstance(part, bytes | bytearray | memoryview), "a controller sends no files"
            joined += part
        self._outer.answer(EnvelopeResponse(response_data=bytes(joined)))

    def answer_nothing(self) -> None:
        raise AssertionError("every request that is passed on has an answer")

    def when_it_holds_up(self, call: Callable[[], None]) -> None:
        self._outer.when_it_holds_up(call)


def handle(handlers: Mapping[int, Handler], call: Call) -> None:
    """`handlers` are those of the listener, with what they need to be allowed."""
    envelope = call.request
    assert isinstance(envelope, EnvelopeRequest), envelope
    try:
        caller = caller_of(envelope, call.listener)
    except ProtocolError:
        call.answer(EnvelopeResponse(error_code=Error.PRINCIPAL_DESERIALIZATION_FAILURE))
        return
    header, request = decode_request(bytes(envelope.request_data))
    key = header.api_key
    if key not in FORWARDABLE or header.api_version not in API_BY_KEY[key].full:
        call.answer(EnvelopeResponse(error_code=Error.INVALID_REQUEST))
        return
    handlers[key](Call(header, request, EnvelopeSlot(call), call.connection, caller))
