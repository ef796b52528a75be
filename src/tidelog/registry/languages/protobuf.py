"""Protobuf: compiled by Google's own compiler, compared by rules of our own.

A schema comes as the text of a .proto file or, as serializers for Python send it, as the
descriptor of one in base64. Both are kept as they came; they are the same schema if their
descriptors are.
"""

import base64
import binascii
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from tidelog.registry.languages import protobuf_reading
from tidelog.registry.languages.words import InvalidSchema, Resolve, Schema, with_dependencies

SERIALIZED: Final = "serialized"
COMPILE_WITHIN_S: Final = 60
MAIN: Final = "schema.proto"
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
WELL_KNOWN: Final = (
    "any",
    "api",
    "descriptor",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
    "timestamp",
    "type",
    "wrappers",
)


class ProtobufSchema:
    def __init__(self, schema: Schema, resolve: Resolve) -> None:
        self.schema = schema
        self.used: list[FileDescriptorProto] = []
        for name, each in with_dependencies(schema, resolve):
            self.used.append(file_of(each.text, name, self.used))
        self.file = file_of(schema.text, MAIN, self.used)
        self.pool()  # everything that it names is there

    @cached_property
    def identity(self) -> str:
        references = sorted(each.name for each in self.schema.references)
        return f"{encoded(plain(self.file))} {references}"

    def formatted(self, form: str) -> str:
        return encoded(self.file) if form == SERIALIZED else self.schema.text

    def normalized(self) -> Schema:
        return self.schema

    def problems_reading(self, writer: "ProtobufSchema") -> list[str]:
        return protobuf_reading.problems(self.file, writer.file)

    def pool(self) -> tuple[descriptor_pool.DescriptorPool, FileDescriptor]:
        return pooled(self.file, self.used)


def file_of(text: str, name: str, used: Sequence[FileDescriptorProto]) -> FileDescriptorProto:
    """The descriptor of a file, under this name."""
    found = decoded(text) if _BASE64.fullmatch(text) else compiled(text, used)
    found.name = name
    return found


def decoded(text: str) -> FileDescriptorProto:
    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=False))
    except (binascii.Error, DecodeError):
        raise InvalidSchema("neither a .proto file nor the descriptor of one") from None


def encoded(file: FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString(deterministic=True)).decode("ascii")


def compiled(text: str, used: Sequence[FileDescriptorProto]) -> FileDescriptorProto:
    """In a process of its own: the compiler writes what is wrong to its standard error."""
    with tempfile.TemporaryDirectory(prefix="tidelog-protoc-") as made:
        directory = Path(made)
        (directory / MAIN).write_text(text, "utf-8")
        known = FileDescriptorSet(file=[*well_known(), *used])
        (directory / "used.bin").write_bytes(known.SerializeToString())
        command = [sys.executable, "-m", "grpc_tools.protoc", "-I", made]
        command += [f"--descriptor_set_in={directory / 'used.bin'}"]
        command += [f"--descriptor_set_out={directory / 'made.bin'}", MAIN]
        try:
            ran = subprocess.run(  # noqa: S603 - the compiler beside this interpreter
                command, cwd=made, capture_output=True, timeout=COMPILE_WITHIN_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise InvalidSchema(f"the compiler took over {COMPILE_WITHIN_S} s") from None
        if ran.returncode:
            said = ran.stderr.decode(errors="replace").replace(made, "").strip()
            if "No module named" in said:
                raise InvalidSchema("the text of .proto needs: pip install 'tidelog[registry]'")
            raise InvalidSchema(" ".join(said.splitlines()) or "the compiler refuses it")
        made_set = FileDescriptorSet.FromString((directory / "made.bin").read_bytes())
    return next(each for each in made_set.file if each.name == MAIN)


def well_known() -> list[FileDescriptorProto]:
    """Google's own files, which every Protobuf brings along; each after what it imports."""
    found: dict[str, FileDescriptorProto] = {}
    pool = descriptor_pool.Default()

    def add(file: FileDescriptor) -> None:
        for each in file.dependencies:
            add(each)
        copy = FileDescriptorProto()
        file.CopyToProto(copy)
        found.setdefault(file.name, copy)

    for name in WELL_KNOWN:
        __import__(f"google.protobuf.{name}_pb2")
        add(pool.FindFileByName(f"google/protobuf/{name}.proto"))
    return list(found.values())


def pooled(
    file: FileDescriptorProto, used: Sequence[FileDescriptorProto]
) -> tuple[descriptor_pool.DescriptorPool, FileDescriptor]:
    """A pool with all of it; InvalidSchema if something is missing or wrong."""
    pool = descriptor_pool.DescriptorPool()
    known = {each.name: each for each in [*well_known(), *used, file]}
    added: set[str] = set()

    def add(each: FileDescriptorProto) -> None:
        """After what it imports; a file of Google's that nobody imports is left out, for it may
        be the schema itself."""
        if each.name not in added:
            added.add(each.name)
            for name in each.dependency:
                add(known[name])
            pool.Add(each)

    try:
        add(file)
        return pool, pool.FindFileByName(file.name)
    except KeyError as reason:
        raise InvalidSchema(f"it imports {reason}, which no reference brings") from None
    except (TypeError, ValueError) as reason:
        raise InvalidSchema(" ".join(str(reason).split())) from None


def plain(file: FileDescriptorProto) -> FileDescriptorProto:
    """Without what the same schema may have or not: its name, places in the text, names for JSON
    that are made of the fields' own."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    copy.ClearField("name")
    copy.ClearField("source_code_info")

    def tidy(message: DescriptorProto) -> None:
        for field in [*message.field, *message.extension]:
            if field.json_name == usual_json_name(field.name):
                field.ClearField("json_name")
        for nested in message.nested_type:
            tidy(nested)

    for message in copy.message_type:
        tidy(message)
    return copy


def usual_json_name(name: str) -> str:
    return re.sub(r"_+([a-z0-9])?", lambda found: (found[1] or "").upper(), name)
