"""Writes src/tidelog/wire/protocol/schemas from the dataclasses of kio.

    python scripts/make_schemas.py [folder]

kio has one module per API, version and direction, generated from Apache Kafka's message
definitions. Here the versions of a message are folded into one class (see
`tidelog.wire.protocol.message`): for each field the versions that have it, the versions in
which it may be null, its tag and its default.
"""

import dataclasses
import datetime
import subprocess
import sys
import types
import typing
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from kio.index import load_entity_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "src/tidelog/wire/protocol/schemas"
PACKAGE = "tidelog.wire.protocol.schemas"

CLIENT_KEYS = (
    *(0, 1, 2, 3, *range(8, 27), *range(28, 38), *range(42, 52)),
    *(55, 57, 60, 61, 65, 66, 68, 69, 74, 75),
)
CLUSTER_KEYS = (27, 52, 53, 54, 56, 58, 59, 62, 63, 64, 67, 70, 73, 80, 81, 82)

# Things that are not requests: values of control records, what consumers tell each other.
DATA_NAMES = (
    "leader_change_message",
    "snapshot_header_record",
    "snapshot_footer_record",
    "k_raft_version_record",
    "voters_record",
    "consumer_protocol_subscription",
    "consumer_protocol_assignment",
)

# kio's names of types → ours. Durations and times are numbers of milliseconds.
PLAIN_KINDS = {
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
}
# Our names where kio's are not ours.
RENAMED = {
    "zk_migration_ready": "migration_ready",
    "is_migrating_zk_broker": "is_migrating_broker",
    "id_": "id",
    "enable2_pc": "enable_2pc",
    "k_raft_version": "kraft_version",
    "k_raft_version_feature": "kraft_version_feature",
}
# Kafka's default is null here, which kio leaves out.
NULL_BY_DEFAULT = (
    ("ConsumerGroupHeartbeatRequest", "topic_partitions"),
    ("ListPartitionReassignmentsRequest", "topics"),
)
TIMES = ("timedelta_i32", "timedelta_i64", "datetime_i64")

PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "uuid": "bytes",
    "string": "str",
    "bytes": "bytes",
    "records": "Buffer",
}
IMPLICIT_DEFAULTS = {
    "bool": "False",
    "float64": "0.0",
    "uuid": "ZERO_UUID",
    "string": '""',
    "bytes": 'b""',
    "records": "None",
}
REQUIRED = "required"

HEADER = '''"""{summary}

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

'''


class Row(typing.NamedTuple):
    """A field as one version has it."""

    name: str
    kind: str
    struct: bool
    array: bool
    nullable: bool
    tag: int | None
    default: str


Struct = dict[str, dict[int, Row]]


class Folded:
    """All versions of one message."""

    def __init__(self, entities: dict[int, type]) -> None:
        self.versions = sorted(entities)
        self.name = entities[self.versions[-1]].__name__
        self.flexible = [v for v in self.versions if entities[v].__flexible__]
        self.structs: dict[str, Struct] = {}
        self.used: dict[str, set[int]] = {}
        for version in self.versions:
            self._add(entities[version], version)

    def _add(self, entity: type, version: int) -> None:
        used = self.used.setdefault(entity.__name__, set())
        if version in used:
            return
        rows = [(row_of(item), inner) for item, inner in fields_of(entity)]
        for _, inner in rows:
            if inner is not None:
                self._add(inner, version)
        used.add(version)
        struct = self.structs.setdefault(entity.__name__, {})
        self.structs[entity.__name__] = merged(struct, [row for row, _ in rows], version)

    def text(self) -> Iterator[str]:
        for name in self._inner_first(self.name):
            struct = self.structs[name]
            is_message = name == self.name
            yield f"class {name}({self._bases() if is_message else 'Struct'}):\n"
            for field_name, by_version in struct.items():
                yield f"    {field_name}: {self._row(name, by_version)}\n"
            yield "\n\n" if struct else "    pass\n\n"

    def _inner_first(self, name: str) -> list[str]:
        order: list[str] = []
        for by_version in self.structs[name].values():
            row = by_version[max(by_version)]
            if row.struct:
                order.extend(n for n in self._inner_first(row.kind) if n not in order)
        return [*order, name]

    def _bases(self) -> str:
        key = getattr(self, "key", -1)
        first, last = self.versions[0], self.versions[-1]
        valid = f"{first}-{last}" if first != last else f"{first}"
        flexible = f"{self.flexible[0]}+" if self.flexible else ""
        return f'Message, key={key}, valid="{valid}", flexible="{flexible}"'

    def _row(self, struct_name: str, by_version: dict[int, Row]) -> str:
        row = by_version[max(by_version)]
        for other in by_version.values():
            if other.default != row.default == "None":
                row = row._replace(default=other.default)  # null is not a default everywhere
            changed = other._replace(nullable=row.nullable, default=row.default)
            assert changed == row, (struct_name, other, row)
        python = row.kind if row.struct else PYTHON_TYPES.get(row.kind, "int")
        kind = row.kind if row.struct else f'"{row.kind}"'
        if row.array:
            python, kind = f"Sequence[{python}]", f"[{kind}]"
        nullable = [version for version in by_version if by_version[version].nullable]
        if nullable or row.default == "None":
            python += " | None"
        arguments = [kind]
        if set(by_version) != self.used[struct_name]:
            arguments.append(f'"{self._range(by_version)}"')
        if nullable:
            everywhere = set(nullable) == set(by_version)
            arguments.append(f'nullable="{"0+" if everywhere else self._range(nullable)}"')
        if row.tag is not None:
            arguments.append(f"tag={row.tag}")
        if (struct_name, row.name) in NULL_BY_DEFAULT:
            row = row._replace(default="None")
        if row.default == REQUIRED:
            assert set(by_version) == self.used[struct_name], row
        else:
            arguments.append(f"default={row.default}")
        return f"{python} = field({', '.join(arguments)})"

    def _range(self, some: Iterable[int]) -> str:
        some = sorted(some)
        assert some == [v for v in self.versions if some[0] <= v <= some[-1]], some
        return f"{some[0]}+" if some[-1] == self.versions[-1] else f"{some[0]}-{some[-1]}"


def merged(struct: Struct, rows: list[Row], version: int) -> Struct:
    """Adds one version's fields, keeping the order that every version has."""
    order = list(struct)
    place = 0
    for row in rows:
        if row.name in order:
            assert order.index(row.name) >= place or row.tag is not None, (version, row)
            place = max(place, order.index(row.name) + 1)
        else:
            order.insert(place, row.name)
            place += 1
        struct.setdefault(row.name, {})[version] = row
    return {name: struct[name] for name in order}


def fields_of(entity: type) -> Iterator[tuple[dataclasses.Field, type | None]]:
    for item in dataclasses.fields(entity):
        bare = without_none(item.type)
        inner = element_of(bare) if typing.get_origin(bare) is tuple else bare
        yield item, inner if dataclasses.is_dataclass(inner) else None


def row_of(item: dataclasses.Field) -> Row:
    bare = without_none(item.type)
    array = typing.get_origin(bare) is tuple
    element = element_of(bare) if array else bare
    theirs = item.metadata.get("kafka_type", element.__name__)
    struct = dataclasses.is_dataclass(element)
    kind = PLAIN_KINDS.get(theirs, theirs)
    # kio writes a zero UUID and the time -1 as None; on the wire neither can be null.
    nullable = bare is not item.type and (array or (kind != "uuid" and theirs not in TIMES))
    name = RENAMED.get(item.name, item.name)
    if theirs in TIMES and not name.endswith("_ms"):
        name += "_ms"
    tag = item.metadata.get("tag")
    default = default_of(item, kind, array=array, struct=struct)
    return Row(name, kind, struct, array, nullable, tag, default)


def without_none(annotation: object) -> typing.Any:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        (bare,) = (part for part in typing.get_args(annotation) if part is not type(None))
        return bare
    return annotation


def element_of(annotation: object) -> typing.Any:
    return without_none(typing.get_args(annotation)[0])


def default_of(item: dataclasses.Field, kind: str, *, array: bool, struct: bool) -> str:
    default = item.default
    if default is dataclasses.MISSING:
        if item.metadata.get("kafka_type") == "datetime_i64" and bare_is_optional(item):
            return "-1"
        if struct and not array:
            return "None" if "tag" in item.metadata or bare_is_optional(item) else REQUIRED
        if bare_is_optional(item) and kind in ("string", "bytes") and not array:
            return "None"
        return "()" if array else IMPLICIT_DEFAULTS.get(kind, "0")
    if struct and not array:
        assert default is None or default == type(default)(), item
        return "None"
    if default is None and not array:
        return {"uuid": "ZERO_UUID", "int64": "-1"}.get(kind, "None")
    if isinstance(default, datetime.timedelta):
        return str(default // datetime.timedelta(milliseconds=1))
    if isinstance(default, uuid.UUID):
        assert default.int == 0, item
        return "ZERO_UUID"
    if isinstance(default, bool) or default is None:
        return repr(default)
    if kind.startswith("int") and not array:
        return str(int(getattr(default, "value", default)))
    return repr(str(default) if kind == "string" and not array else default)


def bare_is_optional(item: dataclasses.Field) -> bool:
    return without_none(item.type) is not item.type


def load(name: str, kind: EntityType) -> Folded:
    versions = [v for v, found in schema_name_map[name].items() if kind in found]
    return Folded({version: load_entity_schema(name, version, kind) for version in versions})


def module_text(folded: Folded, summary: str) -> str:
    body = "".join(folded.text())
    ours = [name for name in ("ZERO_UUID", "Buffer", "Message", "(Struct)") if name in body]
    ours = [name.strip("()") for name in ours]
    if "field(" in body:
        ours.append("field")
    imports = f"from tidelog.wire.protocol.message import {', '.join(ours)}\n\n\n"
    if "Sequence[" in body:
        imports = "from collections.abc import Sequence\n\n" + imports
    return HEADER.format(summary=summary) + imports + body


def index_text(modules: dict[str, dict[int, str]]) -> str:
    body = [HEADER.format(summary="Where the messages are: API key → module.")]
    for title, by_key in modules.items():
        rows = "".join(f'{key}: "{PACKAGE}.{name}",\n' for key, name in sorted(by_key.items()))
        body.append(f"{title} = {{\n{rows}}}\n")
    return "".join(body)


def write_all(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    modules: dict[str, dict[int, str]] = {"REQUESTS": {}, "RESPONSES": {}}
    for key in (*CLIENT_KEYS, *CLUSTER_KEYS):
        for kind in (EntityType.request, EntityType.response):
            folded = load(api_key_map[key], kind)
            folded.key = key
            name = f"{api_key_map[key]}_{kind.name}"
            modules[f"{kind.name.upper()}S"][key] = name
            summary = f"{folded.name}, API {key}."
            (folder / f"{name}.py").write_text(module_text(folded, summary), "utf-8")
    for name in DATA_NAMES:
        folded = load(name, EntityType.data)
        name = name.replace("k_raft", "kraft")  # noqa: PLW2901
        (folder / f"{name}.py").write_text(module_text(folded, f"{folded.name}."), "utf-8")
    (folder / "__init__.py").write_text(index_text(modules), "utf-8")
    ruff = [sys.executable, "-m", "ruff", "format", "--quiet", "--config"]
    subprocess.run([*ruff, str(ROOT / "pyproject.toml"), str(folder)], check=True)


if __name__ == "__main__":
    write_all(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
