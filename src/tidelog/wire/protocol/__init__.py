"""Requests, responses and metadata records of Kafka's protocol, as objects and as bytes.

Rules: nothing but `ProtocolError` and its kinds escapes on bytes from outside; no memory is
taken on the word of a length or a count that was not compared with the bytes that are
left; records are never copied; unknown tags and trailing bytes are read over. The classes
of messages are in `schemas` and `metadata_schemas`: one per message, for all its versions.
"""

from tidelog.wire.protocol.apis import (
    API_BY_KEY,
    API_VERSIONS,
    APIS,
    Api,
    ApiRange,
    Listener,
    Release,
    offered,
    request_class,
    response_class,
    supported_versions,
)
from tidelog.wire.protocol.codec import decode, decode_at, encode, encode_parts
from tidelog.wire.protocol.errors import ProtocolError, UnsupportedVersion
from tidelog.wire.protocol.frames import (
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_request_header,
    encode_response,
    encode_response_header,
    read_request_header,
    read_response_header,
)
from tidelog.wire.protocol.message import ZERO_UUID, Buffer, Message, Struct, Versions
from tidelog.wire.protocol.metadata_records import decode_record, encode_record

__all__ = [
    "APIS",
    "API_BY_KEY",
    "API_VERSIONS",
    "ZERO_UUID",
    "Api",
    "ApiRange",
    "Buffer",
    "Listener",
    "Message",
    "ProtocolError",
    "Release",
    "RequestHeader",
    "Struct",
    "UnsupportedVersion",
    "Versions",
    "decode",
    "decode_at",
    "decode_record",
    "decode_request",
    "decode_response",
    "encode",
    "encode_parts",
    "encode_record",
    "encode_request",
    "encode_request_header",
    "encode_response",
    "encode_response_header",
    "offered",
    "read_request_header",
    "read_response_header",
    "request_class",
    "response_class",
    "supported_versions",
]
