"""What records say: rows that are put or deleted, with the place of each at its source.

Plain records are the new value of their key, or with no value its end. Debezium's have the row
before and after the change, what kind of change it was and where it stands at the database; JSON
may have all that within `payload`, beside its schema.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.spark import value_format
from tidelog.spark.changes import debezium, positions, words
from tidelog.spark.changes.debezium import true_in
from tidelog.spark.changes.identities import RECORD_KEY, buckets_of, identities, key_columns
from tidelog.spark.changes.words import ChangeRules
from tidelog.spark.failure import InvalidOption, TidelogError
from tidelog.spark.value_format import BAD_COLUMNS, RAW_VALUE, REASON
from tidelog.wire.arrow.schema import COLUMN_TYPES

NULL = pa.scalar(None, pa.string())


class Said(NamedTuple):
    """Of records, one by one."""

    kind: pa.StringArray
    """One of words.KINDS; null: it is about no row."""
    row: pa.StructArray
    """Put there, or taken away."""
    position: pa.StringArray
    """Null: where the event before it stands."""
    reason: pa.StringArray
    """Why a record is bad."""


def row_schema(value: pa.DataType, rules: ChangeRules) -> pa.Schema:
    """The columns of the table that are of the user's; InvalidOption if the rules do not fit."""
    kind = value
    if rules.form == words.DEBEZIUM:
        kind = debezium.row_type(value)
    if pa.types.is_struct(kind):
        fields = [pa.field(each.name, each.type) for each in kind]
    else:
        fields = [pa.field("value", kind)]
    names = [each.name for each in fields]
    for name in rules.key:
        if name not in names:
            raise InvalidOption(
                f"rows have no column {name} to be known by", f"one of {', '.join(names)}"
            )
    if not rules.key:
        if RECORD_KEY in names:
            raise InvalidOption(
                f"rows have a column {RECORD_KEY}, so the key of the record has no place",
                f"say which columns a row is known by: --key {names[0]}",
            )
        fields.insert(0, pa.field(RECORD_KEY, pa.binary()))
    taken = [name for name in names if name.startswith("tidelog_")]
    if taken:
        raise InvalidOption(
            f"rows have columns that only we write: {', '.join(taken)}", "rename them before"
        )
    made = pa.schema(fields)
    positions.check_order(made, rules.order_by)
    return made


def table_columns(row: pa.Schema) -> pa.Schema:
    """All columns of the table, in their order."""
    ours = [
        (words.TOPIC, pa.string()),
        (words.PARTITION, pa.int32()),
        (words.OFFSET, pa.int64()),
        (words.TIMESTAMP, pa.timestamp("us", "UTC")),
        (words.POSITION, pa.string()),
        (words.BUCKET, pa.int32()),
    ]
    return pa.schema([*row, *(pa.field(name, kind) for name, kind in ours)])


def change_columns(row: pa.Schema) -> pa.Schema:
    """Those of changes on their way to the table, bad records among them."""
    ours = [
        (words.KIND, pa.string()),
        (words.IDENTITY, pa.binary()),
        (words.HEADERS, COLUMN_TYPES["headers"]),
        (REASON, pa.string()),
        (RAW_VALUE, pa.binary()),
    ]
    return pa.schema([*table_columns(row), *(pa.field(name, kind) for name, kind in ours)])


def columns_of_changes(changes: pa.Schema) -> pa.Schema:
    """The columns of the table, of those of changes."""
    ours = (*words.CONTROL, words.HEADERS, *BAD_COLUMNS)
    return pa.schema([each for each in changes if each.name not in ours])


def as_records(bad: pa.RecordBatch) -> pa.RecordBatch:
    """Bad changes with the names that their columns have in records."""
    columns = {
        "key": words.IDENTITY,
        "topic": words.TOPIC,
        "partition": words.PARTITION,
        "offset": words.OFFSET,
        "timestamp": words.TIMESTAMP,
        "headers": words.HEADERS,
        REASON: REASON,
        RAW_VALUE: RAW_VALUE,
    }
    return pa.RecordBatch.from_pydict({name: bad[source] for name, source in columns.items()})


class ToChanges(NamedTuple):
    """`changes_of` as Spark calls it in tasks."""

    rules: ChangeRules
    stops: bool
    """Whether a bad record ends the query."""

    def all_of(self, batches: Iterator[Any]) -> Iterator[Any]:
        for records in batches:
            made = changes_of(records, self.rules)
            bad = made.filter(pc.is_valid(made[REASON])) if self.stops else made[:0]
            if bad.num_rows:
                where = f"{bad[words.TOPIC][0]}-{bad[words.PARTITION][0]}"
                raise TidelogError(
                    f"at offset {bad[words.OFFSET][0]} of {where}: {bad[REASON][0]}",
                    "another --change-format or --key, or --on-bad-record dead-letter",
                )
            yield made


def changes_of(records: pa.RecordBatch, rules: ChangeRules) -> pa.RecordBatch:
    """Records as the connector gives them, as changes. A truncation goes to every bucket, a record
    that is about no row goes nowhere."""
    said = _debezium(records) if rules.form == words.DEBEZIUM else _plain(records)
    if rules.order_by:
        said = _ordered(said, rules)
    columns = _columns(said, records, rules)
    key = [columns[name] for name in key_columns(rules)]
    topic, raw_key = records["topic"], records["key"].cast(pa.binary())
    identity = identities(topic, key)
    reason = _reason(said, identity, records)
    bad = pc.is_valid(reason)
    # A truncation is about its topic alone.
    identity = pc.if_else(bad, raw_key, pc.coalesce(identity, topic.cast(pa.binary())))
    found = {
        **columns,
        words.TOPIC: topic,
        words.PARTITION: records["partition"],
        words.OFFSET: records["offset"],
        words.TIMESTAMP: records["timestamp"],
        words.POSITION: said.position,
        words.BUCKET: buckets_of(identity, rules.buckets),
        words.KIND: pc.if_else(bad, words.BAD, said.kind),
        words.IDENTITY: identity,
        words.HEADERS: _of_bad(records["headers"], bad),
        REASON: reason,
        RAW_VALUE: records[RAW_VALUE] if RAW_VALUE in records.schema.names else _no_bytes(records),
    }
    schema = change_columns(row_schema(records["value"].type, rules))
    made = pa.RecordBatch.from_arrays(
        [found[each.name].cast(each.type) for each in schema], schema=schema
    )
    return _to_every_bucket(made.filter(pc.is_valid(made[words.KIND])), rules.buckets)


def _reason(said: Said, identity: pa.Array, records: pa.RecordBatch) -> pa.StringArray:
    """Why a record is bad; null where it is not."""
    about_a_row = true_in(pc.not_equal(said.kind, words.TRUNCATE))
    keyless = pc.and_(about_a_row, pc.is_null(identity))
    found = pc.coalesce(said.reason, pc.if_else(keyless, "the record has no key", NULL))
    return pc.coalesce(records[REASON], found) if REASON in records.schema.names else found


def _no_bytes(records: pa.RecordBatch) -> pa.Array:
    return pa.nulls(records.num_rows, pa.binary())


def _plain(records: pa.RecordBatch) -> Said:
    value = records["value"]
    row = value
    if not pa.types.is_struct(value.type):
        row = pa.StructArray.from_arrays([value], ["value"])
    there = pc.is_valid(value)
    kind = pc.if_else(there, words.PUT, words.TOMBSTONE)
    # Without columns to order by, a record stands where its offset says, with a value or without.
    return Said(kind, row, _filled("", len(value)), _filled(None, len(value)))


def _debezium(records: pa.RecordBatch) -> Said:
    event = debezium.event_of(records["value"])
    kind = debezium.kind_of(event)
    before, after = pc.struct_field(event, "before"), pc.struct_field(event, "after")
    is_put = true_in(pc.equal(kind, words.PUT))
    position = positions.of_source(pc.struct_field(event, "source"))
    has_place = true_in(pc.not_equal(kind, words.TOMBSTONE))
    return Said(
        kind,
        debezium.chosen(is_put, after, before),
        pc.if_else(has_place, position, NULL),
        debezium.reason_of(event, kind),
    )


def _ordered(said: Said, rules: ChangeRules) -> Said:
    """With the place that the columns of the row say."""
    columns = [pc.struct_field(said.row, name) for name in rules.order_by]
    position = positions.of_columns(columns, rules.order_by)
    has_row = true_in(pc.is_in(said.kind, pa.array([words.PUT, words.DELETE])))
    lacking = pc.and_(has_row, pc.is_null(position))
    without = f"the row has no {', '.join(rules.order_by)} to order it by"
    reason = pc.coalesce(said.reason, pc.if_else(lacking, without, NULL))
    whole = true_in(pc.equal(said.kind, words.TRUNCATE))
    reason = pc.coalesce(reason, pc.if_else(whole, "a truncation has no place in this order", NULL))
    return said._replace(position=pc.if_else(has_row, position, NULL), reason=reason)


def _columns(said: Said, records: pa.RecordBatch, rules: ChangeRules) -> dict[str, pa.Array]:
    """Of the row. What it is known by is also in the key of the record, and only there where a
    record has no value, or no row before the change."""
    columns = {name: pc.struct_field(said.row, name) for name in said.row.type.names}
    key = records["key"].cast(pa.binary())
    if not rules.key:
        return {**columns, RECORD_KEY: key}
    missing = pc.is_null(columns[rules.key[0]])
    for name in rules.key[1:]:
        missing = pc.or_(missing, pc.is_null(columns[name]))
    if pc.any(missing).as_py():
        kind = pa.struct([(name, columns[name].type) for name in rules.key])
        told = keys_in(pc.if_else(missing, key, pa.scalar(None, pa.binary())), kind)
        for name in rules.key:
            columns[name] = pc.coalesce(columns[name], pc.struct_field(told, name))
    return columns


def keys_in(raw: pa.BinaryArray, kind: pa.DataType) -> pa.StructArray:
    """Keys of records that are JSON, with their schema around them or without; null where they
    are not."""
    around = pa.struct([*kind, pa.field("payload", kind)])
    found = value_format.json_or_null(raw, around)
    inner = pc.struct_field(found, "payload")
    parts = [
        pc.coalesce(pc.struct_field(inner, each.name), pc.struct_field(found, each.name))
        for each in kind
    ]
    return pa.StructArray.from_arrays(parts, fields=list(kind))


def _of_bad(headers: pa.Array, bad: pa.BooleanArray) -> pa.Array:
    """The headers of bad records: nobody asks for those of others."""
    if not pc.any(bad).as_py():
        return pa.nulls(len(headers), COLUMN_TYPES["headers"])
    rows = pa.array(np.where(np.asarray(bad), np.arange(len(bad)), -1))
    return headers.cast(COLUMN_TYPES["headers"]).take(pc.if_else(bad, rows, None))


def _to_every_bucket(changes: pa.RecordBatch, buckets: int) -> pa.RecordBatch:
    whole = true_in(pc.equal(changes[words.KIND], words.TRUNCATE))
    if not pc.any(whole).as_py():
        return changes
    one_by_one = changes.filter(pc.invert(whole))
    truncations = changes.filter(whole)
    where = changes.schema.get_field_index(words.BUCKET)
    copies = [
        truncations.set_column(
            where, words.BUCKET, pa.array([bucket] * truncations.num_rows, pa.int32())
        )
        for bucket in range(buckets)
    ]
    return pa.Table.from_batches([one_by_one, *copies]).combine_chunks().to_batches()[0]


def _filled(value: str | None, rows: int) -> pa.StringArray:
    return pa.array([value] * rows, pa.string())
