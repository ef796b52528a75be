"""The records of the topic of schemas, in the JSON that Confluent's registry writes there."""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tidelog.registry.languages.words import AVRO, Schema, references_in

SCHEMA, CONFIG, MODE, DELETE_SUBJECT = "SCHEMA", "CONFIG", "MODE", "DELETE_SUBJECT"
NOOP: Final = "NOOP"

Record = tuple[bytes, bytes | None]
"""Key and value; no value takes back what the key said."""


class Version(NamedTuple):
    """One version of a subject."""

    subject: str
    version: int
    id: int
    schema: Schema
    deleted: bool = False

    def as_document(self) -> dict[str, Any]:
        document = {"subject": self.subject, "version": self.version, "id": self.id}
        return {**document, **self.schema.as_document()}


def schema_record(version: Version) -> Record:
    return schema_key(version), encoded({**version.as_document(), "deleted": version.deleted})


def schema_key(version: Version) -> bytes:
    return encoded(
        {"keytype": SCHEMA, "subject": version.subject, "version": version.version, "magic": 1}
    )


def config_record(subject: str | None, level: str | None) -> Record:
    value = None if level is None else encoded({"compatibilityLevel": level})
    return encoded({"keytype": CONFIG, "subject": subject, "magic": 0}), value


def mode_record(subject: str | None, mode: str | None) -> Record:
    value = None if mode is None else encoded({"mode": mode})
    return encoded({"keytype": MODE, "subject": subject, "magic": 0}), value


def encoded(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def version_in(document: Mapping[str, Any]) -> Version:
    schema = Schema(
        document.get("schemaType") or AVRO, str(document["schema"]), references_in(document)
    )
    return Version(
        str(document["subject"]),
        int(document["version"]),
        int(document["id"]),
        schema,
        bool(document.get("deleted")),
    )
