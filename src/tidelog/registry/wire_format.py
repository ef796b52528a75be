"""What stands before a value that a serializer with a registry wrote."""

from typing import NamedTuple

MAGIC = 0
HEAD_BYTES = 5


class NotFramed(Exception):  # noqa: N818 - it names what is so
    """The value does not begin as those of serializers with a registry do."""


class Framed(NamedTuple):
    schema_id: int
    body: bytes
    """What follows the id; of Protobuf with the path of its message before it."""


def unframed(value: bytes) -> Framed:
    if len(value) < HEAD_BYTES or value[0] != MAGIC:
        raise NotFramed("has no schema id: it does not begin with a zero byte and four of an id")
    return Framed(int.from_bytes(value[1:HEAD_BYTES], "big"), value[HEAD_BYTES:])


def message_path(body: bytes) -> tuple[tuple[int, ...], bytes]:
    """Which message of its file a Protobuf value is, as indexes from the outside in, and the rest.
    A lone zero stands for the first message."""
    count, at = _zigzag(body, 0)
    if count == 0:
        return (0,), body[at:]
    if not 0 < count <= len(body):
        raise NotFramed("does not say which message it is")
    path = []
    for _ in range(count):
        index, at = _zigzag(body, at)
        path.append(index)
    return tuple(path), body[at:]


def _zigzag(body: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(body) or shift > 63:
            raise NotFramed("does not say which message it is")
        byte = body[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1), at
