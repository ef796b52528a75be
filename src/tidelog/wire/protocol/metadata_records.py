"""The value of a record in the metadata log: frame version, key, version, body.

The first three are unsigned varints. Unlike a request, a record has nothing after its body:
what is in the log was written by a controller, and a controller knows what it writes.
"""

from tidelog.wire.protocol.codec import decode_at, encode
from tidelog.wire.protocol.errors import ProtocolError, UnsupportedVersion
from tidelog.wire.protocol.message import Buffer, Message
from tidelog.wire.protocol.metadata_schemas import RECORDS
from tidelog.wire.protocol.varints import read_varint, varint

FRAME_VERSION = 1
RECORD_BY_KEY: dict[int, type[Message]] = {record.__api_key__: record for record in RECORDS}


def encode_record(record: Message, version: int) -> bytes:
    """The value of a metadata record."""
    key = record.__api_key__
    assert RECORD_BY_KEY.get(key) is type(record), f"{record!r} is not a metadata record"
    return varint(FRAME_VERSION) + varint(key) + varint(version) + encode(record, version)


def decode_record(value: Buffer) -> tuple[Message, int]:
    """The record and its version."""
    data = bytes(value)
    try:
        frame_version, position = read_varint(data, 0)
        key, position = read_varint(data, position)
        version, position = read_varint(data, position)
    except IndexError as reason:
        raise ProtocolError(f"a metadata record of {len(data)} bytes has no header") from reason
    if frame_version != FRAME_VERSION:
        raise UnsupportedVersion(f"metadata record with frame version {frame_version}")
    kind = RECORD_BY_KEY.get(key)
    if kind is None:
        raise UnsupportedVersion(f"metadata record with key {key}")
    record, position = decode_at(kind, version, data, position)
    if position != len(data):
        raise ProtocolError(f"{kind.__name__} with {len(data) - position} bytes after its end")
    return record, version
