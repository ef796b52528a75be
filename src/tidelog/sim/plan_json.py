"""Plans as JSON: nested NamedTuples of plain values, written and read by their annotations.

Whatever is read is compared with the annotations. A field that has a default may be missing, so
that files from before the field can still be read.
"""

import types
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Json = Any
Plan = TypeVar("Plan")


def to_json(value: object) -> Json:
    """Tuples with names become objects, other tuples become lists."""
    if isinstance(value, tuple):
        fields: tuple[str, ...] | None = getattr(value, "_fields", None)
        if fields is None:
            return [to_json(each) for each in value]
        return {name: to_json(each) for name, each in zip(fields, value, strict=True)}
    assert value is None or isinstance(value, bool | int | float | str), f"{value!r} in a plan"
    return value


def from_json(kind: type[Plan], document: Json, where: str = "plan") -> Plan:
    """What `to_json` wrote; ValueError says what is wrong, and where."""
    read: Plan = _read(kind, document, where)
    return read


def _read(kind: Any, document: Json, where: str) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        if document is None and type(None) in get_args(kind):
            return None
        (kind,) = (each for each in get_args(kind) if each is not type(None))
        return _read(kind, document, where)
    if get_origin(kind) is tuple:
        return _read_tuple(get_args(kind), document, where)
    if hasattr(kind, "_fields"):
        return _read_named(kind, document, where)
    if type(document) is not kind:
        raise ValueError(f"{where} is {document!r}, which is not of type {kind.__name__}")
    return document


def _read_tuple(kinds: tuple[Any, ...], document: Json, where: str) -> tuple[Any, ...]:
    if not isinstance(document, list):
        raise ValueError(f"{where} is {document!r}, which is not a list")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(document)
    if len(kinds) != len(document):
        raise ValueError(f"{where} has {len(document)} items, not {len(kinds)}")
    pairs = zip(kinds, document, strict=True)
    return tuple(_read(kind, each, f"{where}[{n}]") for n, (kind, each) in enumerate(pairs))


def _read_named(kind: Any, document: Json, where: str) -> Any:
    if not isinstance(document, dict):
        raise ValueError(f"{where} is {document!r}, which is not an object")
    missing = [
        name for name in kind._fields if name not in document and name not in kind._field_defaults
    ]
    unknown = [name for name in document if name not in kind._fields]
    if missing or unknown:
        problems = [f"no {name}" for name in missing] + [f"an unknown {name}" for name in unknown]
        raise ValueError(f"{where} has {', '.join(problems)}")
    hints = get_type_hints(kind)
    return kind(
        **{name: _read(hints[name], value, f"{where}.{name}") for name, value in document.items()}
    )
