"""Where a change stands at its source, as text: the text of a later change is greater.

Numbers are written with leading zeros. What a source block says depends on the database: PostgreSQL
has `lsn`, MySQL and MariaDB `file`, `pos` and `row`, SQL Server `commit_lsn`, `change_lsn` and
`event_serial_no`, Oracle `scn`. Others are ordered by `ts_ms`, the time at the source.
"""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.spark.failure import InvalidOption

DIGITS = 20
SIGN = 1 << 63
"""Added to signed numbers, so that negative ones sort before the others."""
NOTHING = pa.scalar("", pa.string())

SOURCE = pa.struct(
    [
        ("connector", pa.string()),
        ("ts_ms", pa.int64()),
        ("lsn", pa.int64()),
        ("file", pa.string()),
        ("pos", pa.int64()),
        ("row", pa.int64()),
        ("scn", pa.string()),
        ("commit_lsn", pa.string()),
        ("change_lsn", pa.string()),
        ("event_serial_no", pa.int64()),
    ]
)
"""What is read of a source block that is JSON."""


def of_source(source: pa.StructArray) -> pa.StringArray:
    """Empty where the block does not say. Kinds of positions are not mixed: where the connector is
    known, only what it orders by counts, so a snapshot without it comes before all changes."""
    connector = _field(source, "connector", pa.string())
    of_kinds = [(pa.array(names), position(source)) for names, position in KINDS]
    own = [
        pc.if_else(pc.is_in(connector, names), pc.fill_null(position, ""), None)
        for names, position in of_kinds
    ]
    time = _number(_field(source, "ts_ms", pa.int64()))
    return pc.coalesce(*own, *(position for _, position in of_kinds), time, NOTHING)


def _postgres(source: pa.StructArray) -> pa.StringArray:
    return _number(_field(source, "lsn", pa.int64()))


def _mysql(source: pa.StructArray) -> pa.StringArray:
    file = _field(source, "file", pa.string())
    number = pc.struct_field(pc.extract_regex(file, r"(?P<number>\d+)$"), "number")
    row = pc.fill_null(_number(_field(source, "row", pa.int64())), "0" * DIGITS)
    parts = (_padded(number), _number(_field(source, "pos", pa.int64())), row)
    return pc.binary_join_element_wise(*parts, "/")


def _sql_server(source: pa.StructArray) -> pa.StringArray:
    commit = _field(source, "commit_lsn", pa.string())
    change = pc.fill_null(_field(source, "change_lsn", pa.string()), "")
    serial = pc.fill_null(_number(_field(source, "event_serial_no", pa.int64())), "0" * DIGITS)
    return pc.binary_join_element_wise(commit, change, serial, "/")


def _oracle(source: pa.StructArray) -> pa.StringArray:
    return _padded(_field(source, "scn", pa.string()))


KINDS: tuple[tuple[tuple[str, ...], Callable[[pa.StructArray], pa.StringArray]], ...] = (
    (("postgresql",), _postgres),
    (("mysql", "mariadb"), _mysql),
    (("sqlserver",), _sql_server),
    (("oracle",), _oracle),
)


def of_columns(columns: list[pa.Array], names: tuple[str, ...]) -> pa.StringArray:
    """Of columns that the user names; null where one of them is."""
    last = len(columns) - 1
    parts = [
        _ordered(column, name, is_last=index == last)
        for index, (column, name) in enumerate(zip(columns, names, strict=True))
    ]
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "/")


def _ordered(column: pa.Array, name: str, *, is_last: bool) -> pa.StringArray:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        wide = column.cast(pa.int32()) if pa.types.is_date32(kind) else column
        numbers = wide.cast(pa.int64()).to_pylist()
        return pa.array([None if each is None else f"{each + SIGN:020d}" for each in numbers])
    if pa.types.is_string(kind) and is_last:
        return column
    raise InvalidOption(
        f"changes cannot be ordered by {name}, which is {kind}",
        "whole numbers, dates and times order them; a text may be the last of several",
    )


def check_order(row: pa.Schema, names: tuple[str, ...]) -> None:
    """InvalidOption if rows do not have these columns, or if those order nothing."""
    for name in names:
        if name not in row.names:
            raise InvalidOption(
                f"there is no column {name} to order changes by", f"one of {', '.join(row.names)}"
            )
    of_columns([pa.array([], row.field(name).type) for name in names], names) if names else None


def _field(source: pa.StructArray, name: str, kind: pa.DataType) -> pa.Array:
    """Null where the block has no such field."""
    index = source.type.get_field_index(name)
    if index < 0:
        return pa.nulls(len(source), kind)
    return pc.struct_field(source, name).cast(kind)


def _number(values: pa.Array) -> pa.StringArray:
    return _padded(values.cast(pa.string()))


def _padded(values: pa.StringArray) -> pa.StringArray:
    return pc.utf8_lpad(values, DIGITS, "0")
