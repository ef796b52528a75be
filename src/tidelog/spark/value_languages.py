"""Values in Avro, Protobuf and JSON with a schema: the type of a schema, and how bytes are read."""

import io
import json
import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from tidelog.registry.languages.words import (
    AVRO,
    JSON,
    PROTOBUF,
    InvalidSchema,
    Resolve,
    Schema,
    with_dependencies,
)
from tidelog.registry.wire_format import NotFramed, message_path
from tidelog.spark.avro_columns import Read, column_reader
from tidelog.spark.failure import InvalidOption

FORMATS: Final = {"avro": AVRO, "protobuf": PROTOBUF, "json-schema": JSON}
TIMESTAMP: Final = pa.timestamp("us", "UTC")
Decode = Callable[[bytes], Any]
Made = tuple[pa.DataType, Decode, Read | None]
"""The type of a schema, what reads one value, and what reads many at once if there is such."""


class Unreadable(Exception):  # noqa: N818 - it names what is so
    """A value is not what its schema says."""


class WriterSchema:
    """A schema that values were written with. Needs the extra `registry`."""

    def __init__(self, schema: Schema, resolve: Resolve) -> None:
        try:
            make = {AVRO: _avro, PROTOBUF: _protobuf, JSON: _json}[schema.kind]
        except KeyError:
            raise InvalidSchema(f"there is no kind of schema {schema.kind!r}") from None
        try:
            self.type, self.decode, self.columns = make(schema, resolve)
        except ModuleNotFoundError as error:
            raise InvalidOption(
                f"values with schemas need the package {error.name}",
                "pip install 'tidelog[registry]', also where the tasks of Spark run",
            ) from None


def _struct(kind: pa.DataType) -> pa.DataType:
    """Values are structs in tables; what is none becomes one with a single field."""
    return kind if pa.types.is_struct(kind) else pa.struct([("value", kind)])


def _wrapped(kind: pa.DataType, decode: Decode) -> Decode:
    return decode if pa.types.is_struct(kind) else lambda data: {"value": decode(data)}


# ---- Avro

AVRO_TYPES: Final = {
    "null": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
PLACE_IN_MEMORY: Final = re.compile(r" from <_io\.BytesIO object at 0x\w+>")
"""fastavro tells it at the end of a value; a reason is to be the same when it comes again."""
AVRO_LOGICAL: Final = {
    "timestamp-millis": TIMESTAMP,
    "timestamp-micros": TIMESTAMP,
    "date": pa.date32(),
}


def _avro(schema: Schema, resolve: Resolve) -> Made:
    from fastavro import parse_schema, schemaless_reader  # noqa: PLC0415 - an extra
    from fastavro.schema import SchemaParseException, UnknownType  # noqa: PLC0415

    named: dict[str, Any] = {}
    try:
        for _, used in with_dependencies(schema, resolve):
            parse_schema(_plain_logical(json.loads(used.text)), named)
        parsed = parse_schema(_plain_logical(json.loads(schema.text)), named)
    except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError) as reason:
        raise InvalidSchema(f"{type(reason).__name__}: {reason}") from None
    kind = _avro_type(parsed, named, ())

    def decode(data: bytes) -> Any:
        source = io.BytesIO(data)
        try:
            value = schemaless_reader(source, parsed, None)
        except Exception as reason:  # a decoder of bytes from anywhere may fail in any way
            told = PLACE_IN_MEMORY.sub("", f"{type(reason).__name__} {reason}")
            raise Unreadable(told.strip()) from None
        if source.tell() != len(data):
            raise Unreadable(f"{len(data) - source.tell()} bytes follow it")
        return value

    return _struct(kind), _wrapped(kind, decode), column_reader(parsed, named)


def _plain_logical(schema: Any) -> Any:
    """Without logical types that tables have no type for: their plain values are kept."""
    if isinstance(schema, list):
        return [_plain_logical(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    known = (*AVRO_LOGICAL, "decimal")
    return {
        name: value if name in ("default", "symbols") else _plain_logical(value)
        for name, value in schema.items()
        if name != "logicalType" or value in known
    }


def _avro_type(schema: Any, named: dict[str, Any], above: tuple[str, ...]) -> pa.DataType:
    if isinstance(schema, list):
        return _avro_union(schema, named, above)
    if isinstance(schema, str):
        if schema in AVRO_TYPES:
            return AVRO_TYPES[schema]
        return _avro_type(named[schema], named, above)
    logical, kind = schema.get("logicalType"), schema["type"]
    if logical == "decimal":
        return pa.decimal128(min(int(schema["precision"]), 38), int(schema.get("scale", 0)))
    if logical in AVRO_LOGICAL:
        return AVRO_LOGICAL[logical]
    if kind == "array":
        return pa.list_(_avro_type(schema["items"], named, above))
    if kind == "map":
        return pa.map_(pa.string(), _avro_type(schema["values"], named, above))
    if kind in ("enum", "fixed"):
        return pa.string() if kind == "enum" else pa.binary()
    if kind in ("record", "error"):
        if schema["name"] in above:
            raise InvalidSchema(f"{schema['name']} contains itself, and columns cannot")
        deeper = (*above, schema["name"])
        fields = [
            (each["name"], _avro_type(each["type"], named, deeper)) for each in schema["fields"]
        ]
        return pa.struct(fields)
    return _avro_type(kind, named, above)


def _avro_union(schema: list[Any], named: dict[str, Any], above: tuple[str, ...]) -> pa.DataType:
    kinds = list(dict.fromkeys(_avro_type(each, named, above) for each in schema if each != "null"))
    if not kinds:
        return pa.string()
    if len(kinds) == 1:
        return kinds[0]
    if all(pa.types.is_integer(each) for each in kinds):
        return pa.int64()
    if all(each in (pa.int32(), pa.float32(), pa.float64()) for each in kinds):
        return pa.float64()
    shown = ", ".join(map(str, kinds))
    raise InvalidSchema(f"a column cannot be one of several types: {shown}")


# ---- JSON Schema

JSON_TYPES: Final = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "null": pa.string(),
}


def _json(schema: Schema, resolve: Resolve) -> Made:
    from tidelog.registry.languages.json_schema import JsonSchema  # noqa: PLC0415 - an extra

    parsed = JsonSchema(schema, resolve)
    kind = _json_type(parsed.document, (parsed.document, parsed.used), 0)

    def decode(data: bytes) -> Any:
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as reason:
            raise Unreadable(f"no JSON: {reason}") from None

    return _struct(kind), _wrapped(kind, decode), None


def _json_type(schema: Any, rooted: Any, depth: int) -> pa.DataType:
    """A text, of JSON, where the schema leaves open what it is."""
    from tidelog.registry.languages.json_reading import resolved  # noqa: PLC0415 - an extra

    schema = resolved(schema, rooted)
    if depth > 40:
        raise InvalidSchema("it contains itself, and columns cannot")
    if not isinstance(schema, dict):
        return pa.string()
    for word in ("oneOf", "anyOf"):
        branches = [each for each in schema.get(word, ()) if each != {"type": "null"}]
        if len(branches) == 1:
            return _json_type(branches[0], rooted, depth + 1)
    given = schema.get("type")
    names = [given] if isinstance(given, str) else list(given or ())
    names = [each for each in names if each != "null"]
    if len(names) != 1 and not (not names and "properties" in schema):
        return pa.float64() if set(names) == {"integer", "number"} else pa.string()
    name = names[0] if names else "object"
    if name == "array" and isinstance(schema.get("items"), dict):
        return pa.list_(_json_type(schema["items"], rooted, depth + 1))
    if name == "object":
        fields = schema.get("properties") or {}
        if fields:
            found = [(each, _json_type(fields[each], rooted, depth + 1)) for each in fields]
            return pa.struct(found)
        if isinstance(schema.get("additionalProperties"), dict):
            inner = _json_type(schema["additionalProperties"], rooted, depth + 1)
            return pa.map_(pa.string(), inner)
    return JSON_TYPES.get(name, pa.string())


# ---- Protobuf


def _protobuf(schema: Schema, resolve: Resolve) -> Made:
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - an extra
    from google.protobuf.message_factory import GetMessageClass  # noqa: PLC0415

    from tidelog.registry.languages.protobuf import ProtobufSchema  # noqa: PLC0415
    from tidelog.spark.value_protobuf import as_value, type_of  # noqa: PLC0415

    _, file = ProtobufSchema(schema, resolve).pool()
    messages = list(file.message_types_by_name.values())
    if not messages:
        raise InvalidSchema("it has no message")
    kind = type_of(messages[0], ())
    classes: dict[tuple[int, ...], Any] = {}

    def class_at(path: tuple[int, ...]) -> Any:
        """The columns are those of the first message; whoever writes another is told."""
        if path not in classes:
            found = messages[path[0]] if path[0] < len(messages) else None
            for index in path[1:]:
                inner = list(found.nested_types) if found is not None else []
                found = inner[index] if index < len(inner) else None
            if found is None:
                raise Unreadable(f"the schema has no message at {list(path)}")
            if type_of(found, ()) != kind:
                raise Unreadable(
                    f"it is a {found.full_name}, columns are of {messages[0].full_name}"
                )
            classes[path] = GetMessageClass(found)
        return classes[path]

    def decode(data: bytes) -> Any:
        try:
            path, body = message_path(data)
            return as_value(class_at(path).FromString(body))
        except (NotFramed, DecodeError) as reason:
            raise Unreadable(str(reason)) from None

    return kind, decode, None
