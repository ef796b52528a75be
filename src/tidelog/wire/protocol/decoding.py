"""From a schema to the source of a function that decodes one version of a message.

The function gets the frame and the position of the body and returns the message and the
position after it. Structs are decoded in place, without a call for each. Fixed-size fields
that follow each other are read with one call, together with the length of what comes next.

Slices past the end do not raise, so every length is compared with the end of the frame
before it is used, and every count with the bytes that are left. Reading a number past the
end raises; `codec` turns that into a `ProtocolError`.
"""

from struct import calcsize
from typing import NoReturn

from tidelog.wire.protocol.errors import ProtocolError
from tidelog.wire.protocol.message import Field, Message, Struct
from tidelog.wire.protocol.source import (
    FIXED_FORMATS,
    FIXED_SIZES,
    STRING_BYTES_MAX,
    Source,
    smallest_size,
)
from tidelog.wire.protocol.varints import read_long_varint, skip_tags


def decoder_source(message: type[Message], version: int) -> tuple[str, dict[str, object]]:
    """The text of `decode(data, p)` and the names that it needs."""
    decoder = _Decoder(message, version)
    decoder.line("end = len(data)")
    decoder.struct_into("o", message, message.__name__)
    decoder.line("return o, p")
    return decoder.text("decode(data, p)"), decoder.names


def refuse_length(field: str, length: int, left: int) -> NoReturn:
    raise ProtocolError(f"{field}: a length of {length} where {left} bytes are left")


def refuse_count(field: str, count: int, left: int) -> NoReturn:
    raise ProtocolError(f"{field}: {count} elements where {left} bytes are left")


def refuse_tag(field: str, announced: int, used: int) -> NoReturn:
    raise ProtocolError(f"{field}: the tag announced {announced} bytes and has {used}")


class _Decoder(Source):
    def __init__(self, message: type[Message], version: int) -> None:
        super().__init__(message, version)
        self._waiting: list[tuple[str, str]] = []
        self.names |= {
            "new": object.__new__,
            "read_long_varint": read_long_varint,
            "skip_tags": skip_tags,
            "refuse_length": refuse_length,
            "refuse_count": refuse_count,
            "refuse_tag": refuse_tag,
        }

    # ---- fixed-size values ----

    def _read_waiting(self) -> None:
        """One call for all the values that wait."""
        if not self._waiting:
            return
        targets = ", ".join(target for target, _ in self._waiting)
        formats = "".join(form for _, form in self._waiting)
        size = calcsize(f">{formats}")
        self._waiting = []
        if formats == "B":
            self.line(f"{targets} = data[p]")
        else:
            comma = "" if "," in targets else ","
            self.line(f"{targets}{comma} = {self.layout(formats, 'unpack_from')}(data, p)")
        self.line(f"p += {size}")

    def _read_length(self, legacy_format: str, string_of: str = "") -> str:
        """A variable with a length; in the flexible encoding it is the length plus one."""
        length = self.variable("n")
        self._waiting.append((length, "B" if self.flexible else legacy_format))
        self._read_waiting()
        if self.flexible:
            self.line(f"if {length} > 127:")
            self.line(f"    {length}, p = read_long_varint(data, p, {length})")
            if string_of:
                self.line(f"    if {length} > {STRING_BYTES_MAX + 1}:")
                self.line(f"        refuse_length({string_of!r}, {length} - 1, end - p)")
        return length

    # ---- structs ----

    def struct_into(self, target: str, struct: type[Struct], path: str) -> None:
        self.line(f"{target} = new({self.struct(struct)})")
        defaults: dict[str, list[str]] = {}
        rows: list[Field] = []
        tagged: list[Field] = []
        for row in struct.__fields__:
            if self.version in row.versions and row.tag is None:
                rows.append(row)
                continue
            defaults.setdefault(self.literal(row.default), []).append(f"{target}.{row.name}")
            if self.version in row.versions:
                tagged.append(row)
        for literal, names in defaults.items():
            self.line(f"{' = '.join(names)} = {literal}")
        for row in rows:
            self._field(row, f"{target}.{row.name}", f"{path}.{row.name}")
        if self.flexible:
            self._tags(tagged, target, path)
        self._read_waiting()

    def _tags(self, tagged: list[Field], target: str, path: str) -> None:
        count = self.variable("t")
        self._waiting.append((count, "B"))
        self._read_waiting()
        self.line(f"if {count}:")
        self.depth += 1
        if tagged:
            self._known_tags(sorted(tagged, key=lambda row: row.tag or 0), count, target, path)
        else:
            self.line(f"p = skip_tags(data, p, {count})")
        self.depth -= 1

    def _known_tags(self, tagged: list[Field], count: str, target: str, path: str) -> None:
        tag, size, after = self.variable("tag"), self.variable("size"), self.variable("after")
        self.line(f"if {count} > 127:")
        self.line(f"    {count}, p = read_long_varint(data, p, {count})")
        self.line(f"if {count} * 2 > end - p:")
        self.line(f"    refuse_count({path + ' tags'!r}, {count}, end - p)")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        for number in (tag, size):
            self.line(f"{number} = data[p]")
            self.line("p += 1")
            self.line(f"if {number} > 127:")
            self.line(f"    {number}, p = read_long_varint(data, p, {number})")
        self.line(f"{after} = p + {size}")
        self.line(f"if {after} > end:")
        self.line(f"    refuse_length({path + ' tag'!r}, {size}, end - p)")
        word = "if"
        for row in tagged:
            self.line(f"{word} {tag} == {row.tag}:")
            self.depth += 1
            self._field(row, f"{target}.{row.name}", f"{path}.{row.name}")
            self._read_waiting()
            self.depth -= 1
            word = "elif"
        self.line("else:")
        self.line(f"    p = {after}")
        self.line(f"if p != {after}:")
        self.line(f"    refuse_tag({path!r}, {size}, p - {after} + {size})")
        self.depth -= 1

    # ---- fields ----

    def _field(self, row: Field, target: str, path: str) -> None:
        nullable = self.version in row.nullable
        if row.is_array:
            self._array(row, target, path, nullable=nullable)
        elif isinstance(row.kind, type):
            self._struct_field(row.kind, target, path, nullable=nullable)
        elif row.kind in FIXED_FORMATS:
            self._waiting.append((target, FIXED_FORMATS[row.kind]))
        else:
            self._blob(row.kind, target, path, nullable=nullable)

    def _struct_field(
        self, struct: type[Struct], target: str, path: str, *, nullable: bool
    ) -> None:
        inner = self.variable("o")
        if not nullable:
            self._read_waiting()
            self.struct_into(inner, struct, path)
            self.line(f"{target} = {inner}")
            return
        marker = self.variable("n")  # KIP-893: -1 null, 1 present
        self._waiting.append((marker, "b"))
        self._read_waiting()
        self.line(f"if {marker} < 0:")
        self.line(f"    {target} = None")
        self.line("else:")
        self.depth += 1
        self.struct_into(inner, struct, path)
        self.line(f"{target} = {inner}")
        self.depth -= 1

    def _blob(self, kind: str, target: str, path: str, *, nullable: bool) -> None:
        """A string, bytes or records."""
        is_string = kind == "string"
        length = self._read_length("h" if is_string else "i", path if is_string else "")
        less = " - 1" if self.flexible else ""
        is_null = f"not {length}" if self.flexible else f"{length} < 0"
        after = self.variable("q")
        if nullable:
            self.line(f"if {is_null}:")
            self.line(f"    {target} = None")
            self.line("else:")
            self.depth += 1
        self.line(f"{after} = p + {length}{less}")
        self.line(f"if {after} > end{'' if nullable else f' or {is_null}'}:")
        self.line(f"    refuse_length({path!r}, {length}{less}, end - p)")
        piece = f"data[p:{after}]"
        value = {"string": f'str({piece}, "utf-8")', "bytes": f"bytes({piece})"}.get(kind, piece)
        self.line(f"{target} = {value}")
        self.line(f"p = {after}")
        if nullable:
            self.depth -= 1

    def _array(self, row: Field, target: str, path: str, *, nullable: bool) -> None:
        count = self._read_length("i")
        is_null = f"not {count}" if self.flexible else f"{count} < 0"
        if nullable:
            self.line(f"if {is_null}:")
            self.line(f"    {target} = None")
            self.line("else:")
            self.depth += 1
        smallest = max(1, smallest_size(row.kind, self.version, flexible=self.flexible))
        if self.flexible:
            self.line(f"{count} -= 1")
        needed = count if smallest == 1 else f"{count} * {smallest}"
        self.line(f"if {needed} > end - p{'' if nullable else f' or {count} < 0'}:")
        self.line(f"    refuse_count({path!r}, {count}, end - p)")
        if isinstance(row.kind, str) and row.kind in FIXED_FORMATS:
            self._fixed_elements(row.kind, target, count)
        else:
            self._elements(row, target, count, path)
        if nullable:
            self.depth -= 1

    def _fixed_elements(self, kind: str, target: str, count: str) -> None:
        size = FIXED_SIZES[kind]
        if kind == "uuid":
            after = self.variable("q")
            self.line(f"{after} = p + {size} * {count}")
            pieces = f"bytes(data[i:i + {size}]) for i in range(p, {after}, {size})"
            self.line(f"{target} = [{pieces}]")
            self.line(f"p = {after}")
            return
        functions = self.layouts(FIXED_FORMATS[kind], "unpack_from")
        self.line(f"{target} = {functions}[{count}](data, p) if {count} else ()")
        self.line(f"p += {f'{size} * ' if size > 1 else ''}{count}")

    def _elements(self, row: Field, target: str, count: str, path: str) -> None:
        items, item = self.variable("a"), self.variable("o")
        self.line(f"{target} = {items} = []")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        if isinstance(row.kind, type):
            self.struct_into(item, row.kind, path)
        else:
            self._blob(row.kind, item, path, nullable=False)
        self.line(f"{items}.append({item})")
        self.depth -= 1
