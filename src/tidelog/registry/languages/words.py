"""The words that all languages of schemas share."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
KINDS: Final = (JSON, PROTOBUF, AVRO)


class InvalidSchema(Exception):  # noqa: N818 - it names what is so
    """A text is no schema, or refers to one that is not there."""


class Reference(NamedTuple):
    """A schema that another one uses, under the name that it has there."""

    name: str
    subject: str
    version: int

    def as_document(self) -> dict[str, Any]:
        return self._asdict()


class Schema(NamedTuple):
    """A schema as it is registered."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()

    def as_document(self) -> dict[str, Any]:
        """As a registry tells of it: AVRO and the absence of references go without saying."""
        document: dict[str, Any] = {"schema": self.text}
        if self.kind != AVRO:
            document["schemaType"] = self.kind
        if self.references:
            document["references"] = [each.as_document() for each in self.references]
        return document


def references_in(document: Mapping[str, Any]) -> tuple[Reference, ...]:
    """From `[{"name", "subject", "version"}]`; InvalidSchema if it is none such."""
    found = []
    for each in document.get("references") or ():
        try:
            found.append(Reference(str(each["name"]), str(each["subject"]), int(each["version"])))
        except (KeyError, TypeError, ValueError):
            raise InvalidSchema("a reference needs name, subject and version") from None
    return tuple(found)


Resolve = Callable[[Reference], Schema]
"""The schema that a reference means; InvalidSchema if there is none."""


class Parsed(Protocol):
    """A schema that makes sense."""

    @property
    def schema(self) -> Schema: ...

    @property
    def identity(self) -> str:
        """Equal for two texts that differ in layout alone."""

    def formatted(self, form: str) -> str:
        """The text in another form; the usual one for an unknown form."""

    def normalized(self) -> Schema: ...

    def problems_reading(self, writer: Any) -> list[str]:
        """Why this schema cannot read what another of the same kind wrote; empty if it can."""


def with_dependencies(schema: Schema, resolve: Resolve) -> list[tuple[str, Schema]]:
    """What a schema refers to, directly or not, each after what it needs itself."""
    found: dict[str, Schema] = {}
    underway: set[str] = set()

    def visit(references: tuple[Reference, ...]) -> None:
        for each in references:
            if each.name in found:
                continue
            if each.name in underway:
                raise InvalidSchema(f"{each.name} refers to itself")
            underway.add(each.name)
            used = resolve(each)
            if used.kind != schema.kind:
                raise InvalidSchema(f"{each.name} is {used.kind}, and the schema {schema.kind}")
            visit(used.references)
            found[each.name] = used

    visit(schema.references)
    return list(found.items())
