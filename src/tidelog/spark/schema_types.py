"""Arrow types of values with schemas: from each language, joined over versions, filled with values.

A table keeps what was written. So its type has the fields of all versions, and a value that lacks
one has null there; defaults of readers are for readers.
"""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tidelog.spark.failure import TidelogError

Fit = Callable[[Any], Any]
"""From a decoded value to what Arrow takes for a type."""

WIDER = {
    (pa.int32(), pa.int64()),
    (pa.int32(), pa.float64()),
    (pa.float32(), pa.float64()),
}


def joined(first: pa.DataType, second: pa.DataType, where: str) -> pa.DataType:
    """What holds the values of both; TidelogError if nothing does."""
    if first == second:
        return first
    if pa.types.is_struct(first) and pa.types.is_struct(second):
        return _joined_structs(first, second, where)
    if pa.types.is_list(first) and pa.types.is_list(second):
        return pa.list_(joined(first.value_type, second.value_type, f"{where}[]"))
    if pa.types.is_map(first) and pa.types.is_map(second):
        item = joined(first.item_type, second.item_type, f"{where}{{}}")
        return pa.map_(joined(first.key_type, second.key_type, where), item)
    for narrow, wide in ((first, second), (second, first)):
        if (narrow, wide) in WIDER:
            return wide
    raise TidelogError(
        f"{where} is {first} in one schema and {second} in another",
        "archive to another directory, from records of one of them alone",
    )


def _joined_structs(first: pa.DataType, second: pa.DataType, where: str) -> pa.DataType:
    fields = {each.name: each.type for each in first}
    for each in second:
        known = fields.get(each.name)
        place = f"{where}.{each.name}"
        fields[each.name] = each.type if known is None else joined(known, each.type, place)
    return pa.struct(list(fields.items()))


def missing_in(
    kind: pa.DataType, wanted: pa.DataType, where: str, *, new_fields: bool = True
) -> list[str]:
    """The places of a type that another one has no room for; with or without the fields that it
    lacks as a whole."""
    if pa.types.is_struct(kind) and pa.types.is_struct(wanted):
        known = {each.name: each.type for each in kind}
        found: list[str] = []
        for each in wanted:
            place = f"{where}.{each.name}"
            if each.name in known:
                found += missing_in(known[each.name], each.type, place, new_fields=new_fields)
            elif new_fields:
                found.append(place)
        return found
    if pa.types.is_list(kind) and pa.types.is_list(wanted):
        item, item_wanted = kind.value_type, wanted.value_type
        return missing_in(item, item_wanted, f"{where}[]", new_fields=new_fields)
    if pa.types.is_map(kind) and pa.types.is_map(wanted):
        item, item_wanted = kind.item_type, wanted.item_type
        return missing_in(item, item_wanted, f"{where}{{}}", new_fields=new_fields)
    return [] if kind == wanted or (wanted, kind) in WIDER else [f"{where} ({wanted})"]


def fitted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """As a type has it that has more fields or fewer: those that are new are null."""
    if column.type == kind:
        return column
    if pa.types.is_struct(kind) and pa.types.is_struct(column.type):
        known = {each.name: index for index, each in enumerate(column.type)}
        flat = column.flatten()
        parts = [
            fitted(flat[known[each.name]], each.type)
            if each.name in known
            else pa.nulls(len(column), each.type)
            for each in kind
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    if pa.types.is_list(kind) and pa.types.is_list(column.type):
        inner = fitted(column.values, kind.value_type)
        return pa.ListArray.from_arrays(column.offsets, inner, kind, mask=column.is_null())
    return column.cast(kind)


def fit_for(kind: pa.DataType) -> Fit:
    """Missing fields are null, maps are pairs; a text takes what has no type of its own as JSON."""
    if pa.types.is_struct(kind):
        fields = [(each.name, fit_for(each.type)) for each in kind]

        def fit_struct(value: Any) -> Any:
            if value is None:
                return None
            if not isinstance(value, dict):
                raise TypeError(f"{type(value).__name__} is no record")
            return {name: fit(value.get(name)) for name, fit in fields}

        return fit_struct
    if pa.types.is_list(kind):
        item = fit_for(kind.value_type)
        return lambda value: None if value is None else [item(each) for each in value]
    if pa.types.is_map(kind):
        item = fit_for(kind.item_type)
        return lambda value: (
            None if value is None else [(key, item(each)) for key, each in value.items()]
        )
    if pa.types.is_string(kind):
        return lambda value: value if value is None or isinstance(value, str) else json.dumps(value)
    if pa.types.is_integer(kind):
        return _whole
    return lambda value: value


def _whole(value: Any) -> Any:
    if isinstance(value, bool):
        raise TypeError("a truth is no number")
    return int(value) if isinstance(value, float) and value.is_integer() else value


def grown(there: pa.DataType, wanted: pa.DataType, path: str) -> pa.DataType:
    """The type of a table's column with the fields of another one added; TidelogError if a field
    that is there would have to change."""
    known = plain(there)
    made = joined(known, wanted, "value")
    changed = _changed(known, made, "value")
    if changed:
        raise TidelogError(
            f"the table at {path} has other types than the schemas: {', '.join(changed)}",
            "write to another directory",
        )
    return made


def _changed(there: pa.DataType, made: pa.DataType, where: str) -> list[str]:
    if pa.types.is_struct(there):
        now = {each.name: each.type for each in made}
        return [
            problem
            for each in there
            for problem in _changed(each.type, now[each.name], f"{where}.{each.name}")
        ]
    if pa.types.is_list(there):
        return _changed(there.value_type, made.value_type, f"{where}[]")
    if pa.types.is_map(there):
        return _changed(there.item_type, made.item_type, f"{where}{{}}")
    return [] if there == made else [f"{where} is {there} there and {made} now"]


def plain(kind: pa.DataType) -> pa.DataType:
    """Types that mean the same are the same: views and large offsets are a matter of memory."""
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, plain(each.type)) for each in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    names = {"large_string": pa.string(), "large_binary": pa.binary()}
    names.update({"string_view": pa.string(), "binary_view": pa.binary()})
    return names.get(str(kind), kind)
