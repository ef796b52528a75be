"""From a schema to the source of a function that encodes one version of a message.

The function gets the message, the buffer to write to and the list of finished buffers.
Records are never copied: what was written so far goes on the list, then the records, then
a new buffer begins.

Fixed-size fields that follow each other are packed with one call, together with the length
of what comes next; the empty list of tagged fields is a padding byte in the next call.
"""

from typing import NoReturn

from tidelog.wire.protocol.errors import ProtocolError
from tidelog.wire.protocol.message import NO_VERSIONS, Field, Message, Struct
from tidelog.wire.protocol.source import FIXED_FORMATS, STRING_BYTES_MAX, Source
from tidelog.wire.protocol.varints import varint

PADDING = ("", "x")


def encoder_source(message: type[Message], version: int) -> tuple[str, dict[str, object]]:
    """The text of `encode(o, out, parts)` and the names that it needs."""
    encoder = _Encoder(message, version)
    encoder.write_struct("o", message, message.__name__)
    encoder.write_waiting()
    encoder.line("parts.append(out)")
    return encoder.text("encode(o, out, parts)"), encoder.names


def refuse_uuid(field: str, value: object) -> NoReturn:
    raise ProtocolError(f"{field}: {value!r} is not a UUID of 16 bytes")


def refuse_string(field: str, length: int) -> NoReturn:
    raise ProtocolError(f"{field}: {length} bytes, a string has at most {STRING_BYTES_MAX}")


class _Encoder(Source):
    def __init__(self, message: type[Message], version: int) -> None:
        super().__init__(message, version)
        self.out = "out"
        self._waiting: list[tuple[str, str]] = []
        self.names |= {
            "varint": varint,
            "refuse_uuid": refuse_uuid,
            "refuse_string": refuse_string,
        }

    # ---- fixed-size values ----

    def write_waiting(self) -> None:
        """One call for all the values that wait."""
        if self._waiting == [PADDING]:
            self.line(f"{self.out}.append(0)")
        elif self._waiting:
            self.line(f"{self.out} += {self._packed()}")
        self._waiting = []

    def _packed(self, *more: tuple[str, str]) -> str:
        items = [*self._waiting, *more]
        formats = "".join(form for _, form in items)
        values = ", ".join(value for value, _ in items if value)
        if not values:
            return f"bytes({len(formats)})"
        return f"{self.layout(formats, 'pack')}({values})"

    def _write_length(self, length: str, legacy_format: str) -> None:
        """A length; in the flexible encoding the caller has added one."""
        if not self.flexible:
            self._waiting.append((length, legacy_format))
            self.write_waiting()
            return
        self.line(f"if {length} < 128:")
        if self._waiting:
            self.line(f"    {self.out} += {self._packed((length, 'B'))}")
        else:
            self.line(f"    {self.out}.append({length})")
        self.line("else:")
        before = f"{self._packed()} + " if self._waiting else ""
        self.line(f"    {self.out} += {before}varint({length})")
        self._waiting = []

    # ---- structs ----

    def write_struct(self, source: str, struct: type[Struct], path: str) -> None:
        present = [row for row in struct.__fields__ if self.version in row.versions]
        for row in present:
            if row.tag is None:
                self._field(row, f"{source}.{row.name}", f"{path}.{row.name}")
        if self.flexible:
            tagged = [row for row in present if row.tag is not None]
            if tagged:
                self._tags(sorted(tagged, key=lambda row: row.tag or 0), source, path)
            else:
                self._waiting.append(PADDING)

    def _tags(self, tagged: list[Field], source: str, path: str) -> None:
        """Fields with their default are not sent; the rest in ascending order of tags."""
        conditions = [self._differs(row, f"{source}.{row.name}") for row in tagged]
        self.line(f"if {' or '.join(conditions)}:")
        self.depth += 1
        waiting, outer = list(self._waiting), self.out
        self.write_waiting()
        count, body = self.variable("t"), self.variable("body")
        self.line(f"{count} = 0")
        self.line(f"{body} = bytearray()")
        for row, condition in zip(tagged, conditions, strict=True):
            self.line(f"if {condition}:")
            self.depth += 1
            self.line(f"{count} += 1")
            value = self.variable("value")
            self.line(f"{value} = bytearray()")
            self.out = value
            self._field(row, f"{source}.{row.name}", f"{path}.{row.name}")
            self.write_waiting()
            self.out = outer
            self.line(f"{body} += varint({row.tag}) + varint(len({value}))")
            self.line(f"{body} += {value}")
            self.depth -= 1
        self.line(f"{outer} += varint({count})")
        self.line(f"{outer} += {body}")
        self.depth -= 1
        self.line("else:")
        self.depth += 1
        self._waiting = [*waiting, PADDING]
        self.write_waiting()
        self.depth -= 1

    def _differs(self, row: Field, source: str) -> str:
        if isinstance(row.kind, type) and not row.is_array:
            fields = row.kind.__fields__
            if all(isinstance(each.kind, str) and not each.is_array for each in fields):
                # Written out: comparing structs as such costs many times as much.
                each_differs = " or ".join(
                    f"{source}.{each.name} != {self.literal(each.default)}" for each in fields
                )
                return f"({source} is not None and ({each_differs}))"
            default = f"default_{self.struct(row.kind)}"
            self.names[default] = row.kind()
            return f"({source} is not None and {source} != {default})"
        if row.default is None:
            return f"{source} is not None"
        if row.is_array:
            assert row.default == (), row
            return f"len({source})" if self.version not in row.nullable else f"{source} != ()"
        return f"{source} != {self.literal(row.default)}"

    # ---- fields ----

    def _field(self, row: Field, source: str, path: str) -> None:
        nullable = self.version in row.nullable
        if row.is_array:
            self._array(row, source, path, nullable=nullable)
        elif isinstance(row.kind, type):
            self._struct_field(row.kind, source, path, nullable=nullable)
        elif row.kind in FIXED_FORMATS:
            if row.kind == "uuid":
                self.line(f"if len({source}) != 16:")
                self.line(f"    refuse_uuid({path!r}, {source})")
            self._waiting.append((source, FIXED_FORMATS[row.kind]))
        else:
            self._blob(row.kind, source, path, nullable=nullable)

    def _struct_field(
        self, struct: type[Struct], source: str, path: str, *, nullable: bool
    ) -> None:
        inner = self.variable("o")
        self.line(f"{inner} = {source}")
        if not nullable:
            self.write_struct(inner, struct, path)
            return
        self.write_waiting()
        self.line(f"if {inner} is None:")  # KIP-893: -1 null, 1 present
        self.line(f"    {self.out}.append(255)")
        self.line("else:")
        self.depth += 1
        self._waiting.append(("1", "b"))
        self.write_struct(inner, struct, path)
        self.write_waiting()
        self.depth -= 1

    def _blob(self, kind: str, source: str, path: str, *, nullable: bool) -> None:
        """A string, bytes or records."""
        value, length = self.variable("v"), self.variable("n")
        encode = ".encode()" if kind == "string" else ""
        plus = " + 1" if self.flexible else ""
        if nullable:
            self.line(f"{value} = {source}")
            self.line(f"if {value} is None:")
            self.line(f"    {length} = {0 if self.flexible else -1}")
            self.line(f'    {value} = b""')
            self.line("else:")
            self.depth += 1
            if encode:
                self.line(f"{value} = {value}{encode}")
            self.line(f"{length} = len({value}){plus}")
            self.depth -= 1
        else:
            self.line(f"{value} = {source}{encode}")
            self.line(f"{length} = len({value}){plus}")
        if kind == "string":
            self.line(f"if {length} > {STRING_BYTES_MAX + (1 if self.flexible else 0)}:")
            self.line(f"    refuse_string({path!r}, len({value}))")
        self._write_length(length, "h" if kind == "string" else "i")
        if kind == "records":
            self.line(f"if {value}:")
            self.line("    parts.append(out)")
            self.line(f"    parts.append({value})")
            self.line("    out = bytearray()")
        else:
            self.line(f"{self.out} += {value}")

    def _array(self, row: Field, source: str, path: str, *, nullable: bool) -> None:
        items, count = self.variable("a"), self.variable("n")
        plus = " + 1" if self.flexible else ""
        self.line(f"{items} = {source}")
        if nullable:
            self.line(f"if {items} is None:")
            self.line(f"    {count} = {0 if self.flexible else -1}")
            self.line(f"    {items} = ()")
            self.line("else:")
            self.line(f"    {count} = len({items}){plus}")
        else:
            self.line(f"{count} = len({items}){plus}")
        self._write_length(count, "i")
        if isinstance(row.kind, str) and row.kind in FIXED_FORMATS and row.kind != "uuid":
            functions = self.layouts(FIXED_FORMATS[row.kind], "pack")
            self.line(f"if {items}:")
            self.line(f"    {self.out} += {functions}[len({items})](*{items})")
            return
        item = self.variable("o")
        self.line(f"for {item} in {items}:")
        self.depth += 1
        if isinstance(row.kind, type):
            self.write_struct(item, row.kind, path)
        else:
            self._field(row._replace(is_array=False, nullable=NO_VERSIONS), item, path)
        self.write_waiting()
        self.depth -= 1
