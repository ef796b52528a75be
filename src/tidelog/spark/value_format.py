"""Keys and values that are more than bytes: `valueFormat=json` with a schema of the user's.

The values of a piece are parsed together, by Arrow's own parser. Only when it refuses them the
piece is halved until the malformed ones stand alone: they are null, or they end the query with
`mode=failfast`. With `mode=keep` they are null too, and the columns `badReason` and `badValue` say
why and what they were.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from tidelog.spark.failure import TidelogError
from tidelog.wire.arrow.schema import COLUMN_TYPES

if TYPE_CHECKING:
    from tidelog.spark.registry_values import RegistryValues

FIELD: Final = "v"
# Each value becomes the one field of an object of its own. Two values in one, half a value or
# none are then errors, and a value may be anything that JSON knows.
BEFORE, AFTER, NOTHING, NULL = b'{"v":', b"}\n", b"", b"null"
SHOWN_BYTES: Final = 60
REASON, RAW_VALUE = "badReason", "badValue"
BAD_COLUMNS: Final = {REASON: pa.string(), RAW_VALUE: pa.binary()}


class ValueFormat(NamedTuple):
    """What keys and values are made into. Goes to tasks.

    `fields` are the fields of an object that is the value, as columns of their own; then the
    value itself is no column.
    """

    value: pa.DataType | None = None
    key: pa.DataType | None = None
    fields: tuple[str, ...] = ()
    fail_fast: bool = False
    keeps_bad: bool = False
    registry: "RegistryValues | None" = None
    """Values begin with the id of a schema."""

    def raw_columns(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """What has to be read of records, so that these columns can be made of it. Offsets are
        always there, to name malformed records by."""
        of_value = (*self.fields, *BAD_COLUMNS)
        needed = ["value" if name in of_value else name for name in columns]
        return tuple(dict.fromkeys((*needed, "offset")))

    def made(self, piece: pa.RecordBatch, columns: tuple[str, ...], place: str) -> pa.RecordBatch:
        """These columns of a piece that has the raw ones."""
        bad: dict[int, str] = {}
        found: dict[str, pa.Array] = {}
        if self.key is not None and "key" in columns:
            found["key"] = self._typed("key", piece, self.key, place, bad)
        if self.value is not None and ("value" in columns or self.fields):
            value = self._typed("value", piece, self.value, place, bad)
            found["value"] = value
            if self.fields:  # null where the whole value is
                parts = zip(value.type, value.flatten(), strict=True)
                found.update((field.name, array) for field, array in parts)
        if self.keeps_bad:
            found.update(_bad_columns(piece, bad))
        arrays = [found[name] if name in found else piece[name] for name in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema(columns))

    def schema(self, columns: tuple[str, ...]) -> pa.Schema:
        """The Arrow schema of these columns."""
        kinds = {**COLUMN_TYPES, **BAD_COLUMNS}
        kinds.update({"key": self.key or kinds["key"], "value": self.value or kinds["value"]})
        if self.fields:
            assert self.value is not None, self.fields
            kinds.update((field.name, field.type) for field in self.value)
        return pa.schema([(name, kinds[name]) for name in columns])

    def _typed(
        self, name: str, piece: pa.RecordBatch, kind: pa.DataType, place: str, bad: dict[int, str]
    ) -> pa.Array:
        """The column, null where a record is bad; `bad` gets the reason of each such row."""
        raw = piece[name]
        if pa.types.is_string(kind):  # the same bytes, as a cast in Spark has it
            return pa.Array.from_buffers(
                kind, len(raw), raw.buffers(), null_count=raw.null_count, offset=raw.offset
            )
        if name == "value" and self.registry is not None:
            made = self.registry.decoded(raw, kind, bad)
        else:
            made = _json(name, raw, kind, bad)
        if self.fail_fast and bad:
            refuse_first(piece, name, bad, place)
        return made


def _json(name: str, raw: pa.Array, kind: pa.DataType, bad: dict[int, str]) -> pa.Array:
    parts = _parsed(raw, kind)
    row = 0
    for part in parts:
        if part is None:
            bad[row] = f"the {name} is no JSON of the schema"
        row += 1 if part is None else len(part)
    made = [pa.nulls(1, kind) if part is None else part for part in parts]
    return made[0] if len(made) == 1 else pa.concat_arrays(made) if made else pa.array([], kind)


def _bad_columns(piece: pa.RecordBatch, bad: dict[int, str]) -> dict[str, pa.Array]:
    rows = piece.num_rows
    if not bad:
        return {name: pa.nulls(rows, kind) for name, kind in BAD_COLUMNS.items()}
    reasons = pa.array([bad.get(row) for row in range(rows)], pa.string())
    values = pc.if_else(reasons.is_valid(), piece["value"], pa.scalar(None, pa.binary()))
    return {REASON: reasons, RAW_VALUE: values}


def json_or_null(raw: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values as JSON of a type; null where one is malformed."""
    parts = [pa.nulls(1, kind) if part is None else part for part in _parsed(raw, kind)]
    return pa.concat_arrays(parts) if parts else pa.array([], kind)


def _parsed(raw: pa.Array, kind: pa.DataType) -> list[pa.Array | None]:
    """The values in order, in as few arrays as possible; None stands for a malformed one."""
    if len(raw) == 0:
        return []
    try:
        return [_parse(raw, kind)]
    except pa.ArrowInvalid:
        if len(raw) == 1:
            return [None]
    half = len(raw) // 2
    return [*_parsed(raw[:half], kind), *_parsed(raw[half:], kind)]


def _parse(raw: pa.Array, kind: pa.DataType) -> pa.Array:
    """All of them at once; ArrowInvalid if one is malformed."""
    lines = pc.binary_join_element_wise(
        pa.scalar(BEFORE), raw.fill_null(pa.scalar(NULL)), pa.scalar(AFTER), pa.scalar(NOTHING)
    )
    text = lines.buffers()[2]
    table = pj.read_json(
        pa.BufferReader(text),
        pj.ReadOptions(use_threads=False, block_size=text.size + 1),
        pj.ParseOptions(
            explicit_schema=pa.schema([(FIELD, kind)]),
            newlines_in_values=True,
            unexpected_field_behavior="ignore",
        ),
    )
    if table.num_rows != len(raw):
        raise pa.ArrowInvalid(f"{table.num_rows} objects in {len(raw)} values")
    made = table[FIELD]
    return made.chunk(0) if made.num_chunks == 1 else pa.concat_arrays(made.chunks)


def refuse_first(piece: pa.RecordBatch, name: str, bad: dict[int, str], place: str) -> None:
    row = min(bad)
    shown = bytes(piece[name][row].as_py())[:SHOWN_BYTES].decode(errors="replace")
    at = f"the {name} at offset {piece['offset'][row].as_py()} of {place}"
    raise TidelogError(
        f"{at} {bad[row].removeprefix(f'the {name} ')}: {shown!r}",
        "correct the schema, or say mode=permissive to get null for it; "
        "an archive takes --on-bad-record dead-letter",
    )
