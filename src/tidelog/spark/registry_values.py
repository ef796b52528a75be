"""Values with a schema in a registry: which columns they make, and how a task decodes them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidelog.registry.languages.words import InvalidSchema, Schema
from tidelog.registry.rest_client import NotInRegistry, RegistryClient, RegistryUnreachable
from tidelog.registry.wire_format import NotFramed, unframed
from tidelog.spark.avro_columns import Longs, frames_of
from tidelog.spark.failure import InvalidOption, TidelogError
from tidelog.spark.schema_types import Fit, fit_for, fitted, joined, missing_in
from tidelog.spark.schema_words import GROWN
from tidelog.spark.value_languages import FORMATS, Unreadable, WriterSchema

REGISTRY_ADVICE = "check --registry, and that the registry runs; then start again"

NOT_OF_THE_TYPE = (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError)

_clients: dict[str, RegistryClient] = {}


def client_of(url: str) -> RegistryClient:
    """That of this process; InvalidOption if the address makes no sense."""
    if url not in _clients:
        try:
            _clients[url] = RegistryClient(url)
        except ValueError as reason:
            raise InvalidOption(f"the registry {reason}", "give http://host:8081") from None
    return _clients[url]


def type_of_subjects(url: str, form: str, subjects: Iterable[str]) -> pa.DataType:
    """The columns of all versions of these subjects together."""
    client = client_of(url)
    found: pa.DataType | None = None
    try:
        for subject in subjects:
            for number, schema in enumerate(client.versions(subject), 1):
                place = f"schema {number} of {subject}"
                if schema.kind != FORMATS[form]:
                    raise TidelogError(
                        f"{place} is {schema.kind}, not {FORMATS[form]}", "another --value-format"
                    )
                kind = _written(client, schema, place).type
                found = kind if found is None else joined(found, kind, "value")
    except NotInRegistry as reason:
        raise TidelogError(
            f"the registry {client.url} does not know it: {reason}",
            "say --subject NAME, or write records with a serializer first",
        ) from None
    except RegistryUnreachable as reason:
        raise TidelogError(str(reason), REGISTRY_ADVICE) from None
    assert found is not None, "a subject has versions"
    return found


def _written(client: RegistryClient, schema: Schema, place: str) -> WriterSchema:
    try:
        return WriterSchema(schema, client.resolve)
    except InvalidSchema as reason:
        raise TidelogError(
            f"{place} cannot become columns: {reason}", "archive it with --value-format binary"
        ) from None


class RegistryValues(NamedTuple):
    """Where schemas are, and of which kind. Goes to tasks."""

    url: str
    form: str
    ignores_new_fields: bool = False
    """Whether fields that the column lacks are left out."""

    def decoded(self, raw: pa.Array, kind: pa.DataType, bad: dict[int, str]) -> pa.Array:
        """One column, null where a value is bad; `bad` gets the reasons. TidelogError if the
        registry does not answer, or if a schema has more than the column and that matters."""
        reader = _reader(self, kind)
        parts = list(reader.columns(raw))
        is_done = np.zeros(len(raw), bool)
        for rows, _ in parts:
            is_done[rows] = True
        rest = np.flatnonzero(~is_done)
        if len(rest) or not parts:
            wrong: dict[int, str] = {}
            parts.append((rest, reader.one_by_one(raw.take(pa.array(rest)), wrong)))
            bad.update((int(rest[row]), reason) for row, reason in wrong.items())
        if len(parts) == 1:
            return parts[0][1]
        places = np.argsort(np.concatenate([rows for rows, _ in parts]))
        return pa.concat_arrays([made for _, made in parts]).take(pa.array(places))


def _refusal(row: object, kind: pa.DataType) -> str | None:
    """Why Arrow does not take a value; None if it does."""
    try:
        pa.scalar(row, kind)
    except NOT_OF_THE_TYPE as reason:
        return str(reason)
    return None


class ValueReader:
    """Reads values into one type; knows the schemas that it has met."""

    def __init__(self, values: RegistryValues, kind: pa.DataType) -> None:
        self._client = client_of(values.url)
        self._wanted = FORMATS[values.form]
        self._kind = kind
        self._ignores_new_fields = values.ignores_new_fields
        self._fit: Fit = fit_for(kind)
        self._known: dict[int, WriterSchema] = {}

    def columns(self, raw: pa.Array) -> Iterator[tuple[Longs, pa.Array]]:
        """Rows and their values, of those rows whose schemas can be read many at once and that
        are certainly well-formed."""
        frames = frames_of(raw)
        for number, rows in frames.by_schema():
            try:
                writer = self._known.get(number) or self._met(number)
            except Unreadable:
                continue  # it is told for each of these values
            if writer.columns is None:
                continue
            cursors = frames.bodies(rows)
            made = fitted(writer.columns(cursors), self._kind)
            is_sure = ~cursors.bad & (cursors.at == cursors.ends)
            yield rows[is_sure], made.filter(pa.array(is_sure))

    def one_by_one(self, raw: pa.Array, bad: dict[int, str]) -> pa.Array:
        """Any values, of any schemas; `bad` gets the reasons."""
        values = raw.to_pylist()
        rows: list[object] = []
        for index, value in enumerate(values):
            try:
                rows.append(None if value is None else self._read(value))
            except (NotFramed, Unreadable) as reason:
                bad[index] = f"the value {reason}"
                rows.append(None)
        try:
            return pa.array(rows, self._kind)
        except NOT_OF_THE_TYPE:
            for index, row in enumerate(rows):
                refusal = _refusal(row, self._kind)
                if refusal is not None:
                    number = unframed(values[index]).schema_id
                    bad[index] = f"the value is not of its schema {number}: {refusal}"
                    rows[index] = None
            return pa.array(rows, self._kind)

    def _read(self, value: bytes) -> object:
        framed = unframed(value)
        writer = self._known.get(framed.schema_id) or self._met(framed.schema_id)
        try:
            return self._fit(writer.decode(framed.body))
        except (Unreadable, *NOT_OF_THE_TYPE) as reason:
            raise Unreadable(f"is not of its schema {framed.schema_id}: {reason}") from None

    def _met(self, number: int) -> WriterSchema:
        try:
            schema = self._client.schema(number)
        except NotInRegistry:
            raise Unreadable(f"has the schema id {number}, which the registry lacks") from None
        except RegistryUnreachable as reason:
            raise TidelogError(str(reason), REGISTRY_ADVICE) from None
        if schema.kind != self._wanted:
            raise Unreadable(f"is {schema.kind} by its schema {number}, not {self._wanted}")
        try:
            writer = WriterSchema(schema, self._client.resolve)
        except InvalidSchema as reason:
            raise Unreadable(f"has the schema {number}, which is none: {reason}") from None
        except RegistryUnreachable as reason:
            raise TidelogError(str(reason), REGISTRY_ADVICE) from None
        ignored = self._ignores_new_fields
        missing = missing_in(self._kind, writer.type, "value", new_fields=not ignored)
        if missing:
            raise TidelogError(
                f"schema {number} {GROWN}: {', '.join(missing)}",
                "start again, which adds columns, or say newFields=ignore with a schema of yours",
            )
        self._known[number] = writer
        return writer


_readers: dict[tuple[RegistryValues, pa.DataType], ValueReader] = {}


def _reader(values: RegistryValues, kind: pa.DataType) -> ValueReader:
    """Workers of Spark live long, and schemas do not change."""
    key = (values, kind)
    if key not in _readers:
        _readers.clear()
        _readers[key] = ValueReader(values, kind)
    return _readers[key]
