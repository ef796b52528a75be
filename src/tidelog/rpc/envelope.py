"""Envelopes (KIP-590): a request that a broker passes on, with the client that it is for.

The principal is written as Kafka's default principal builder writes it: a version, then type, name
and whether a token was used, in the compact forms.
"""

from ipaddress import ip_address

from tidelog.core.security.principal import Principal
from tidelog.rpc.caller import Caller
from tidelog.rpc.calls import Call
from tidelog.wire.protocol import (
    Message,
    ProtocolError,
    RequestHeader,
    decode_response,
    encode_request,
)
from tidelog.wire.protocol.schemas.envelope_request import EnvelopeRequest
from tidelog.wire.protocol.schemas.envelope_response import EnvelopeResponse
from tidelog.wire.protocol.varints import read_varint, varint

PRINCIPAL_VERSION = 0
_NO_TAGS = b"\0"
_NO_TOKEN = b"\0"


def wrapped(request: Message, version: int, asker: Call) -> EnvelopeRequest:
    """With what is known of the client: who it is, from where, and its client id."""
    caller = asker.caller
    header = RequestHeader(request.__api_key__, version, 0, asker.header.client_id)
    return EnvelopeRequest(
        request_data=b"".join(bytes(part) for part in encode_request(header, request)),
        request_principal=encode_principal(caller.principal),
        client_host_address=encode_host(caller.host),
    )


def unwrapped(envelope: EnvelopeResponse, key: int, version: int) -> Message:
    assert envelope.response_data is not None, envelope
    return decode_response(envelope.response_data, key, version)[1]


def caller_of(envelope: EnvelopeRequest, listener: str) -> Caller:
    """ProtocolError if it does not say who it is for."""
    if envelope.request_principal is None:
        raise ProtocolError("an envelope without a principal")
    host = decode_host(bytes(envelope.client_host_address))
    return Caller(listener, host, decode_principal(bytes(envelope.request_principal)))


def encode_principal(principal: Principal) -> bytes:
    kind, name = principal.kind.encode(), principal.name.encode()
    return b"".join(
        (
            PRINCIPAL_VERSION.to_bytes(2, "big"),
            varint(len(kind) + 1) + kind,
            varint(len(name) + 1) + name,
            _NO_TOKEN,
            _NO_TAGS,
        )
    )


def decode_principal(data: bytes) -> Principal:
    try:
        version = int.from_bytes(data[:2], "big")
        if version != PRINCIPAL_VERSION:
            raise ProtocolError(f"a principal in version {version}")
        kind, position = _text(data, 2)
        name, position = _text(data, position)
    except (IndexError, ValueError) as reason:
        raise ProtocolError(f"a principal in {len(data)} bytes: {reason}") from reason
    if not (kind and name) or position >= len(data):
        raise ProtocolError(f"a principal in {len(data)} bytes has no type, name or end")
    return Principal(kind, name)


def _text(data: bytes, position: int) -> tuple[str, int]:
    length, position = read_varint(data, position)
    end = position + length - 1
    if length < 1 or end > len(data):
        raise ValueError(f"a text of {length - 1} bytes at byte {position}")
    return data[position:end].decode("utf-8"), end


def encode_host(host: str) -> bytes:
    """Four or sixteen bytes; none where a connection has no address."""
    try:
        return ip_address(host).packed
    except ValueError:
        return b""


def decode_host(data: bytes) -> str:
    try:
        return str(ip_address(data)) if data else ""
    except ValueError as reason:
        raise ProtocolError(f"an address of {len(data)} bytes") from reason
