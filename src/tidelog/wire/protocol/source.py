"""Python source under construction, and the values that it refers to."""

from struct import Struct as Layout
from typing import Any

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct

FIXED_FORMATS: dict[str, str] = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
FIXED_SIZES = {kind: Layout(f">{form}").size for kind, form in FIXED_FORMATS.items()}

STRING_BYTES_MAX = 32767  # Kafka refuses longer strings also where the encoding could hold them


class Layouts(dict[int, Any]):
    """Functions for arrays of a fixed-size kind, by count; those for small counts are kept.

    Counts come from outside, so what is kept is bounded.
    """

    KEPT_MAX = 64

    def __init__(self, form: str, method: str) -> None:
        super().__init__()
        self._form = form
        self._method = method

    def __missing__(self, count: int) -> Any:
        function = getattr(Layout(f">{count}{self._form}"), self._method)
        if count <= self.KEPT_MAX:
            self[count] = function
        return function


_layouts: dict[tuple[str, str], Layouts] = {}


class Source:
    """Lines of a function at growing depth; fixed-size values wait to be moved in one call."""

    def __init__(self, message: type[Message], version: int) -> None:
        self.flexible = version in message.__flexible__
        self.version = version
        self.lines: list[str] = []
        self.names: dict[str, object] = {"ZERO_UUID": ZERO_UUID}
        self.depth = 1
        self._variables = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def variable(self, prefix: str) -> str:
        self._variables += 1
        return f"{prefix}{self._variables}"

    def layout(self, formats: str, method: str) -> str:
        """The name of a packing or unpacking function, shared by equal layouts."""
        name = f"{method}_{formats.replace('?', 'z')}"
        self.names[name] = getattr(Layout(f">{formats}"), method)
        return name

    def layouts(self, form: str, method: str) -> str:
        """The name of a table of functions for arrays of one kind."""
        name = f"{method}s_{form.replace('?', 'z')}"
        self.names[name] = _layouts.setdefault((form, method), Layouts(form, method))
        return name

    def struct(self, struct: type[Struct]) -> str:
        """The name of a class. Two structs of one message never share a name."""
        assert self.names.get(struct.__name__, struct) is struct, struct
        self.names[struct.__name__] = struct
        return struct.__name__

    def literal(self, value: object) -> str:
        return "ZERO_UUID" if value == ZERO_UUID else repr(value)

    def text(self, signature: str) -> str:
        return "\n".join([f"def {signature}:", *self.lines, ""])


def smallest_size(kind: str | type[Struct], version: int, *, flexible: bool) -> int:
    """The fewest bytes a value can take: what bounds a count before anything is allocated."""
    if isinstance(kind, str):
        if kind in FIXED_SIZES:
            return FIXED_SIZES[kind]
        return 1 if flexible else 2 if kind == "string" else 4
    size = 1 if flexible else 0
    for row in kind.__fields__:
        if version not in row.versions or row.tag is not None:
            continue
        if row.is_array:
            size += 1 if flexible else 4
        elif version in row.nullable and isinstance(row.kind, type):
            size += 1
        else:
            size += smallest_size(row.kind, version, flexible=flexible)
    return size
