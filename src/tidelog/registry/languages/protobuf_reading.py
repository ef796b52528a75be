"""Whether a Protobuf schema reads what another one wrote. Fields are known by their numbers."""

from collections.abc import Iterator
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

ALIKE: Final = (
    (
        FieldDescriptorProto.TYPE_INT32,
        FieldDescriptorProto.TYPE_INT64,
        FieldDescriptorProto.TYPE_UINT32,
        FieldDescriptorProto.TYPE_UINT64,
        FieldDescriptorProto.TYPE_BOOL,
    ),
    (FieldDescriptorProto.TYPE_SINT32, FieldDescriptorProto.TYPE_SINT64),
    (FieldDescriptorProto.TYPE_FIXED32, FieldDescriptorProto.TYPE_SFIXED32),
    (FieldDescriptorProto.TYPE_FIXED64, FieldDescriptorProto.TYPE_SFIXED64),
    (FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES),
)
"""Kinds of fields whose bytes are read as one another's."""
WHOLE_NUMBERS: Final = ALIKE[0]
TEXT: Final = ALIKE[4]


def problems(reader: FileDescriptorProto, writer: FileDescriptorProto) -> list[str]:
    read = dict(messages(reader))
    found = []
    for name, message in messages(writer):
        if name not in read:
            found.append(f"message {name} is not there any more")
        elif not message.options.map_entry:
            found += _message_problems(name, read[name], message, reader, writer)
    return found


def messages(file: FileDescriptorProto) -> Iterator[tuple[str, DescriptorProto]]:
    """All of them, nested ones too, by their names within the package."""

    def below(prefix: str, message: DescriptorProto) -> Iterator[tuple[str, DescriptorProto]]:
        name = f"{prefix}{message.name}"
        yield name, message
        for nested in message.nested_type:
            yield from below(f"{name}.", nested)

    for message in file.message_type:
        yield from below("", message)


def _message_problems(
    name: str,
    reader: DescriptorProto,
    writer: DescriptorProto,
    reader_file: FileDescriptorProto,
    writer_file: FileDescriptorProto,
) -> list[str]:
    written = {each.number: each for each in writer.field}
    read = {each.number: each for each in reader.field}
    found = []
    for number, field in read.items():
        place = f"{name}.{field.name} = {number}"
        before = written.get(number)
        if before is None:
            if field.label == FieldDescriptorProto.LABEL_REQUIRED:
                found.append(f"{place}: required, and it was never written")
            continue
        mine, its = _type(field, reader_file), _type(before, writer_file)
        if not _reads(mine, its):
            found.append(f"{place}: {mine[1]} does not read {its[1]}")
        elif _is_list(field) != _is_list(before) and field.type not in TEXT:
            found.append(f"{place}: one value and a list are not the same")
    for number, field in written.items():
        if number not in read and _oneof(field) is not None:
            found.append(f"{name}.{field.name} = {number}: taken out of its oneof")
    return found + _joined(name, reader, written)


def _joined(
    name: str, reader: DescriptorProto, written: dict[int, FieldDescriptorProto]
) -> list[str]:
    """Fields that could be there together, and now share a oneof: one of them would be lost."""
    found = []
    for index, oneof in enumerate(reader.oneof_decl):
        moved = [
            field.name
            for field in reader.field
            if _oneof(field) == index
            and field.number in written
            and _oneof(written[field.number]) is None
        ]
        if len(moved) > 1:
            found.append(f"{name}.{oneof.name}: {', '.join(moved)} were moved into one oneof")
    return found


def _oneof(field: FieldDescriptorProto) -> int | None:
    """The real ones: an optional field of proto3 has a oneof for itself."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return None
    return int(field.oneof_index)


def _is_list(field: FieldDescriptorProto) -> bool:
    return bool(field.label == FieldDescriptorProto.LABEL_REPEATED)


def _type(field: FieldDescriptorProto, file: FileDescriptorProto) -> tuple[int, str]:
    """The kind, and a name for people; of messages and enums that within the package."""
    if field.type_name:
        return field.type, field.type_name.removeprefix(f".{file.package}").lstrip(".")
    return field.type, FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def _reads(reader: tuple[int, str], writer: tuple[int, str]) -> bool:
    if reader[0] == writer[0]:
        named = reader[0] in (FieldDescriptorProto.TYPE_MESSAGE, FieldDescriptorProto.TYPE_GROUP)
        return reader[1] == writer[1] if named else True
    numbers = (*WHOLE_NUMBERS, FieldDescriptorProto.TYPE_ENUM)
    if reader[0] in numbers and writer[0] in numbers:
        return True
    return any(reader[0] in group and writer[0] in group for group in ALIKE)
