"""What is asked of a registry, answered from its image; and schemas that were parsed before."""

from collections.abc import Callable
from typing import Any

from tidelog.registry import errors
from tidelog.registry.image import Image
from tidelog.registry.languages.parsing import parse
from tidelog.registry.languages.words import (
    AVRO,
    InvalidSchema,
    Parsed,
    Schema,
    references_in,
)
from tidelog.registry.records import Version

LATEST = "latest"
LARGEST_VERSION = 2**31 - 1
PARSED_AT_MOST = 1000


class ParsedSchemas:
    """Parsing may mean to run a compiler, so what was parsed is kept for a while."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._known: dict[Schema, Parsed] = {}

    def parse(self, schema: Schema) -> Parsed:
        """Called on threads; RegistryError if it is no schema."""
        known = self._known.get(schema)
        if known is not None:
            return known
        try:
            made = parse(schema, self._image.resolve)
        except InvalidSchema as reason:
            raise errors.invalid_schema(str(reason)) from None
        if len(self._known) >= PARSED_AT_MOST:
            self._known.clear()
        self._known[schema] = made
        return made

    def same(self, wanted: Parsed, versions: list[Version]) -> Version | None:
        """The newest of these that has the same schema."""
        for version in reversed(versions):
            if version.schema == wanted.schema:
                return version
        for version in reversed(versions):
            if version.schema.kind == wanted.schema.kind:
                known = self._quietly(version.schema)
                if known is not None and known.identity == wanted.identity:
                    return version
        return None

    def _quietly(self, schema: Schema) -> Parsed | None:
        """Another registry may have taken what we do not understand."""
        try:
            return self.parse(schema)
        except errors.RegistryError:
            return None


def schema_in(body: Any) -> Schema:
    """The schema that a request gives."""
    if not isinstance(body, dict) or not isinstance(body.get("schema"), str):
        raise errors.malformed('the body must be JSON with a text "schema"')
    kind = body.get("schemaType") or AVRO
    try:
        return Schema(str(kind).upper(), body["schema"], references_in(body))
    except InvalidSchema as reason:
        raise errors.invalid_schema(str(reason)) from None


def found_subject(image: Image, subject: str, *, deleted: bool = False) -> list[Version]:
    versions = image.versions(subject, deleted=deleted)
    if not versions:
        raise errors.subject_not_found(subject)
    return versions


def found_version(image: Image, subject: str, text: str, *, deleted: bool = False) -> Version:
    number = version_number(text)
    versions = found_subject(image, subject, deleted=deleted)
    if number is None:
        return versions[-1]
    for each in versions:
        if each.version == number:
            return each
    raise errors.version_not_found(subject, number)


def version_number(text: str) -> int | None:
    """None: the latest."""
    if text in (LATEST, "-1"):
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= LARGEST_VERSION):
        raise errors.invalid_version(text)
    return int(text)


def found_id(image: Image, schema_id: int) -> list[Version]:
    found = image.with_id(schema_id)
    if not found:
        raise errors.schema_not_found(f"there is no schema with the id {schema_id}")
    return found


def checked_word(
    text: object, words: tuple[str, ...], wrong: Callable[[object, tuple[str, ...]], Exception]
) -> str:
    if not isinstance(text, str) or text.upper() not in words:
        raise wrong(text, words)
    return text.upper()
