"""Histories as Parquet, one column per field of a row. Needs pyarrow."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.audit.history.rows import OK, READ_BACK, BadHistory, Row

if TYPE_CHECKING:
    import pyarrow as pa

ADVICE = "pip install 'tidelog[spark]'"
ROWS_PER_GROUP = 128 * 1024
REQUIRED = ("client", "operation", "step", "op", "invoke_us", "outcome")
READ_BACK_CLIENT = "read-back"
READ_BACK_COLUMNS = ("topic", "partition", "offset", "value")


class ArrowMissing(Exception):  # noqa: N818 - it names what is so
    """There is no pyarrow here."""


def schema() -> "pa.Schema":
    pa = _arrow()
    return pa.schema(
        [
            pa.field("client", pa.string(), nullable=False),
            pa.field("operation", pa.int64(), nullable=False),
            pa.field("step", pa.int32(), nullable=False),
            pa.field("op", pa.string(), nullable=False),
            pa.field("invoke_us", pa.int64(), nullable=False),
            pa.field("complete_us", pa.int64()),
            pa.field("topic", pa.string()),
            pa.field("partition", pa.int32()),
            pa.field("offset", pa.int64()),
            pa.field("key", pa.binary()),
            pa.field("value", pa.int64()),
            pa.field("outcome", pa.string(), nullable=False),
            pa.field("transaction", pa.string()),
        ]
    )


def write(path: Path, rows: Sequence[Row]) -> None:
    """Replaces what is there."""
    pa = _arrow()
    import pyarrow.parquet as pq  # noqa: PLC0415 - an extra

    columns = list(zip(*rows, strict=True)) if rows else [()] * len(Row._fields)
    wanted = schema()
    arrays = [pa.array(column, field.type) for column, field in zip(columns, wanted, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=wanted), path, row_group_size=ROWS_PER_GROUP)


def read(path: Path) -> list[Row]:
    """BadHistory says what is wrong with a file that is none."""
    table = _table(path)
    return [Row(*values) for values in zip(*_columns(table, path, Row._fields), strict=True)]


def read_back(path: Path) -> list[Row]:
    """What was found by a last read, from another history or from a table with the columns topic,
    partition, offset and value."""
    table = _table(path)
    if "op" in table.schema.names:
        found = [row for row in read(path) if row.op == READ_BACK]
        if not found:
            raise BadHistory(f"{path} is a history without a {READ_BACK}")
        return found
    columns = _columns(table, path, READ_BACK_COLUMNS)
    return as_read_back(zip(*columns, strict=True))


def as_read_back(found: Iterable[tuple[str, int, int, int]]) -> list[Row]:
    """Rows for records as (topic, partition, offset, value)."""
    return [
        Row(
            READ_BACK_CLIENT,
            0,
            step,
            READ_BACK,
            0,
            None,
            topic,
            partition,
            offset,
            None,
            value,
            OK,
            None,
        )
        for step, (topic, partition, offset, value) in enumerate(found)
    ]


def topics_of(rows: Iterable[Row]) -> list[str]:
    return sorted({row.topic for row in rows if row.topic is not None})


def _table(path: Path) -> "pa.Table":
    pa = _arrow()
    import pyarrow.parquet as pq  # noqa: PLC0415 - an extra

    if not path.exists():
        raise BadHistory(f"there is no {path}")
    try:
        return pq.read_table(path)
    except (pa.ArrowException, OSError, ValueError) as reason:
        words = str(reason).splitlines()[0] if str(reason) else type(reason).__name__
        raise BadHistory(f"{path} is not Parquet: {words}") from None


def _columns(table: "pa.Table", path: Path, names: Sequence[str]) -> list[list[Any]]:
    """As Python values; BadHistory if one is missing, of another type, or null where it counts."""
    pa = _arrow()
    wanted = schema()
    columns = []
    for name in names:
        if name not in table.schema.names:
            raise BadHistory(f"{path} has no column {name}; a history has {', '.join(names)}")
        kind = wanted.field(name).type
        try:
            column = table.column(name).cast(kind)
        except pa.ArrowException:
            found = table.schema.field(name).type
            raise BadHistory(f"{path}: the column {name} is {found}, not {kind}") from None
        must_be_there = not wanted.field(name).nullable or len(names) < len(Row._fields)
        if must_be_there and column.null_count:
            raise BadHistory(f"{path}: the column {name} has {column.null_count} nulls")
        columns.append(column.to_pylist())
    return columns


def _arrow() -> Any:
    try:
        import pyarrow  # noqa: PLC0415 - an extra
    except ImportError:
        raise ArrowMissing("histories are Parquet, and pyarrow is not installed") from None
    return pyarrow
