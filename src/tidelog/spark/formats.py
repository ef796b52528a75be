"""What `valueFormat`, `keyFormat` and a schema say together about columns."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.spark.columns import RECORD_TYPES, check_columns
from tidelog.spark.failure import InvalidOption
from tidelog.spark.options import Options
from tidelog.spark.schema_words import WITH_REGISTRY

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.spark.registry_values import RegistryValues
    from tidelog.spark.value_format import ValueFormat

BINARY, STRING, JSON = FORMATS = ("binary", "string", "json")
MODES: Final = ("permissive", "failfast", "keep")
REFUSE, IGNORE = NEW_FIELDS = ("refuse", "ignore")
"""What becomes of fields that the columns lack: they end the query, or they are left out."""
BAD_COLUMNS: Final = {"badReason": StringType(), "badValue": BinaryType()}
"""What `mode=keep` tells of records that cannot be decoded; null for all others."""


class Columns(NamedTuple):
    """What a source gives, and how it makes it of records."""

    names: tuple[str, ...]
    values: "ValueFormat | None" = None


def formats_of(options: Options) -> Mapping[str, str]:
    """The format of keys and of values."""
    return {
        "key": options.one_of("keyFormat", BINARY, FORMATS),
        "value": options.one_of("valueFormat", BINARY, (*FORMATS, *WITH_REGISTRY)),
    }


def formatted(schema: StructType, options: Options) -> StructType:
    """The default schema, where keys or values are text, or values have a schema in a registry.
    JSON has none by default."""
    formats = formats_of(options)
    for name, chosen in formats.items():
        if chosen == JSON:
            raise InvalidOption(
                f"{name}Format=json needs a schema",
                f'say .schema("{name} struct<id:bigint,name:string>, offset bigint")',
            )
    kinds: dict[str, DataType] = {
        name: StringType() for name, chosen in formats.items() if chosen == STRING
    }
    if formats["value"] in WITH_REGISTRY:
        kinds["value"] = _registered(options, formats["value"])
    return StructType(
        [StructField(each.name, kinds.get(each.name, each.dataType)) for each in schema]
    )


def columns_of(schema: StructType, options: Options) -> Columns:
    """The columns of a schema that the user gave; InvalidOption if there are none such."""
    formats = formats_of(options)
    if set(formats.values()) == {BINARY}:
        return Columns(check_columns(schema))
    from tidelog.spark.value_format import ValueFormat  # noqa: PLC0415 - pyarrow

    mode = options.one_of("mode", "permissive", MODES)
    kinds = {name: _kind(schema, name, chosen) for name, chosen in formats.items()}
    kept = [each for each in schema.fields if mode == "keep" and each.name in BAD_COLUMNS]
    fields: list[StructField] = []
    of_registry = formats["value"] in WITH_REGISTRY
    if (formats["value"] == JSON or of_registry) and "value" not in schema.names:
        known = {*RECORD_TYPES, *(each.name for each in kept)}
        fields = [each for each in schema.fields if each.name not in known]
        kinds["value"] = StructType(fields) if fields else None
    ours = [
        StructField(each.name, RECORD_TYPES[each.name] if kinds.get(each.name) else each.dataType)
        for each in schema.fields
        if each not in fields and each not in kept
    ]
    if ours or not fields:
        check_columns(StructType(ours))
    arrow = {
        name: None if kind is None else arrow_type(kind, name, wide=of_registry and name == "value")
        for name, kind in kinds.items()
    }
    values = ValueFormat(
        arrow["value"],
        arrow["key"],
        tuple(each.name for each in fields),
        mode == "failfast",
        mode == "keep",
        _registry(options, formats["value"]) if of_registry else None,
    )
    return Columns(tuple(schema.names), values)


def _registered(options: Options, form: str) -> DataType:
    """The type of the values of these subjects: of `subject`, or of the topics that are read."""
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415 - pyarrow

    from tidelog.spark.registry_values import type_of_subjects  # noqa: PLC0415

    topics = [f"{each.strip()}-value" for each in (options.text("subscribe") or "").split(",")]
    given = [each.strip() for each in (options.text("subject") or "").split(",")]
    subjects = [each for each in given if each] or [each for each in topics if each != "-value"]
    if not subjects:
        raise InvalidOption(
            f"valueFormat={form} does not know which subject of the registry is meant",
            "say subject=orders-value, or give a schema",
        )
    return from_arrow_type(type_of_subjects(_registry(options, form).url, form, subjects))


def _registry(options: Options, form: str) -> "RegistryValues":
    from tidelog.spark.registry_values import RegistryValues, client_of  # noqa: PLC0415 - pyarrow

    url = options.required("registry", f"valueFormat={form} needs it: http://host:8081")
    client_of(url)
    ignores = options.one_of("newFields", REFUSE, NEW_FIELDS) == IGNORE
    return RegistryValues(url, form, ignores)


def _kind(schema: StructType, name: str, chosen: str) -> DataType | None:
    """The type that the schema gives to a key or a value that is not left as it is."""
    if chosen == BINARY or name not in schema.names:
        return None
    kind = schema[name].dataType
    if chosen == STRING and not isinstance(kind, StringType):
        raise InvalidOption(
            f"{name}Format=string, and the schema says that {name} is {kind.simpleString()}",
            f"say that it is string, or {name}Format=json",
        )
    if chosen != STRING and isinstance(kind, BinaryType):
        raise InvalidOption(
            f"{name}Format={chosen}, and the schema says that {name} is binary",
            f"say what is in it, as {name} struct<id:bigint,name:string>",
        )
    return kind


def arrow_type(kind: DataType, where: str, *, wide: bool = False) -> "pa.DataType":
    """The Arrow type that Spark takes for one of its own; `wide` with those that JSON lacks."""
    import pyarrow as pa  # noqa: PLC0415 - not where Spark only looks for formats

    simple: dict[type[DataType], pa.DataType] = {
        BooleanType: pa.bool_(),
        ByteType: pa.int8(),
        ShortType: pa.int16(),
        IntegerType: pa.int32(),
        LongType: pa.int64(),
        FloatType: pa.float32(),
        DoubleType: pa.float64(),
        StringType: pa.string(),
        TimestampType: pa.timestamp("us", "UTC"),
    }
    if wide:
        simple.update({BinaryType: pa.binary(), DateType: pa.date32()})
    if isinstance(kind, StructType):
        return pa.struct(
            [
                (each.name, arrow_type(each.dataType, f"{where}.{each.name}", wide=wide))
                for each in kind
            ]
        )
    if isinstance(kind, ArrayType):
        return pa.list_(arrow_type(kind.elementType, f"{where}[]", wide=wide))
    if wide and isinstance(kind, MapType):
        item = arrow_type(kind.valueType, f"{where}{{}}", wide=True)
        return pa.map_(arrow_type(kind.keyType, where, wide=True), item)
    if wide and isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    found = simple.get(type(kind))
    if found is None:
        raise InvalidOption(
            f"{where} is {kind.simpleString()}, which cannot be read from JSON",
            "say that it is string, and cast it in the query",
        )
    return found
