"""Change events of Debezium: which parts they have, and what their `op` says."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.spark.changes import positions, words
from tidelog.spark.failure import InvalidOption

PUTS, DELETES, TRUNCATES, MESSAGES = ("c", "u", "r"), ("d",), ("t",), ("m",)
NULL = pa.scalar(None, pa.string())
PAYLOAD = "payload"
NEEDED = ("before", "after", "op", "source")


def json_type(row: pa.DataType) -> pa.DataType:
    """Of events that are JSON, with their schema around them or without."""
    event = [
        pa.field("before", row),
        pa.field("after", row),
        pa.field("op", pa.string()),
        pa.field("source", positions.SOURCE),
    ]
    return pa.struct([*event, pa.field(PAYLOAD, pa.struct(event))])


def row_type(value: pa.DataType) -> pa.DataType:
    """Of the row that events have before and after; InvalidOption if values are no events."""
    if pa.types.is_struct(value):
        lacking = [name for name in NEEDED if value.get_field_index(name) < 0]
        if not lacking and pa.types.is_struct(value.field("after").type):
            return value.field("after").type
    raise InvalidOption(
        "the values are no change events of Debezium: they lack before, after, op or source",
        "another --change-format, or a --value-format with fields",
    )


def event_of(value: pa.StructArray) -> pa.StructArray:
    """The event itself, where it is in a payload or not; null where there is no value."""
    names = list(NEEDED)
    plain = [pc.struct_field(value, name) for name in names]
    there = pc.is_valid(value)
    if value.type.get_field_index(PAYLOAD) >= 0:
        payload = pc.struct_field(value, PAYLOAD)
        within = pc.is_valid(payload)
        plain = [
            chosen(within, pc.struct_field(payload, name), given)
            for name, given in zip(names, plain, strict=True)
        ]
    return pa.StructArray.from_arrays(plain, names, mask=pc.invert(there))


def kind_of(event: pa.StructArray) -> pa.StringArray:
    """Null where an event is about no row; an op that says nothing is a put, and bad."""
    code = pc.struct_field(event, "op")
    kind = pa.array([words.PUT] * len(event), pa.string())
    for codes, name in ((DELETES, words.DELETE), (TRUNCATES, words.TRUNCATE), (MESSAGES, None)):
        kind = pc.if_else(
            true_in(pc.is_in(code, pa.array(codes))), pa.scalar(name, pa.string()), kind
        )
    return pc.if_else(pc.is_valid(event), kind, words.TOMBSTONE)


def reason_of(event: pa.StructArray, kind: pa.StringArray) -> pa.StringArray:
    """Why an event is bad; null where it is not."""
    known = pa.array([*PUTS, *DELETES, *TRUNCATES, *MESSAGES])
    unknown = pc.and_(pc.is_valid(event), pc.invert(pc.is_in(pc.struct_field(event, "op"), known)))
    rowless = pc.and_(
        true_in(pc.equal(kind, words.PUT)), pc.is_null(pc.struct_field(event, "after"))
    )
    without = pc.if_else(rowless, "the change event has no row after it", NULL)
    return pc.if_else(unknown, "the value is no change event: its op says nothing", without)


def chosen(first: pa.BooleanArray, yes: pa.Array, no: pa.Array) -> pa.Array:
    """Rows of the one or the other, whatever their type."""
    rows = np.arange(len(first))
    places = np.where(np.asarray(true_in(first)), rows, rows + len(first))
    return pa.concat_arrays([yes, no.cast(yes.type)]).take(pa.array(places))


def true_in(mask: pa.Array) -> pa.BooleanArray:
    """Null is no."""
    return pc.fill_null(mask, False)
