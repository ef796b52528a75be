"""All that the topic of schemas says, in memory. It changes by records of the topic alone."""

import json
from typing import Any

from tidelog.registry import records
from tidelog.registry.languages.parsing import BACKWARD
from tidelog.registry.languages.words import InvalidSchema, Reference, Schema
from tidelog.registry.records import Version

READWRITE, READONLY, READONLY_OVERRIDE, IMPORT = MODES = (
    "READWRITE",
    "READONLY",
    "READONLY_OVERRIDE",
    "IMPORT",
)


class Image:
    """Subjects with their versions, compatibility levels and modes."""

    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, Version]] = {}
        self._by_id: dict[int, dict[tuple[str, int], Version]] = {}
        self._ids: dict[Schema, int] = {}
        self._referring: dict[tuple[str, int], set[tuple[str, int]]] = {}
        """By version: the versions whose schemas refer to it."""
        self._levels: dict[str | None, str] = {}
        self._modes: dict[str | None, str] = {}
        self.max_id = 0
        self.skipped = 0
        """Records that are of no kind we know."""

    # ---- what it says

    def subjects(self, *, deleted: bool = False) -> list[str]:
        return sorted(each for each in self._subjects if self.versions(each, deleted=deleted))

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """In order; with those that are deleted but not gone if asked for."""
        known = self._subjects.get(subject, {})
        return [known[each] for each in sorted(known) if deleted or not known[each].deleted]

    def version(self, subject: str, number: int) -> Version | None:
        return self._subjects.get(subject, {}).get(number)

    def with_id(self, schema_id: int) -> list[Version]:
        """Every version of every subject that has this schema, the deleted ones last."""
        found = self._by_id.get(schema_id, {})
        return sorted(found.values(), key=lambda each: (each.deleted, each.subject, each.version))

    def id_of(self, schema: Schema) -> int | None:
        return self._ids.get(schema)

    def next_version(self, subject: str) -> int:
        return max(self._subjects.get(subject, {}), default=0) + 1

    def level(self, subject: str | None) -> str | None:
        return self._levels.get(subject)

    def level_in_force(self, subject: str) -> str:
        return self._levels.get(subject) or self._levels.get(None) or BACKWARD

    def mode(self, subject: str | None) -> str | None:
        return self._modes.get(subject)

    def mode_in_force(self, subject: str | None) -> str:
        general = self._modes.get(None) or READWRITE
        if general == READONLY_OVERRIDE:
            return general
        return self._modes.get(subject) or general

    def referring(self, subject: str, number: int) -> list[int]:
        """The ids of schemas that refer to a version."""
        places = self._referring.get((subject, number), ())
        known = [self._subjects[name][each] for name, each in places]
        return sorted({each.id for each in known if not each.deleted})

    def resolve(self, reference: Reference) -> Schema:
        """A deleted version still serves those that refer to it."""
        found = self.version(reference.subject, reference.version)
        if found is None:
            place = f"version {reference.version} of {reference.subject!r}"
            raise InvalidSchema(f"it refers to {place}, which is not there")
        return found.schema

    # ---- how it changes

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """One record of the topic. What is none of a registry's is counted and left alone."""
        try:
            named = json.loads(key or b"")
            told = None if value is None else json.loads(value)
            self._take(named, told)
        except (ValueError, KeyError, TypeError, AttributeError, InvalidSchema):
            self.skipped += 1

    def _take(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        kind: str = key["keytype"]
        subject: Any = key.get("subject")
        if kind == records.SCHEMA:
            self._forget(subject, int(key["version"]))
            if value is not None:
                self._learn(records.version_in(value))
        elif kind == records.CONFIG:
            _set(self._levels, subject, (value or {}).get("compatibilityLevel"))
        elif kind == records.MODE:
            _set(self._modes, subject, (value or {}).get("mode"))
        elif kind == records.DELETE_SUBJECT:
            if value is not None:
                self._delete_up_to(subject, int(value["version"]))
        elif kind != records.NOOP:
            self.skipped += 1

    def _learn(self, version: Version) -> None:
        self._subjects.setdefault(version.subject, {})[version.version] = version
        self._by_id.setdefault(version.id, {})[version.subject, version.version] = version
        self._ids.setdefault(version.schema, version.id)
        place = (version.subject, version.version)
        for each in version.schema.references:
            self._referring.setdefault((each.subject, each.version), set()).add(place)
        self.max_id = max(self.max_id, version.id)

    def _forget(self, subject: str, number: int) -> None:
        known = self._subjects.get(subject, {})
        before = known.pop(number, None)
        if before is None:
            return
        if not known:
            del self._subjects[subject]
        same = self._by_id[before.id]
        del same[subject, number]
        for each in before.schema.references:
            self._referring[each.subject, each.version].discard((subject, number))
        if not same:
            del self._by_id[before.id]
        if not any(each.schema == before.schema for each in same.values()):
            self._ids.pop(before.schema, None)

    def _delete_up_to(self, subject: str, number: int) -> None:
        for version in self.versions(subject):
            if version.version <= number:
                self._learn(version._replace(deleted=True))


def _set(values: dict[str | None, str], subject: str | None, value: str | None) -> None:
    if value is None:
        values.pop(subject, None)
    else:
        values[subject] = value
