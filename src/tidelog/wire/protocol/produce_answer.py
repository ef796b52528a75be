"""The usual answer to a produce request: one partition, no error, nothing said about leaders.

Clients that send small requests send many; for them the general encoder takes as long as the
append. What this gives is, byte for byte, what that one would.
"""

import struct
from functools import lru_cache

from tidelog.wire.protocol.schemas.produce_response import PartitionProduceResponse
from tidelog.wire.protocol.varints import varint

FIRST_VERSION = 9
"""With tagged fields (KIP-482)."""
FIRST_VERSION_BY_TOPIC_ID = 13
LAST_VERSION = 13

_ONE_ELEMENT = b"\x02"
_PARTITION = struct.Struct(">ihqqqB8x")
"""Index, error code, base offset, append time, log start, then the count of no record errors; no
message and no tags, no tags of the topic, no throttle time, no tags of the answer."""
_REMEMBERED = 1_024


def plain_answer(
    version: int, topic_id: bytes, name: str, partition: PartitionProduceResponse
) -> bytes:
    """The body of the answer, for a version from FIRST_VERSION to LAST_VERSION."""
    assert FIRST_VERSION <= version <= LAST_VERSION, version
    topic = topic_id if version >= FIRST_VERSION_BY_TOPIC_ID else name
    return _up_to_partition(topic) + _PARTITION.pack(
        partition.index,
        0,
        partition.base_offset,
        partition.log_append_time_ms,
        partition.log_start_offset,
        1,
    )


@lru_cache(maxsize=_REMEMBERED)
def _up_to_partition(topic: bytes | str) -> bytes:
    if isinstance(topic, bytes):
        return _ONE_ELEMENT + topic + _ONE_ELEMENT
    name = topic.encode()
    return _ONE_ELEMENT + varint(len(name) + 1) + name + _ONE_ELEMENT
