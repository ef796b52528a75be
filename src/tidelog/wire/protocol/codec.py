"""Messages to bytes and back.

A function is compiled for each message, version and direction when it is first needed
(about a millisecond) and kept. `decoding` and `encoding` write their source; tracebacks
show it, and `decoder_source(FetchRequest, 13)` prints it.
"""

import linecache
import struct
from collections.abc import Callable
from typing import Any, TypeVar

from tidelog.wire.protocol.decoding import decoder_source
from tidelog.wire.protocol.encoding import encoder_source
from tidelog.wire.protocol.errors import ProtocolError, UnsupportedVersion
from tidelog.wire.protocol.message import Buffer, Message

M = TypeVar("M", bound=Message)
Decoder = Callable[[Buffer, int], tuple[Any, int]]
Encoder = Callable[[Any, bytearray, list[Buffer]], None]

_decoders: dict[tuple[type[Message], int], Decoder] = {}
_encoders: dict[tuple[type[Message], int], Encoder] = {}


def decode(message: type[M], version: int, data: Buffer, position: int = 0) -> M:
    """The message that begins at a position. Bytes after it are allowed: librdkafka sends
    three too many with some Metadata requests."""
    return decode_at(message, version, data, position)[0]


def decode_at(message: type[M], version: int, data: Buffer, position: int = 0) -> tuple[M, int]:
    """The message that begins at a position, and the position after it.

    Records are views of `data`. Everything else is a copy.
    """
    function = _decoders.get((message, version)) or decoder(message, version)
    if message.__holds_records__:
        data = memoryview(data)
    elif type(data) is not bytes:
        data = bytes(data)  # small, and faster to take apart than a view
    try:
        return function(data, position)
    except (struct.error, IndexError, ValueError) as reason:
        raise ProtocolError(f"{message.__name__} v{version} is cut short: {reason}") from reason


def encode_parts(message: Message, version: int, begin: bytes | bytearray = b"") -> list[Buffer]:
    """The message as buffers to be written one after the other; `begin` starts the first.

    Records are parts of their own and the very objects of the message.
    """
    kind = type(message)
    function = _encoders.get((kind, version)) or encoder(kind, version)
    parts: list[Buffer] = []
    try:
        function(message, bytearray(begin), parts)
    except (struct.error, ValueError, TypeError, AttributeError) as reason:
        raise ProtocolError(f"{kind.__name__} v{version} cannot be encoded: {reason}") from reason
    return parts


def encode(message: Message, version: int) -> bytes:
    """The message as one piece."""
    return b"".join(encode_parts(message, version))


def decoder(message: type[Message], version: int) -> Decoder:
    """The compiled function for one version; compiles it if this is the first use."""
    key = (message, version)
    if key not in _decoders:
        _check_version(message, version)
        _decoders[key] = _compiled("decode", key, *decoder_source(message, version))
    return _decoders[key]


def encoder(message: type[Message], version: int) -> Encoder:
    """The compiled function for one version; compiles it if this is the first use."""
    key = (message, version)
    if key not in _encoders:
        _check_version(message, version)
        _encoders[key] = _compiled("encode", key, *encoder_source(message, version))
    return _encoders[key]


def _check_version(message: type[Message], version: int) -> None:
    if version not in message.__versions__:
        known = f"versions {message.__versions__} are known"
        raise UnsupportedVersion(f"{message.__name__} v{version}: {known}")


def _compiled(
    name: str, key: tuple[type[Message], int], text: str, names: dict[str, object]
) -> Any:
    file = f"<{name} {key[0].__name__} v{key[1]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names)  # noqa: S102 - from our own schemas, never from input
    return names[name]
