"""Requests and responses with their headers.

A frame here is what follows the four bytes of its length. Those are the network layer's: it must
refuse a length before it allocates anything, and it knows the size of what it sends.

Request headers are version 2 for flexible requests and version 1 for the others; the client
id has the old form in both. Response headers are version 1 or 0 in the same way, except
that ApiVersions always answers with version 0: a client that asks does not yet know what
the broker speaks (KIP-511).
"""

import struct
from functools import lru_cache
from struct import Struct as Layout
from typing import NamedTuple

from tidelog.wire.protocol.apis import API_BY_KEY, API_VERSIONS, request_class, response_class
from tidelog.wire.protocol.codec import decode, encode_parts
from tidelog.wire.protocol.errors import ProtocolError, UnsupportedVersion
from tidelog.wire.protocol.message import Buffer, Message
from tidelog.wire.protocol.source import STRING_BYTES_MAX
from tidelog.wire.protocol.varints import skip_tags

_REQUEST = Layout(">hhih")
_RESPONSE = Layout(">i")
_TAGGED_RESPONSE = Layout(">ix")
_REMEMBERED = 512
"""Pairs of API and version. Peers may make up others: those take the places of each other."""


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None


def read_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header of a request and the position of the body.

    Whether the version is one we serve is not asked here, so that a connection can answer
    an ApiVersions request from the future without touching its body.
    """
    try:
        key, version, correlation_id, length = _REQUEST.unpack_from(frame)
        position = _REQUEST.size
        client_id = None
        if length >= 0:
            if length > len(frame) - position:
                raise ProtocolError(f"a client id of {length} bytes in {len(frame)} of a request")
            client_id = str(frame[position : position + length], "utf-8")
            position += length
        if is_flexible(key, version):
            position = _after_tags(frame, position)
    except (struct.error, IndexError, ValueError) as reason:
        raise ProtocolError(f"a request header in {len(frame)} bytes: {reason}") from reason
    return RequestHeader(key, version, correlation_id, client_id), position


def decode_request(frame: Buffer) -> tuple[RequestHeader, Message]:
    """A whole request. Trailing bytes are allowed."""
    header, position = read_request_header(frame)
    return header, decode(request_class(header.api_key), header.api_version, frame, position)


def encode_request(header: RequestHeader, request: Message) -> list[Buffer]:
    """The buffers of a request."""
    assert request.__api_key__ == header.api_key, (request.__api_key__, header.api_key)
    return encode_parts(request, header.api_version, encode_request_header(header))


def encode_request_header(header: RequestHeader) -> bytes:
    """What stands before the body of a request."""
    key, version, correlation_id, client_id = header
    name = b"" if client_id is None else client_id.encode()
    if len(name) > STRING_BYTES_MAX:
        raise ProtocolError(f"a client id of {len(name)} bytes")
    length = -1 if client_id is None else len(name)
    begin = _REQUEST.pack(key, version, correlation_id, length) + name
    return begin + b"\0" if is_flexible(key, version) else begin


def read_response_header(frame: Buffer, key: int, version: int) -> tuple[int, int]:
    """The correlation id of a response and the position of the body."""
    try:
        (correlation_id,) = _RESPONSE.unpack_from(frame)
        position = _RESPONSE.size
        if has_tagged_response_header(key, version):
            position = _after_tags(frame, position)
    except (struct.error, IndexError) as reason:
        raise ProtocolError(f"a response header in {len(frame)} bytes: {reason}") from reason
    return correlation_id, position


def decode_response(frame: Buffer, key: int, version: int) -> tuple[int, Message]:
    """The correlation id and the response."""
    correlation_id, position = read_response_header(frame, key, version)
    return correlation_id, decode(response_class(key), version, frame, position)


def encode_response(correlation_id: int, response: Message, version: int) -> list[Buffer]:
    """The buffers of a response, for `writelines`."""
    begin = encode_response_header(correlation_id, response.__api_key__, version)
    return encode_parts(response, version, begin)


def encode_response_header(correlation_id: int, key: int, version: int) -> bytes:
    """What stands before the body of a response."""
    layout = _TAGGED_RESPONSE if has_tagged_response_header(key, version) else _RESPONSE
    return layout.pack(correlation_id)


@lru_cache(maxsize=_REMEMBERED)
def is_flexible(key: int, version: int) -> bool:
    """Whether a request of this version has tagged fields (KIP-482)."""
    api = API_BY_KEY.get(key)
    if api is None:
        raise UnsupportedVersion(f"API {key} v{version} is unknown")
    return api.is_flexible(version)


@lru_cache(maxsize=_REMEMBERED)
def has_tagged_response_header(key: int, version: int) -> bool:
    return key != API_VERSIONS and is_flexible(key, version)


def _after_tags(frame: Buffer, position: int) -> int:
    count = frame[position]
    return skip_tags(frame, position + 1, count) if count else position + 1
