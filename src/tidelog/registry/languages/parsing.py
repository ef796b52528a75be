"""From a text to a schema that makes sense, in whichever language it is."""

from tidelog.registry.languages.words import (
    AVRO,
    JSON,
    KINDS,
    PROTOBUF,
    InvalidSchema,
    Parsed,
    Resolve,
    Schema,
)

NONE, BACKWARD, FORWARD, FULL = "NONE", "BACKWARD", "FORWARD", "FULL"
LEVELS = (
    NONE,
    BACKWARD,
    "BACKWARD_TRANSITIVE",
    FORWARD,
    "FORWARD_TRANSITIVE",
    FULL,
    "FULL_TRANSITIVE",
)


def parse(schema: Schema, resolve: Resolve) -> Parsed:
    """InvalidSchema says what is wrong with it. Each language is imported when it is used."""
    if schema.kind == AVRO:
        from tidelog.registry.languages.avro import AvroSchema  # noqa: PLC0415

        return AvroSchema(schema, resolve)
    if schema.kind == JSON:
        from tidelog.registry.languages.json_schema import JsonSchema  # noqa: PLC0415

        return JsonSchema(schema, resolve)
    if schema.kind == PROTOBUF:
        from tidelog.registry.languages.protobuf import ProtobufSchema  # noqa: PLC0415

        return ProtobufSchema(schema, resolve)
    raise InvalidSchema(f"there is no kind of schema {schema.kind!r}: {', '.join(KINDS)}")


def problems(level: str, new: Parsed, earlier: list[Parsed]) -> list[str]:
    """Why a schema may not follow these, of which the last is the latest; empty if it may."""
    if level == NONE or not earlier:
        return []
    base = level.removesuffix("_TRANSITIVE")
    found: list[str] = []
    for old in earlier if base != level else earlier[-1:]:
        if old.schema.kind != new.schema.kind:
            found.append(f"{new.schema.kind} cannot follow {old.schema.kind}")
            continue
        if base in (BACKWARD, FULL):
            found += [
                f"the new schema does not read the old: {x}" for x in new.problems_reading(old)
            ]
        if base in (FORWARD, FULL):
            found += [
                f"the old schema does not read the new: {x}" for x in old.problems_reading(new)
            ]
    return list(dict.fromkeys(found))
