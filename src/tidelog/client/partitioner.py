"""Which partition a key belongs to: as Java's clients have it, or records of one key scatter."""

from tidelog.wire.murmur2 import murmur2


def partition_of_key(key: bytes, partitions: int) -> int:
    assert partitions > 0, partitions
    return (murmur2(key) & 0x7FFFFFFF) % partitions
