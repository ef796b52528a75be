"""Unsigned varints of the flexible encoding: lengths plus one, tags, sizes of tagged fields."""

from collections.abc import Sequence

from tidelog.wire.protocol.errors import ProtocolError

VARINT_BYTES_MAX = 5


def read_varint(data: Sequence[int], position: int) -> tuple[int, int]:
    """A value and the position after it. IndexError at the end of the data."""
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    return read_long_varint(data, position + 1, byte)


def read_long_varint(data: Sequence[int], position: int, first: int) -> tuple[int, int]:
    """The rest of a varint whose first byte, already read, said that more follows."""
    byte = data[position]
    if byte < 0x80:  # lengths up to 16 KiB
        return (first & 0x7F) | byte << 7, position + 1
    third = data[position + 1]
    if third < 0x80:  # lengths up to 2 MiB
        return (first & 0x7F) | (byte & 0x7F) << 7 | third << 14, position + 2
    value = first & 0x7F
    for shift in range(7, 7 * VARINT_BYTES_MAX, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 32:
                raise ProtocolError(f"varint {value} does not fit into 32 bits")
            return value, position
    raise ProtocolError(f"varint of more than {VARINT_BYTES_MAX} bytes")


def varint(value: int) -> bytes:
    """The bytes of a value; callers know that it is not negative."""
    assert value >= 0, value
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((0x80 | (value & 0x7F), value >> 7))
    if value < 0x200000:
        return bytes((0x80 | (value & 0x7F), 0x80 | (value >> 7 & 0x7F), value >> 14))
    out = bytearray()
    while value > 0x7F:
        out.append(0x80 | (value & 0x7F))
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tags(data: Sequence[int], position: int, count: int) -> int:
    """The position after so many tagged fields, none of which we know.

    Skipping by size is what lets older software read newer messages (KIP-482). `count` is
    the first byte of the count.
    """
    end = len(data)
    if count > 0x7F:
        count, position = read_long_varint(data, position, count)
    if count * 2 > end - position:
        raise ProtocolError(f"{count} tagged fields in {end - position} bytes")
    for _ in range(count):
        _, position = read_varint(data, position)
        size, position = read_varint(data, position)
        position += size
        if position > end:
            raise ProtocolError(f"a tagged field of {size} bytes ends {position - end} too late")
    return position
