"""Messages as classes: the body of a class is the schema of the message.

    class FetchTopic(Struct):
        topic: str = field("string", "4-12", default="")
        topic_id: bytes = field("uuid", "13+", default=ZERO_UUID)
        partitions: Sequence[FetchPartition] = field([FetchPartition], default=())

One class covers every version of a message. A field that a version does not have keeps its
default when that version is decoded and is left out when it is encoded, so nobody who
handles a message asks whether an attribute is there. Durations, times and error codes are
ints, UUIDs are 16 bytes, arrays are sequences. A tagged struct that was not sent is None.

Type checkers see keyword-only constructors and plain attributes; at run time the classes
have slots and nothing else.
"""

from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, dataclass_transform

Buffer = bytes | bytearray | memoryview

KINDS = frozenset(
    (
        *("bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64"),
        *("uuid", "string", "bytes", "records"),
    )
)
ZERO_UUID = bytes(16)
REQUIRED: Any = object()
SECRETS = frozenset(("auth_bytes", "salted_password", "stored_key", "server_key"))
SHOWN_BYTES_MAX = 64
VERSION_MAX = 32767


class Versions(NamedTuple):
    """From the first to the last version, both included."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __str__(self) -> str:
        if self.last == VERSION_MAX:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


NO_VERSIONS = Versions(0, -1)


def versions(text: str) -> Versions:
    """`"4-12"`, `"13+"`, `"3"`, or `""` for none."""
    if not text:
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), VERSION_MAX)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


class Field(NamedTuple):
    """One row of a schema."""

    name: str
    kind: "str | type[Struct]"
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    default: object


def field(
    kind: "str | type[Struct] | list[Any]",
    present: str = "0+",
    *,
    nullable: str = "",
    tag: int | None = None,
    default: object = REQUIRED,
) -> Any:
    """A row of a schema; `[kind]` is an array. The class gives it its name.

    Without a default the constructor must be told: a struct that cannot be null.
    """
    is_array = isinstance(kind, list)
    element = kind[0] if isinstance(kind, list) else kind
    assert isinstance(element, type) or element in KINDS, element
    return Field("", element, is_array, versions(present), versions(nullable), tag, default)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class StructType(type):
    """Turns the rows in the body of a class into slots, a constructor and `__fields__`."""

    __fields__: tuple[Field, ...]

    def __new__(
        metacls, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any
    ) -> "StructType":
        rows = {key: value for key, value in body.items() if isinstance(value, Field)}
        fields = tuple(row._replace(name=key) for key, row in rows.items())
        kept = {key: value for key, value in body.items() if key not in rows}
        kept["__slots__"] = tuple(rows)
        kept["__fields__"] = fields
        if fields:
            kept["__init__"] = _constructor(fields)
        return super().__new__(metacls, name, bases, kept, **options)

    def __init__(
        cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any
    ) -> None:
        super().__init__(name, bases, body)


def _constructor(fields: tuple[Field, ...]) -> object:
    defaults = {f"d_{row.name}": row.default for row in fields}
    parameters = ", ".join(
        row.name if row.default is REQUIRED else f"{row.name}=d_{row.name}" for row in fields
    )
    body = "".join(f"\n    self.{row.name} = {row.name}" for row in fields)
    # Written out because a constructor that loops costs several times as much per object.
    exec(f"def __init__(self, *, {parameters}):{body}", defaults)  # noqa: S102 - from schemas only
    return defaults["__init__"]


class Struct(metaclass=StructType):
    """A part of a message. Compares by value; a list and a tuple of the same things are equal."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            _same(getattr(self, row.name), getattr(other, row.name))
            for row in type(self).__fields__
        )

    __hash__ = None  # type: ignore[assignment]  # messages are mutable

    def __repr__(self) -> str:
        said = [
            f"{row.name}={_shown(row.name, value)}"
            for row in type(self).__fields__
            if not _same(value := getattr(self, row.name), row.default)
        ]
        return f"{type(self).__name__}({', '.join(said)})"


def _shown(name: str, value: object) -> str:
    """Messages end up in logs: without secrets, and without megabytes of records."""
    if name in SECRETS:
        return "…"
    if isinstance(value, bytes | bytearray | memoryview) and len(value) > SHOWN_BYTES_MAX:
        return f"<{len(value)} bytes>"
    return repr(value)


def _same(one: object, other: object) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


class Message(Struct):
    """What travels in a frame or in a metadata record: a struct with a key and versions."""

    __api_key__: ClassVar[int]
    __versions__: ClassVar[Versions]
    __flexible__: ClassVar[Versions]
    __holds_records__: ClassVar[bool]

    def __init_subclass__(cls, *, key: int = -1, valid: str = "", flexible: str = "") -> None:
        cls.__api_key__ = key
        cls.__versions__ = versions(valid)
        cls.__flexible__ = versions(flexible)
        cls.__holds_records__ = any(row.kind == "records" for row in walk(cls))
        _check_schema(cls)


def walk(struct: type[Struct]) -> list[Field]:
    """Every row of a struct and of the structs in it."""
    rows = list(struct.__fields__)
    for row in struct.__fields__:
        if isinstance(row.kind, type):
            rows.extend(walk(row.kind))
    return rows


def _check_schema(message: type[Message]) -> None:
    """What the compiled functions rely on."""
    for row in walk(message):
        where = f"{message.__name__}: {row}"
        tagged_struct = row.tag is not None and isinstance(row.kind, type) and not row.is_array
        assert row.kind != "records" or (row.tag is None and not row.is_array), where
        assert not tagged_struct or (row.default is None and row.nullable == NO_VERSIONS), where
        assert row.tag is None or row.versions.first >= message.__flexible__.first, where
    for struct in _structs(message):
        tags = sorted(row.tag for row in struct.__fields__ if row.tag is not None)
        assert all(one < other for one, other in pairwise(tags)), (message.__name__, tags)


def _structs(struct: type[Struct]) -> list[type[Struct]]:
    inner = [row.kind for row in struct.__fields__ if isinstance(row.kind, type)]
    return [struct, *(found for kind in inner for found in _structs(kind))]
