"""From Spark's schema to that of a table: times are instants in UTC, whatever the session says."""

from typing import TYPE_CHECKING

import pyarrow as pa

from tidelog.spark.failure import TidelogError
from tidelog.spark.tables.words import names
from tidelog.spark.value_format import BAD_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def table_schema(schema: "StructType") -> pa.Schema:
    """Of rows that may tell of bad records: those columns are in no table."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - pyspark is an extra

    made = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([each for each in made if each.name not in BAD_COLUMNS])


def check_columns(path: str, wanted: pa.Schema, there: pa.Schema) -> None:
    """TidelogError if a table that exists has other columns than are to be written."""
    given = {field.name: _kind(field.type) for field in wanted}
    known = {field.name: _kind(field.type) for field in there}
    if given == known:
        return
    missing = [name for name in known if name not in given]
    added = [name for name in given if name not in known]
    other = [name for name in given if name in known and given[name] != known[name]]
    parts = [
        f"{what}: {names(found)}"
        for what, found in (
            ("not written", missing),
            ("not in the table", added),
            ("of another type", other),
        )
        if found
    ]
    raise TidelogError(
        f"the table at {path} has other columns ({'; '.join(parts).replace(';', ',')})",
        "write to another directory, or with the options of the first run",
    )


def check_partitioning(path: str, wanted: tuple[str, ...], there: tuple[str, ...]) -> None:
    if wanted != there:
        raise TidelogError(
            f"the table at {path} is partitioned by {names(there)}, not by {names(wanted)}",
            f"write to another directory, or partition by {names(there)}",
        )


def _kind(kind: pa.DataType) -> str:
    """Types that mean the same are the same: views and large offsets are a matter of memory."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_kind(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{each.name}: {_kind(each.type)}' for each in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{_kind(kind.key_type)}, {_kind(kind.item_type)}>"
    if pa.types.is_timestamp(kind):
        return f"timestamp[{'UTC' if kind.tz else 'local'}]"
    return str(kind).removeprefix("large_").removesuffix("_view")
