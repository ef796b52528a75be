"""A registry: what is asked is answered from memory, what changes goes through the topic."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from tidelog.client import ClientError
from tidelog.registry import errors, records
from tidelog.registry.image import IMPORT, MODES, READWRITE, Image
from tidelog.registry.languages.parsing import LEVELS, problems
from tidelog.registry.languages.words import Parsed, Schema
from tidelog.registry.lookups import (
    LARGEST_VERSION,
    ParsedSchemas,
    checked_word,
    found_subject,
    found_version,
    version_number,
)
from tidelog.registry.records import Record, Version
from tidelog.registry.topic import Decide, SchemaTopic

Result = TypeVar("Result")


class Wish(NamedTuple):
    """What a registration asks for beside the schema."""

    normalize: bool = False
    id: int | None = None
    """Given by those who bring schemas from elsewhere."""
    version: int | None = None


class Registry:
    """`topic` must be open."""

    def __init__(self, topic: SchemaTopic) -> None:
        self._topic = topic
        self._parsed = ParsedSchemas(topic.image)

    @property
    def image(self) -> Image:
        return self._topic.image

    async def look(self, question: Callable[[Image], Result]) -> Result:
        """Nothing is called missing before the topic was read to its end: it may have been
        registered a moment ago, elsewhere."""
        try:
            return question(self.image)
        except errors.RegistryError as error:
            if error.status != 404:
                raise
        await self._refresh()
        return question(self.image)

    async def formatted(self, schema: Schema, form: str) -> Schema:
        """With its text in another form, where the language has one."""
        if not form:
            return schema
        parsed = await self._parse(schema)
        return schema._replace(text=parsed.formatted(form))

    async def lookup(
        self, subject: str, schema: Schema, *, deleted: bool, normalize: bool
    ) -> Version:
        await self.look(lambda image: found_subject(image, subject, deleted=deleted))
        parsed = await self._parse(schema, normalize=normalize)
        found = await self._same(parsed, subject, deleted=deleted)
        if found is None:
            await self._refresh()
            found = await self._same(parsed, subject, deleted=deleted)
        if found is None:
            raise errors.schema_not_found()
        return found

    async def problems(self, subject: str, text: str | None, schema: Schema) -> list[str]:
        """Why a schema may not follow a version, or (None) those that the level asks for."""
        if text is None:
            earlier = self.image.versions(subject)
        else:
            earlier = [await self.look(lambda image: found_version(image, subject, text))]
        return await self._problems(subject, await self._parse(schema), earlier)

    async def register(self, subject: str, schema: Schema, wish: Wish) -> Version:
        parsed = await self._parse(schema, normalize=wish.normalize)
        if wish.id is None and wish.version is None:
            found = await self._same(parsed, subject)
            if found is not None:
                return found
        made: list[Version] = []

        async def decide() -> list[Record]:
            made[:] = [await self._next(subject, parsed, wish)]
            known = self.image.version(subject, made[0].version)
            return [] if known == made[0] else [records.schema_record(made[0])]

        await self._write(decide)
        return made[0]

    async def _next(self, subject: str, parsed: Parsed, wish: Wish) -> Version:
        """The version that a schema becomes, or is already."""
        image = self.image
        mode = self._writable(subject)
        if mode == IMPORT:
            return self._imported(subject, parsed.schema, wish)
        if wish.id is not None or (wish.version or -1) > 0:
            raise errors.not_permitted(f"ids and versions are given in mode {IMPORT} alone")
        found = await self._same(parsed, subject)
        if found is not None:
            return found
        reasons = await self._problems(subject, parsed, image.versions(subject))
        if reasons:
            raise errors.incompatible(subject, reasons)
        schema_id = image.id_of(parsed.schema) or image.max_id + 1
        return Version(subject, image.next_version(subject), schema_id, parsed.schema)

    def _imported(self, subject: str, schema: Schema, wish: Wish) -> Version:
        image = self.image
        schema_id = wish.id or image.id_of(schema) or image.max_id + 1
        if not 0 < schema_id <= LARGEST_VERSION:
            raise errors.not_permitted(f"{schema_id} is no id")
        for each in image.with_id(schema_id)[:1]:
            if each.schema != schema:
                raise errors.not_permitted(f"the id {schema_id} has another schema")
        return Version(subject, wish.version or image.next_version(subject), schema_id, schema)

    async def delete_subject(self, subject: str, *, permanent: bool) -> list[int]:
        gone: list[Version] = []

        async def decide() -> list[Record]:
            self._writable(subject)
            everything = found_subject(self.image, subject, deleted=True)
            alive = self.image.versions(subject)
            if permanent and alive:
                raise errors.subject_not_deleted_first(subject)
            if not permanent and not alive:
                raise errors.subject_is_deleted(subject)
            gone[:] = everything if permanent else alive
            return [self._deleting(each, permanent=permanent) for each in gone]

        await self._write(decide)
        return [each.version for each in gone]

    async def delete_version(self, subject: str, text: str, *, permanent: bool) -> int:
        version_number(text)
        gone: list[Version] = []

        async def decide() -> list[Record]:
            self._writable(subject)
            found = found_version(self.image, subject, text, deleted=True)
            if permanent and not found.deleted:
                raise errors.version_not_deleted_first(subject, found.version)
            if not permanent and found.deleted:
                raise errors.version_is_deleted(subject, found.version)
            gone[:] = [found]
            return [self._deleting(found, permanent=permanent)]

        await self._write(decide)
        return gone[0].version

    def _deleting(self, version: Version, *, permanent: bool) -> Record:
        referring = self.image.referring(version.subject, version.version)
        if referring:
            raise errors.still_referenced(version.subject, version.version, referring)
        if permanent:
            return records.schema_key(version), None
        return records.schema_record(version._replace(deleted=True))

    async def set_level(self, subject: str | None, given: object) -> str:
        level = checked_word(given, LEVELS, errors.invalid_level)
        await self._say(lambda: records.config_record(subject, level))
        return level

    async def clear_level(self, subject: str | None) -> str:
        before = self.image.level(subject)
        if before is None and subject is not None:
            raise errors.subject_not_found(subject)
        await self._say(lambda: records.config_record(subject, None))
        return before or self.image.level_in_force(subject or "")

    async def set_mode(self, subject: str | None, given: object, *, force: bool) -> str:
        mode = checked_word(given, MODES, errors.invalid_mode)
        if mode == IMPORT and not force and self._has_schemas(subject):
            raise errors.not_permitted(f"mode {IMPORT} needs no schemas there, or force=true")
        await self._say(lambda: records.mode_record(subject, mode))
        return mode

    async def clear_mode(self, subject: str | None) -> str:
        before = self.image.mode(subject)
        if before is None and subject is not None:
            raise errors.subject_not_found(subject)
        await self._say(lambda: records.mode_record(subject, None))
        return before or READWRITE

    def _has_schemas(self, subject: str | None) -> bool:
        return bool(self.image.subjects() if subject is None else self.image.versions(subject))

    def _writable(self, subject: str) -> str:
        mode = self.image.mode_in_force(subject)
        if mode not in (READWRITE, IMPORT):
            raise errors.not_permitted(f"{subject!r} is in mode {mode}")
        return mode

    # ---- how it is done

    async def _say(self, record: Callable[[], Record]) -> None:
        async def decide() -> list[Record]:
            return [record()]

        await self._write(decide)

    async def _write(self, decide: Decide) -> None:
        try:
            await self._topic.write(decide)
        except ClientError as error:
            raise errors.not_written(str(error)) from None

    async def _refresh(self) -> None:
        try:
            await self._topic.refresh()
        except ClientError as error:
            raise errors.not_written(str(error)) from None

    async def _parse(self, schema: Schema, *, normalize: bool = False) -> Parsed:
        """On a thread: a schema may be large, and Protobuf's compiler is a process."""

        def work() -> Parsed:
            parsed = self._parsed.parse(schema)
            return self._parsed.parse(parsed.normalized()) if normalize else parsed

        return await asyncio.to_thread(work)

    async def _same(self, parsed: Parsed, subject: str, *, deleted: bool = False) -> Version | None:
        versions = self.image.versions(subject, deleted=deleted)
        return await asyncio.to_thread(self._parsed.same, parsed, versions)

    async def _problems(self, subject: str, new: Parsed, earlier: list[Version]) -> list[str]:
        level = self.image.level_in_force(subject)

        def work() -> list[str]:
            if not level.endswith("_TRANSITIVE"):
                del earlier[:-1]
            return problems(level, new, [self._parsed.parse(each.schema) for each in earlier])

        return await asyncio.to_thread(work) if level != "NONE" else []


def as_number(value: Any, name: str) -> int | None:
    """Of a request; None if there is none."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise errors.malformed(f"{name} must be a whole number")
