"""The hash by which Java's clients spread keys over partitions."""

_MIX = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """MurmurHash2 of 32 bits with Kafka's seed, without a sign."""
    size = len(data)
    value = (_SEED ^ size) & _MASK
    whole = size - size % 4
    for position in range(0, whole, 4):
        block = int.from_bytes(data[position : position + 4], "little") * _MIX & _MASK
        block = (block ^ block >> 24) * _MIX & _MASK
        value = value * _MIX & _MASK ^ block
    if whole < size:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MIX & _MASK
    value = (value ^ value >> 13) * _MIX & _MASK
    return value ^ value >> 15
