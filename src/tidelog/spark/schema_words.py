"""Words about values with schemas; needs no Spark."""

from typing import Final

WITH_REGISTRY: Final = ("avro", "protobuf", "json-schema")
"""Formats of values that begin with the id of a schema, which a registry has."""
GROWN: Final = "has fields that the table has no columns for yet"
"""In the words of a task that met a schema which is newer than its plan."""
