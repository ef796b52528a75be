"""Avro: parsed and compared by Apache's own library for Python."""

import json
import warnings
from functools import cached_property
from typing import Any

from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.errors import AvroException
from avro.name import Names
from avro.schema import make_avsc_object

from tidelog.registry.languages.words import InvalidSchema, Resolve, Schema, with_dependencies


class AvroSchema:
    def __init__(self, schema: Schema, resolve: Resolve) -> None:
        self._document = _json(schema.text)
        self.schema = schema._replace(text=json.dumps(self._document, separators=(",", ":")))
        names = Names()
        try:
            with warnings.catch_warnings(action="ignore"):  # of logical types that it does not know
                for _, used in with_dependencies(schema, resolve):
                    make_avsc_object(_json(used.text), names)
                self.parsed = make_avsc_object(self._document, names)
        except AvroException as reason:
            raise InvalidSchema(" ".join(str(reason).split())) from None
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as reason:
            raise InvalidSchema(f"no Avro schema ({type(reason).__name__}: {reason})") from None

    @cached_property
    def identity(self) -> str:
        references = [each.as_document() for each in self.schema.references]
        return json.dumps([self._document, references], sort_keys=True)

    def formatted(self, form: str) -> str:
        return self.schema.text

    def normalized(self) -> Schema:
        text = json.dumps(self._document, separators=(",", ":"), sort_keys=True)
        return self.schema._replace(text=text)

    def problems_reading(self, writer: "AvroSchema") -> list[str]:
        checker: Any = ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
        found = checker.get_compatibility(reader=self.parsed, writer=writer.parsed)
        if found.compatibility is SchemaCompatibilityType.compatible:
            return []
        what = sorted({each.value for each in found.incompatibilities})
        where = ", ".join(sorted(found.locations))
        return [f"{', '.join(what)} at {where}: {', '.join(sorted(found.messages))}"]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as reason:
        raise InvalidSchema(f"it is no JSON: {reason}") from None
