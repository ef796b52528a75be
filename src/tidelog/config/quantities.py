"""Durations and sizes as people write them: `500ms`, `30s`, `7d`; `1MiB`, `10MB`.

Whole milliseconds and whole bytes only: a value that would have to be rounded is refused.
"""

import re
from collections.abc import Mapping
from fractions import Fraction

DURATION_UNITS_MS = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
SIZE_UNITS = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}

# The length is limited because the text may come from anywhere.
QUANTITY = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,9})?) ?([A-Za-z]{1,3})")


def parse_duration_ms(text: str) -> int:
    """Milliseconds; ValueError says what is allowed."""
    return _parse(text, DURATION_UNITS_MS, "a duration such as 500ms, 30s, 5min, 12h or 7d")


def parse_size_bytes(text: str) -> int:
    """Bytes; ValueError says what is allowed."""
    return _parse(text, SIZE_UNITS, "a size such as 512B, 64KiB, 1MiB or 10MB")


def show_duration(duration_ms: int) -> str:
    """The largest unit that leaves a whole number: `9 s`, `7 d`, `1500 ms`."""
    units = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)]
    for name, unit_ms in units:
        if duration_ms and duration_ms % unit_ms == 0:
            return f"{duration_ms // unit_ms} {name}"
    return f"{duration_ms} ms"


def show_size(size_bytes: int) -> str:
    for name in ("GiB", "MiB", "KiB"):
        if size_bytes and size_bytes % SIZE_UNITS[name] == 0:
            return f"{size_bytes // SIZE_UNITS[name]} {name}"
    return f"{size_bytes} B"


def _parse(text: str, units: Mapping[str, int], allowed: str) -> int:
    match = QUANTITY.fullmatch(text.strip())
    unit = units.get(match.group(2)) if match else None
    if match is None or unit is None:
        raise ValueError(f"{text!r} is not {allowed}")
    exact = Fraction(match.group(1)) * unit
    if exact.denominator != 1:
        smallest = next(iter(units))
        raise ValueError(f"{text!r} is not a whole number of {smallest}")
    return int(exact)
