"""Whether a JSON schema accepts everything that another one accepts.

No library that is looked after decides this, and in full it cannot be decided cheaply. So there are
rules for the words that data is described with, and every other word that narrows what a reader
accepts must be the same on both sides. What is not understood is refused, never let through.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

Rooted = tuple[Any, Mapping[str, Any]]
"""A whole document, and the documents that it refers to by name."""

TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
SAME: Final = (
    "pattern",
    "multipleOf",
    "uniqueItems",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "minContains",
    "maxContains",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "unevaluatedProperties",
    "patternProperties",
    "propertyNames",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "$dynamicRef",
    "$recursiveRef",
)
"""Words that narrow what a reader accepts and are compared as they are."""
CHOICES: Final = ("anyOf", "oneOf")
DEEPEST: Final = 60


class Reading:
    """One comparison. Pairs that are being compared are taken for fine: schemas may recur."""

    def __init__(self, reader: Rooted, writer: Rooted) -> None:
        self._reader = reader
        self._writer = writer
        self._seen: set[str] = set()

    def problems(self) -> list[str]:
        return self._compare(self._reader[0], self._writer[0], "#", 0)

    def _compare(self, reader: Any, writer: Any, path: str, depth: int) -> list[str]:
        reader, writer = resolved(reader, self._reader), resolved(writer, self._writer)
        if reader is None or writer is None:
            return [f"{path}: it refers to something that is not there"]
        if reader in (True, {}) or writer is False:
            return []
        if reader is False:
            return [f"{path}: nothing is accepted any more"]
        pair = json.dumps([reader, writer], sort_keys=True)
        if pair in self._seen:
            return []
        if depth > DEEPEST:
            return [f"{path}: nested too deeply to be compared"]
        self._seen.add(pair)
        try:
            return self._compare_choices(reader, {} if writer is True else writer, path, depth + 1)
        finally:
            self._seen.discard(pair)

    def _compare_choices(
        self, reader: dict[str, Any], writer: dict[str, Any], path: str, depth: int
    ) -> list[str]:
        for word in CHOICES:
            if word in writer:  # whichever branch it wrote
                rest = {key: value for key, value in writer.items() if key != word}
                return [
                    problem
                    for branch in writer[word]
                    for problem in self._compare(reader, merged(rest, branch), path, depth)
                ]
        if "allOf" in writer:
            rest = {key: value for key, value in writer.items() if key != "allOf"}
            for branch in writer["allOf"]:
                known = resolved(branch, self._writer)
                rest = merged(rest, known if isinstance(known, dict) else {})
            return self._compare(reader, rest, path, depth)
        if "allOf" in reader:
            rest = {key: value for key, value in reader.items() if key != "allOf"}
            found = self._compare(rest, writer, path, depth)
            for branch in reader["allOf"]:
                found += self._compare(branch, writer, path, depth)
            return found
        for word in CHOICES:
            if word in reader:
                rest = {key: value for key, value in reader.items() if key != word}
                tried = [self._compare(each, writer, path, depth) for each in reader[word]]
                none = [] if [] in tried else [f"{path}: no branch of {word} accepts it"]
                return self._compare(rest, writer, path, depth) + none
        return self._compare_plain(reader, writer, path, depth)

    def _compare_plain(
        self, reader: dict[str, Any], writer: dict[str, Any], path: str, depth: int
    ) -> list[str]:
        found = [f"{path}: type {each} is not accepted" for each in missing_types(reader, writer)]
        found += [f"{path}: {each}" for each in narrower(reader, writer)]
        if found:
            return found
        if "object" in types_of(writer) and "object" in types_of(reader):
            if _other_patterns(reader, writer):
                found.append(f"{path}: patternProperties was changed or taken away")
            found += self._compare_objects(reader, writer, path, depth)
        if "array" in types_of(writer) and "items" in reader:
            if reader.get("prefixItems") != writer.get("prefixItems"):
                found.append(f"{path}: prefixItems was changed or taken away")
            found += self._compare_items(reader["items"], writer.get("items", True), path, depth)
        return found

    def _compare_items(self, reader: Any, writer: Any, path: str, depth: int) -> list[str]:
        if isinstance(reader, list) or isinstance(writer, list):  # tuples of earlier drafts
            return [] if reader == writer else [f"{path}/items: tuples differ"]
        return self._compare(reader, writer, f"{path}/items", depth)

    def _compare_objects(
        self, reader: dict[str, Any], writer: dict[str, Any], path: str, depth: int
    ) -> list[str]:
        read, written = reader.get("properties", {}), writer.get("properties", {})
        more_read = reader.get("additionalProperties", True)
        more_written = writer.get("additionalProperties", True)
        found = []
        for name in sorted({*read, *written}):
            there = f"{path}/properties/{name}"
            wanted, given = read.get(name, more_read), written.get(name, more_written)
            found += self._compare(wanted, given, there, depth)
        found += self._compare(more_read, more_written, f"{path}/additionalProperties", depth)
        for name in reader.get("required", ()):
            property_ = resolved(read.get(name, {}), self._reader)
            has_default = isinstance(property_, dict) and "default" in property_
            if name not in writer.get("required", ()) and not has_default:
                found.append(f"{path}/properties/{name}: required, and it may be missing")
        return found


def resolved(schema: Any, rooted: Rooted) -> Any:
    """What a `$ref` means; None if it means nothing that is known."""
    for _ in range(DEEPEST):
        if not isinstance(schema, dict) or "$ref" not in schema:
            return schema
        document, used = rooted
        name, _, pointer = str(schema["$ref"]).partition("#")
        whole = document if not name else used.get(name)
        schema = _pointed(whole, pointer)
    return None


def _pointed(whole: Any, pointer: str) -> Any:
    for part in filter(None, pointer.split("/")):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(whole, dict):
            whole = whole.get(key)
        elif isinstance(whole, list) and key.isdigit() and int(key) < len(whole):
            whole = whole[int(key)]
        else:
            return None
    return whole


def merged(first: dict[str, Any], second: Any) -> Any:
    """Both at once, as far as that can be said in one schema: properties together, of any other
    word the second one."""
    if not isinstance(second, dict):
        return first if second is True else second
    both = {**first, **second}
    for word in ("properties",):
        if word in first and word in second:
            both[word] = {**first[word], **second[word]}
    if "required" in first and "required" in second:
        both["required"] = sorted({*first["required"], *second["required"]})
    return both


def types_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    given = schema.get("type")
    if given is None:
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        return TYPES if values is None else tuple({_type_name(each) for each in values})
    return (given,) if isinstance(given, str) else tuple(given)


def _type_name(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return "null" if value is None else names.get(type(value), "object")


def missing_types(reader: Mapping[str, Any], writer: Mapping[str, Any]) -> list[str]:
    accepted = set(types_of(reader))
    if "number" in accepted:
        accepted.add("integer")
    return [each for each in sorted(types_of(writer)) if each not in accepted]


def narrower(reader: Mapping[str, Any], writer: Mapping[str, Any]) -> list[str]:
    """The words by which a reader accepts less than the writer may have written."""
    found = []
    for word, holds in [*((each, True) for each in LOWER), *((each, False) for each in UPPER)]:
        if word in reader:
            mine, its = reader[word], writer.get(word)
            wide = its is not None and (mine <= its if holds else mine >= its)
            if not wide:
                found.append(f"{word} {mine} is narrower than {'none' if its is None else its}")
    allowed = reader.get("enum", [reader["const"]] if "const" in reader else None)
    if allowed is not None:
        values = writer.get("enum", [writer["const"]] if "const" in writer else None)
        if values is None or any(each not in allowed for each in values):
            found.append("it may be a value that is not one of those listed")
    for word in SAME:
        if word in reader and reader[word] != writer.get(word) and not _says_nothing(reader, word):
            found.append(f"{word} was changed or added")
    return found


def _says_nothing(reader: Mapping[str, Any], word: str) -> bool:
    return word == "uniqueItems" and reader[word] is False


def _other_patterns(reader: Mapping[str, Any], writer: Mapping[str, Any]) -> bool:
    """Names that the writer describes by a pattern, and a reader that does not take any name."""
    is_open = reader.get("additionalProperties", True) is True and not reader.get("properties")
    return not is_open and writer.get("patternProperties") != reader.get("patternProperties")
