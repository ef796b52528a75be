"""Messages of Protobuf as columns: their types, and their values."""

import datetime as dt
import decimal
from typing import Any, Final

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from tidelog.registry.languages.words import InvalidSchema

UNSIGNED_64: Final = pa.decimal128(20, 0)
TYPES: Final = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: UNSIGNED_64,
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}
STAMP: Final = "google.protobuf.Timestamp"
WRAPPERS: Final = frozenset(
    f"google.protobuf.{each}Value"
    for each in ("Bool", "Int32", "Int64", "UInt32", "UInt64", "Float", "Double", "String", "Bytes")
)
EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def type_of(message: Any, above: tuple[str, ...]) -> pa.DataType:
    """InvalidSchema if it contains itself. Messages without fields are no columns."""
    if message.full_name in above:
        raise InvalidSchema(f"{message.full_name} contains itself, and columns cannot")
    deeper = (*above, message.full_name)
    found = [(each.name, _field_type(each, deeper)) for each in message.fields]
    return pa.struct([each for each in found if each[1] is not None])


def _field_type(field: Any, above: tuple[str, ...]) -> pa.DataType | None:
    if _is_map(field):
        parts = field.message_type.fields_by_name
        item = _one_type(parts["value"], above)
        return None if item is None else pa.map_(_one_type(parts["key"], above), item)
    one = _one_type(field, above)
    return pa.list_(one) if one is not None and _is_list(field) else one


def _one_type(field: Any, above: tuple[str, ...]) -> pa.DataType | None:
    inner: Descriptor | None = field.message_type
    if inner is None:
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            return pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else pa.string()
        return TYPES[field.cpp_type]
    if inner.full_name == STAMP:
        return pa.timestamp("us", "UTC")
    if inner.full_name in WRAPPERS:
        return _one_type(inner.fields_by_name["value"], above)
    made = type_of(inner, above)
    return made if made.num_fields else None


def as_value(message: Message) -> dict[str, Any]:
    return {field.name: _field_value(message, field) for field in message.DESCRIPTOR.fields}


def _field_value(message: Message, field: Any) -> Any:
    value = getattr(message, field.name)
    if _is_map(field):
        inner = field.message_type.fields_by_name["value"]
        return {key: _one_value(value[key], inner) for key in value}
    if _is_list(field):
        return [_one_value(each, field) for each in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _one_value(value, field)


def _one_value(value: Any, field: Any) -> Any:
    inner = field.message_type
    if inner is None:
        if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            known = field.enum_type.values_by_number.get(value)
            return str(value) if known is None else known.name
        if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64:
            return decimal.Decimal(value)
        return value
    if inner.full_name == STAMP:
        return EPOCH + dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if inner.full_name in WRAPPERS:
        return _one_value(value.value, inner.fields_by_name["value"])
    return as_value(value)


def _is_list(field: Any) -> bool:
    repeated = getattr(field, "is_repeated", None)
    return bool(field.label == FieldDescriptor.LABEL_REPEATED if repeated is None else repeated)


def _is_map(field: Any) -> bool:
    inner = field.message_type
    return inner is not None and bool(inner.GetOptions().map_entry)
