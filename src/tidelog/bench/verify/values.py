"""Values that tell who wrote them, and of which no two are the same."""

import hashlib

BLOCK_BYTES = 1 << 16
BLOCK = hashlib.shake_256(b"tidelog bench verify").digest(BLOCK_BYTES)
STRIDE = 8_191
"""Prime: neighbours take their filling from quite different places."""
VALUE_BYTES_MIN, VALUE_BYTES_MAX = 32, BLOCK_BYTES // 2


def value_of(writer: int, number: int, size_bytes: int) -> bytes:
    """`writer:number:filling`, as `tidelog.audit.ledger` reads it."""
    assert VALUE_BYTES_MIN <= size_bytes <= VALUE_BYTES_MAX, size_bytes
    name = b"%d:%d:" % (writer, number)
    start = (writer * 131 + number) * STRIDE % (BLOCK_BYTES - size_bytes)
    return name + BLOCK[start : start + size_bytes - len(name)]


def writer_of(producer: int, partition: int, partitions: int) -> int:
    """A producer counts in each partition for itself: order is promised there."""
    return producer * partitions + partition
