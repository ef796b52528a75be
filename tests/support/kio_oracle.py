"""Messages as kio, a codec we did not write, sees them.

kio has a class per version, with durations, dates, enums and UUID objects. Here random
messages are made from *its* classes and translated to ours, so that both can be asked for
the bytes of the same message.
"""

import dataclasses
import datetime
import io
import types
import typing
from random import Random
from uuid import UUID

from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer
from kio.static.constants import EntityType

from support.random_messages import INT_BITS, WORDS
from tidelog.wire.protocol.message import ZERO_UUID, Struct

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)
ERROR_CODES = tuple(ErrorCode)


def load(key: int, version: int, direction: str) -> type:
    return load_entity_schema(api_key_map[key], version, EntityType[direction])


def versions(key: int, direction: str) -> set[int]:
    known = schema_name_map[api_key_map[key]]
    return {version for version, kinds in known.items() if EntityType[direction] in kinds}


def load_data(name: str) -> dict[int, type]:
    versions = schema_name_map[name]
    return {version: load_entity_schema(name, version, EntityType.data) for version in versions}


def encoded(entity: object) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


# ---- random entities of kio ----


def random_entity(kind: type, random: Random) -> object:
    return kind(**{item.name: _random_field(item, random) for item in dataclasses.fields(kind)})


def _random_field(item: dataclasses.Field, random: Random) -> object:
    bare = _without_none(item.type)
    has_default = item.default is not dataclasses.MISSING
    if "tag" in item.metadata and has_default and random.random() < 0.5:
        return item.default
    if bare is not item.type and random.random() < 0.25 and "tag" not in item.metadata:
        return None
    if typing.get_origin(bare) is not tuple:
        return _random_value(item, bare, random)
    element = _without_none(typing.get_args(bare)[0])
    count = random.choice((0, 1, 1, 2, 3))
    return tuple(_random_value(item, element, random) for _ in range(count))


def _random_value(item: dataclasses.Field, kind: type, random: Random) -> object:
    if dataclasses.is_dataclass(kind):
        return random_entity(kind, random)
    name = item.metadata["kafka_type"]
    if name in INT_BITS:
        bits = min(random.choice((2, 8, 64)), INT_BITS[name])
        return kind(random.randrange(-(1 << (bits - 1)), 1 << (bits - 1)))
    made = {
        "uint16": lambda: kind(random.randrange(1 << 16)),
        "bool": lambda: random.random() < 0.5,
        "error_code": lambda: random.choice(ERROR_CODES),
        "float64": lambda: random.uniform(-1e9, 1e9),
        "uuid": lambda: UUID(bytes=random.randbytes(16)),
        "string": lambda: random.choice(WORDS),
        "bytes": lambda: random.randbytes(random.choice((0, 1, 126, 127, 500))),
        "records": lambda: random.randbytes(random.choice((0, 1, 126, 127, 500))),
        "timedelta_i32": lambda: random.randrange(-(1 << 30), 1 << 30) * MILLISECOND,
        "timedelta_i64": lambda: random.randrange(-(1 << 45), 1 << 45) * MILLISECOND,
        "datetime_i64": lambda: EPOCH + random.randrange(1 << 42) // 1000 * 1000 * MILLISECOND,
    }
    return made[name]()


# ---- kio's values to ours ----


def to_ours(entity: object, ours: type[Struct]) -> Struct:
    rows = {row.name: row for row in ours.__fields__}
    values = {}
    for item in dataclasses.fields(entity):
        row = rows[our_name(item)]
        value = getattr(entity, item.name)
        if isinstance(row.kind, type):
            value = _inner(value, item, row.kind)
        elif row.is_array and value is not None:
            value = [_plain(element, row.kind) for element in value]
        elif not row.is_array:
            value = _plain(value, row.kind)
        values[row.name] = value
    return ours(**values)


def our_name(item: dataclasses.Field) -> str:
    name = item.name.replace("k_raft", "kraft").replace("zk_", "")
    name = name.replace("enable2_pc", "enable_2pc").rstrip("_")
    is_time = item.metadata.get("kafka_type", "").startswith(("timedelta", "datetime"))
    return f"{name}_ms" if is_time and not name.endswith("_ms") else name


def _inner(value: object, item: dataclasses.Field, ours: type[Struct]) -> object:
    if isinstance(value, tuple):
        return [to_ours(element, ours) for element in value]
    if value is None:
        return None
    mine = to_ours(value, ours)
    return None if "tag" in item.metadata and mine == ours() else mine


def _plain(value: object, kind: str) -> object:
    if isinstance(value, datetime.timedelta):
        return value // MILLISECOND
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // MILLISECOND
    if isinstance(value, ErrorCode):
        return int(value.value)
    if isinstance(value, UUID):
        return value.bytes
    if value is None and kind == "uuid":
        return ZERO_UUID
    return -1 if value is None and kind == "int64" else value


def _without_none(annotation: object) -> typing.Any:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        (bare,) = (part for part in typing.get_args(annotation) if part is not type(None))
        return bare
    return annotation
