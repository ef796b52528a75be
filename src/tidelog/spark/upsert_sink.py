"""`format("tidelog_upsert")`: a stream of changes into a table that is what they have led to.

Our own pipeline registers it. Tasks are given whole buckets: each reads the files that a bucket has
and writes what comes after the changes. The driver puts the new files in the place of the old ones,
with the number of the batch, in one commit.
"""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import DataSource

from tidelog.spark.changes import words
from tidelog.spark.changes.words import ChangeRules
from tidelog.spark.options import Options
from tidelog.spark.table_sink import TableWriter, spec_of
from tidelog.spark.tables.forms import open_table
from tidelog.spark.tables.words import BatchId, Replacement, TableSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from tidelog.spark.changes.buckets import Rewritten
    from tidelog.spark.dead_letters import Letters

NAME = "tidelog_upsert"
OURS = ("changeFormat", "key", "orderBy", "buckets", "keepDeletedMs")


class Upsert(NamedTuple):
    """Which table follows, and how. Goes to tasks."""

    table: TableSpec
    rules: ChangeRules = ChangeRules()
    keep_deleted_ms: int = words.KEEP_DELETED_MS

    def options(self) -> dict[str, str]:
        """Of the sink, beside those of the table."""
        return {
            "changeFormat": self.rules.form,
            "key": ",".join(self.rules.key),
            "orderBy": ",".join(self.rules.order_by),
            "buckets": str(self.rules.buckets),
            "keepDeletedMs": str(self.keep_deleted_ms),
        }


def upsert_of(values: Mapping[str, str]) -> Upsert:
    """What `Upsert.options` and those of the table say."""
    options = Options(values)
    ours = {name.lower() for name in OURS}
    table = spec_of({name: value for name, value in values.items() if name.lower() not in ours})
    rules = ChangeRules(
        options.one_of("changeFormat", words.PLAIN, words.CHANGE_FORMATS),
        names_in(options.text("key")),
        names_in(options.text("orderBy")),
        options.whole("buckets", words.BUCKETS, least=1) or words.BUCKETS,
    )
    keep_ms = options.whole("keepDeletedMs", words.KEEP_DELETED_MS)
    assert keep_ms is not None, "it has a default"
    return Upsert(table, rules, keep_ms)


def names_in(text: str | None) -> tuple[str, ...]:
    return tuple(each.strip() for each in (text or "").split(",") if each.strip())


class UpsertDataSource(DataSource):
    """Only to be written to."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: "StructType", overwrite: bool
    ) -> "UpsertWriter":
        letters = None
        if Options(self.options).text("onBadRecord") == "dead-letter":
            from tidelog.spark.dead_letters import letters_of  # noqa: PLC0415 - pyarrow

            letters = letters_of(self.options)
        return UpsertWriter(upsert_of(self.options), schema, letters)


class UpsertWriter(TableWriter):
    """Pickled to tasks; made again where the driver commits. So it holds only words."""

    def __init__(
        self, upsert: Upsert, schema: "StructType", letters: "Letters | None" = None
    ) -> None:
        super().__init__(upsert.table, schema, letters)
        self.upsert = upsert

    def _files(
        self, batch: BatchId, task: int, rows: Iterator["pa.RecordBatch"]
    ) -> "tuple[Rewritten, ...]":
        from tidelog.spark.changes.buckets import (  # noqa: PLC0415 - heavy
            Attempt,
            Bucket,
            Following,
            by_bucket,
        )
        from tidelog.spark.changes.envelopes import columns_of_changes  # noqa: PLC0415
        from tidelog.spark.tables.schemas import table_schema  # noqa: PLC0415

        given = list(rows)
        if not given:
            return ()
        now_ms = time.time_ns() // 1_000_000
        attempt = Attempt(batch, task, now_ms, now_ms - self.upsert.keep_deleted_ms)
        schema = columns_of_changes(table_schema(self.schema))
        following = Following(self.spec, self.upsert.rules, schema)
        there = open_table(self.spec).files()
        made = []
        for number, changes in by_bucket(given):
            place = ((words.BUCKET, str(number)),)
            bucket = Bucket(number, tuple(each for each in there if each.values == place))
            rewritten = following.follow(bucket, changes, attempt)
            if rewritten is not None:
                made.append(rewritten)
        return tuple(made)

    def _put(self, batch: BatchId, files: tuple[Any, ...]) -> None:
        removed = tuple(file for each in files for file in each.removed)
        added = tuple(file for each in files for file in each.added)
        if added:
            open_table(self.spec).replace(Replacement(batch, removed, added))

    def _as_records(self, bad: "pa.RecordBatch") -> "pa.RecordBatch":
        from tidelog.spark.changes.envelopes import as_records  # noqa: PLC0415 - pyarrow

        return as_records(bad)


def register_upsert_sink(spark: "SparkSession") -> None:
    spark.dataSource.register(UpsertDataSource)
