"""JSON Schema: checked by the jsonschema package, compared by rules of our own."""

import json
from functools import cached_property
from typing import Any

from jsonschema import SchemaError, validators

from tidelog.registry.languages.json_reading import Reading
from tidelog.registry.languages.words import InvalidSchema, Resolve, Schema, with_dependencies


class JsonSchema:
    def __init__(self, schema: Schema, resolve: Resolve) -> None:
        self.document = parsed_json(schema.text)
        self.schema = schema._replace(text=json.dumps(self.document, separators=(",", ":")))
        self.used = {
            name: parsed_json(each.text) for name, each in with_dependencies(schema, resolve)
        }
        if not isinstance(self.document, dict | bool):
            raise InvalidSchema("a JSON schema is an object, true or false")
        try:
            chosen = validators.validator_for(
                self.document,
                default=validators.Draft7Validator,
            )
            chosen.check_schema(self.document)
        except SchemaError as reason:
            raise InvalidSchema(f"{reason.json_path}: {reason.message}") from None
        except RecursionError:
            raise InvalidSchema("it is nested too deeply") from None

    @cached_property
    def identity(self) -> str:
        references = [each.as_document() for each in self.schema.references]
        return json.dumps([self.document, references], sort_keys=True)

    def formatted(self, form: str) -> str:
        return self.schema.text

    def normalized(self) -> Schema:
        text = json.dumps(self.document, separators=(",", ":"), sort_keys=True)
        return self.schema._replace(text=text)

    def problems_reading(self, writer: "JsonSchema") -> list[str]:
        reading = Reading((self.document, self.used), (writer.document, writer.used))
        return reading.problems()


def parsed_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as reason:
        raise InvalidSchema(f"it is no JSON: {reason}") from None
