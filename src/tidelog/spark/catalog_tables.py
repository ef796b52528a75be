"""Options of tables that stand in a catalog.

Spark 4.3 keeps what `CREATE TABLE … USING tidelog OPTIONS (…)` says, and does not tell it to a
Python source when the table is read. What does come back is the schema that the source gave, so
the options travel with it, as metadata of its first column.
"""

import json
from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from tidelog.client.security import is_secret
from tidelog.spark.failure import InvalidOption
from tidelog.spark.options import Options
from tidelog.spark.source_options import SUBSCRIPTIONS

OPTIONS_KEY = "tidelog.options"
_OF_THE_CATALOG = frozenset(
    ("provider", "owner", "location", "external", "comment", "is_managed_location", "collation")
)
_AGAIN = "option."
"""Spark gives every option of a table twice."""


def is_creation(values: Mapping[str, str]) -> bool:
    """Spark asks for the schema of a table that is being made."""
    return "provider" in values


def without_catalog(values: Mapping[str, str]) -> dict[str, str]:
    """The options alone, of a table that is being made."""
    return {
        name: value
        for name, value in values.items()
        if name not in _OF_THE_CATALOG and not name.startswith(_AGAIN)
    }


def with_options(schema: StructType, values: Mapping[str, str]) -> StructType:
    """InvalidOption for secrets: whoever may read a catalog would read them."""
    for name in values:
        if is_secret(name):
            raise InvalidOption(
                f"the option {name} is a secret, and a catalog shows what it keeps",
                "leave it out here and give it with the query:"
                " spark.read.option(…).table(…), or SELECT … FROM … WITH (…)",
            )
    first, *others = schema.fields
    metadata = {OPTIONS_KEY: json.dumps(values), "comment": _topics_in(values)}
    return StructType([StructField(first.name, first.dataType, True, metadata), *others])


def _topics_in(values: Mapping[str, str]) -> str:
    """What `DESCRIBE` shows of a table: of its options Spark shows none."""
    given = Options(values)
    named = [f"{name} {given.text(name)}" for name in SUBSCRIPTIONS if name in given]
    return "; ".join(named) or "topics are named by the query"


def options_in(schema: StructType) -> dict[str, str] | None:
    """Those of a table in a catalog; None if the schema is of no such table."""
    for field in schema.fields:
        text = field.metadata.get(OPTIONS_KEY)
        if text is not None:
            return dict(json.loads(text))
    return None


def options_of_read(given: Mapping[str, str], schema: StructType) -> Mapping[str, str]:
    """What a read is told: with the query, else when its table was made."""
    kept = options_in(schema) or {}
    if not kept and not given:
        raise InvalidOption(
            "no option is known for this read",
            "give a table's OPTIONS without naming its columns: Spark hands them on in no other"
            " way; or give them with the query, SELECT … FROM … WITH (…)",
        )
    return {**kept, **given} if kept else given
