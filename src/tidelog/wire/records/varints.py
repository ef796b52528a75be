"""Zigzag varints: at most 5 bytes for an int32, at most 10 for an int64."""

from tidelog.wire.records.errors import InvalidRecord


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """An int32 and the position after it. IndexError at the end of the data: callers say
    what was cut short."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    second = data[position + 1]
    if second < 0x80:  # lengths of 64 to 8191
        zigzag = (byte & 0x7F) | second << 7
        return (zigzag >> 1) ^ -(zigzag & 1), position + 2
    return _read_long(data, position, 32)


def read_varlong(data: bytes, position: int) -> tuple[int, int]:
    """An int64 and the position after it."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read_long(data, position, 64)


def write_varint(out: bytearray, value: int) -> None:
    """Appends a signed value of any width; callers know that it fits."""
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    while zigzag > 0x7F:
        out.append(0x80 | (zigzag & 0x7F))
        zigzag >>= 7
    out.append(zigzag)


def _read_long(data: bytes, position: int, bits: int) -> tuple[int, int]:
    zigzag = 0
    for shift in range(0, bits, 7):
        byte = data[position]
        position += 1
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            if zigzag >> bits:
                raise InvalidRecord(f"varint {zigzag} does not fit into {bits} bits")
            return (zigzag >> 1) ^ -(zigzag & 1), position
    raise InvalidRecord(f"varint of more than {(bits + 6) // 7} bytes")
