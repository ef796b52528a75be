"""The one thing a coordinator reads in the papers of classic members: which topics they want.

Everything else in them is between the members. Layout (ConsumerProtocolSubscription): version
int16, count int32, then the topics, each with an int16 length.
"""

import struct


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """None if these are not the papers of a consumer."""
    try:
        version, count = struct.unpack_from(">hi", metadata)
        if version < 0 or count < 0:
            return None
        topics, at = set(), 6
        for _ in range(count):
            (length,) = struct.unpack_from(">h", metadata, at)
            at += 2
            if length < 0 or at + length > len(metadata):
                return None
            topics.add(metadata[at : at + length].decode())
            at += length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
