"""Random messages, made from their schemas."""

from random import Random
from typing import TypeVar

from tidelog.wire.protocol.message import ZERO_UUID, Field, Struct

S = TypeVar("S", bound=Struct)

INT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
WORDS = ("", "orders", "zürich", "日本", "a" * 126, "b" * 127, "c" * 128, "x" * 300)


def random_message(kind: type[S], version: int, random: Random) -> S:
    """Fields that the version does not have keep their defaults."""
    values = {
        row.name: random_value(row, version, random)
        for row in kind.__fields__
        if version in row.versions
    }
    return kind(**values)


def random_value(row: Field, version: int, random: Random) -> object:
    if row.tag is not None and random.random() < 0.5:
        return row.default
    if version in row.nullable and random.random() < 0.25:
        return None
    if row.is_array:
        count = random.choice((0, 1, 1, 2, 3))
        if isinstance(row.kind, str) and random.random() < 0.1:
            count = 130
        return [random_element(row.kind, version, random) for _ in range(count)]
    element = random_element(row.kind, version, random)
    if isinstance(row.kind, type) and row.tag is not None and element == row.kind():
        return None  # a tagged struct that says nothing is not sent
    return element


def random_element(kind: str | type[Struct], version: int, random: Random) -> object:
    if isinstance(kind, type):
        return random_message(kind, version, random)
    if kind in INT_BITS:
        bits = random.choice((2, 8, INT_BITS[kind]))
        bits = min(bits, INT_BITS[kind])
        return random.randrange(-(1 << (bits - 1)), 1 << (bits - 1))
    if kind in ("uint16", "uint32"):
        return random.randrange(1 << int(kind[4:]))
    if kind == "bool":
        return random.random() < 0.5
    if kind == "float64":
        return random.uniform(-1e9, 1e9)
    if kind == "uuid":
        return random.choice((ZERO_UUID, random.randbytes(16)))
    if kind == "string":
        return random.choice(WORDS)
    assert kind in ("bytes", "records"), kind
    return random.randbytes(random.choice((0, 1, 60, 126, 127, 128, 500)))
