"""Decodes many Avro values at once: numpy reads one field of all values in one step.

This works for records, also nested ones, with nulls, strings, bytes, enums, dates and times. Lists,
maps, decimals and unions of several types have no such reader. A value that may be malformed is
left to the decoder in `value_languages`, which reads one value at a time and can say what is wrong.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.registry.wire_format import HEAD_BYTES, MAGIC

Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Truths = npt.NDArray[np.bool_]

PADDING: Final = 16
"""A number that begins at the end of the last value is looked at all the same."""
TOPS: Final = 0x8080808080808080
SEVENS: Final = 0x7F7F7F7F7F7F7F7F
NUMBER_OF_BYTE: Final = 0x0102030405060708
"""Times 2 to the power of 8 n: its first byte is n + 1."""
INT_MAX: Final = 2**31 - 1

# What Python's dates and times can be: others are refused where values are read one by one.
DAYS: Final = (-719_162, 2_932_896)
MILLIS: Final = (-62_135_596_800_000, 253_402_300_799_999)
MICROS: Final = (MILLIS[0] * 1000, MILLIS[1] * 1000 + 999)


class Cursors:
    """Where each of many values is read next. None of them ever leaves its value."""

    __slots__ = ("at", "bad", "data", "ends", "words")

    def __init__(self, data: npt.NDArray[np.uint8], at: Longs, ends: Longs) -> None:
        """The data goes on for `PADDING` bytes behind the last end."""
        self.data = data
        shape = (len(data) - 7,)
        self.words: Words = np.ndarray(shape, "<u8", data, strides=(1,))  # eight bytes from each on
        self.at = at
        self.ends = ends
        self.bad: Truths = np.zeros(len(at), bool)

    def __len__(self) -> int:
        return len(self.at)

    def some(self, rows: Longs) -> "Cursors":
        found = Cursors(self.data, self.at[rows], self.ends[rows])
        found.bad = self.bad[rows]
        return found

    def put_back(self, rows: Longs, some: "Cursors") -> None:
        self.at[rows], self.bad[rows] = some.at, some.bad

    def advance(self, size: Longs | int) -> None:
        at = self.at + size
        beyond = at > self.ends
        if beyond.any():
            self.bad |= beyond
            at = np.minimum(at, self.ends)
        self.at = at

    def refuse(self, wrong: Truths, numbers: Longs) -> Longs:
        """The numbers, with a harmless one where they are wrong."""
        if not wrong.any():
            return numbers
        self.bad |= wrong
        return np.where(wrong, 0, numbers)

    def longs(self) -> Longs:
        """Avro's numbers: seven bits per byte, the smallest first, the sign in the lowest."""
        word = self.words[self.at]
        tops = ~word & TOPS
        last = tops & (~tops + 1)  # the top bit of the last byte, if that is one of these eight
        number = word & SEVENS & (last - 1)
        number = (number & 0x007F007F007F007F) | ((number & 0x7F007F007F007F00) >> 1)
        number = (number & 0x00003FFF00003FFF) | ((number & 0x3FFF00003FFF0000) >> 2)
        number = (number & 0x000000000FFFFFFF) | ((number & 0x0FFFFFFF00000000) >> 4)
        size = (((last >> 7) * NUMBER_OF_BYTE) >> 56).astype(np.int64)
        longer = np.flatnonzero(last == 0)
        if len(longer):
            self._finish(longer, number, size)
        self.advance(size)
        half, sign = (number >> 1).view(np.int64), (number & 1).view(np.int64)
        return half ^ -sign

    def _finish(self, rows: Longs, number: npt.NDArray[Any], size: Longs) -> None:
        """Numbers of nine and ten bytes; longer ones are none."""
        at = self.at[rows]
        ninth, tenth = (self.data[at + each].astype(np.uint64) for each in (8, 9))
        more = ninth >= 0x80
        number[rows] |= ((ninth & 0x7F) << 56) | np.where(more, (tenth & 1) << 63, 0)
        size[rows] = np.where(more, 10, 9)
        self.bad[rows] |= more & (tenth > 1)

    def texts(self, size: Longs) -> pa.Array:
        """So many bytes of each value from here on, as binary."""
        size = self.refuse((size < 0) | (size > self.ends - self.at), size)
        if len(self) == 0:
            return pa.array([], pa.binary())
        offsets = np.empty(2 * len(self), np.int32)
        offsets[0::2], offsets[1::2] = self.at, self.at + size
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        # What is between two of them is one as well, so the bytes need not be moved for it.
        both = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
        self.at = self.at + size
        return both.take(pa.array(np.arange(0, len(offsets), 2)))


class Frames(NamedTuple):
    """Which values begin with the id of a schema, and where they lie."""

    data: npt.NDArray[np.uint8]
    offsets: Longs
    rows: Longs
    """Those that do so."""
    schema_ids: Longs

    def by_schema(self) -> Iterator[tuple[int, Longs]]:
        """Schemas in the order in which they are met, each with its rows."""
        numbers, firsts = np.unique(self.schema_ids, return_index=True)
        for number in numbers[np.argsort(firsts)]:
            yield int(number), self.rows[self.schema_ids == number]

    def bodies(self, rows: Longs) -> Cursors:
        """At what follows the ids."""
        return Cursors(self.data, self.offsets[rows] + HEAD_BYTES, self.offsets[rows + 1])


def frames_of(raw: pa.Array) -> Frames:
    _, offset_bytes, data_bytes = raw.buffers()
    if len(raw) == 0 or data_bytes is None:
        nothing = np.zeros(0, np.int64)
        return Frames(np.zeros(PADDING, np.uint8), nothing, nothing, nothing)
    offsets = np.frombuffer(offset_bytes, np.int32)[raw.offset : raw.offset + len(raw) + 1]
    first, end = int(offsets[0]), int(offsets[-1])
    data = np.zeros(end - first + PADDING, np.uint8)
    data[: end - first] = np.frombuffer(data_bytes, np.uint8)[first:end]
    places = offsets.astype(np.int64) - first
    starts = places[:-1]
    is_framed = (np.diff(places) >= HEAD_BYTES) & (data[starts] == MAGIC)
    is_framed &= raw.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(is_framed)
    at = starts[rows]
    schema_ids = np.zeros(len(rows), np.int64)
    for index in range(1, HEAD_BYTES):
        schema_ids = (schema_ids << 8) | data[at + index]
    return Frames(data, places, rows, schema_ids)


Read = Callable[[Cursors], pa.Array]
"""Reads one field of all values, and leaves the cursors behind it."""


class _OneByOne(Exception):  # noqa: N818 - it names how such values are read
    """A schema has something for which there is no reader here."""


def column_reader(schema: Any, named: dict[str, Any]) -> Read | None:
    """For a record as fastavro has parsed it; None if its values have to be read one by one."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind not in ("record", "error"):
        return None
    try:
        return _reader(schema, named)
    except _OneByOne:
        return None


def _reader(schema: Any, named: dict[str, Any]) -> Read:
    if isinstance(schema, list):
        return _union(schema, named)
    if isinstance(schema, str):
        return SIMPLE[schema] if schema in SIMPLE else _reader(named[schema], named)
    kind, logical = schema["type"], schema.get("logicalType")
    if logical is not None:
        if (kind, logical) not in LOGICAL:
            raise _OneByOne
        return LOGICAL[kind, logical]
    if kind in ("record", "error"):
        fields = [(each["name"], _reader(each["type"], named)) for each in schema["fields"]]
        return partial(_record, fields=fields)
    if kind == "enum":
        return partial(_enum, symbols=pa.array(schema["symbols"], pa.string()))
    if kind == "fixed":
        return partial(_fixed, size=schema["size"])
    if kind in ("array", "map"):
        raise _OneByOne
    return _reader(kind, named)


def _union(schema: list[Any], named: dict[str, Any]) -> Read:
    if len(schema) != 2 or schema.count("null") != 1:
        raise _OneByOne
    null = schema.index("null")
    return partial(_optional, null=null, read=_reader(schema[1 - null], named))


def _optional(cursors: Cursors, *, null: int, read: Read) -> pa.Array:
    branch = cursors.data[cursors.at]
    cursors.bad |= (branch != 0) & (branch != 2)
    cursors.advance(1)
    is_there = branch == 2 * (1 - null)
    rows = np.flatnonzero(is_there)
    if len(rows) == len(cursors):
        return read(cursors)
    some = cursors.some(rows)
    found = read(some)
    cursors.put_back(rows, some)
    return found.take(pa.array(np.cumsum(is_there) - 1, mask=~is_there))


def _record(cursors: Cursors, *, fields: list[tuple[str, Read]]) -> pa.Array:
    found = [(name, read(cursors)) for name, read in fields]
    kind = pa.struct([(name, column.type) for name, column in found])
    if not found:
        return pa.array([{}] * len(cursors), kind)
    return pa.StructArray.from_arrays([column for _, column in found], fields=list(kind))


def _null(cursors: Cursors) -> pa.Array:
    return pa.nulls(len(cursors), pa.string())


def _boolean(cursors: Cursors) -> pa.Array:
    byte = cursors.data[cursors.at]
    cursors.bad |= byte > 1
    cursors.advance(1)
    return pa.array(byte == 1)


def _long(cursors: Cursors) -> pa.Array:
    return pa.array(cursors.longs())


def _int(cursors: Cursors) -> pa.Array:
    return pa.array(_between(cursors, -INT_MAX - 1, INT_MAX).astype(np.int32))


def _between(cursors: Cursors, low: int, high: int) -> Longs:
    numbers = cursors.longs()
    return cursors.refuse((numbers < low) | (numbers > high), numbers)


def _float(cursors: Cursors) -> pa.Array:
    found = cursors.words[cursors.at].astype(np.uint32).view(np.float32)  # the lower half
    cursors.advance(4)
    return pa.array(found)


def _double(cursors: Cursors) -> pa.Array:
    found = cursors.words[cursors.at].view(np.float64)
    cursors.advance(8)
    return pa.array(found)


def _bytes(cursors: Cursors) -> pa.Array:
    return cursors.texts(cursors.longs())


def _fixed(cursors: Cursors, *, size: int) -> pa.Array:
    return cursors.texts(np.full(len(cursors), size))


def _string(cursors: Cursors) -> pa.Array:
    found = _bytes(cursors)
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        wrong = np.array([not _is_text(each) for each in found.to_pylist()])
    cursors.bad |= wrong
    rest = pa.array(np.flatnonzero(~wrong))
    places = pa.array(np.cumsum(~wrong) - 1, mask=wrong)
    return found.take(rest).cast(pa.string()).take(places)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _enum(cursors: Cursors, *, symbols: pa.Array) -> pa.Array:
    return symbols.take(pa.array(_between(cursors, 0, len(symbols) - 1)))


def _date(cursors: Cursors) -> pa.Array:
    return pa.array(_between(cursors, *DAYS).astype(np.int32)).view(pa.date32())


def _timestamp(cursors: Cursors, *, bounds: tuple[int, int], micros: int) -> pa.Array:
    found = _between(cursors, *bounds) * micros
    return pa.array(found).view(pa.timestamp("us", "UTC"))


SIMPLE: Final[dict[str, Read]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _float,
    "double": _double,
    "string": _string,
    "bytes": _bytes,
}
LOGICAL: Final[dict[tuple[str, str], Read]] = {
    ("int", "date"): _date,
    ("long", "timestamp-millis"): partial(_timestamp, bounds=MILLIS, micros=1000),
    ("long", "timestamp-micros"): partial(_timestamp, bounds=MICROS, micros=1),
}
