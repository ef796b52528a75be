"""`format("tidelog")`: the class that Spark loads to read and write topics.

Spark makes an instance wherever it needs one, on the driver and for the commit of a sink, so
nothing happens in constructors. Whatever is heavy is imported where it is used.
"""

# ruff: noqa: PLC0415 - Spark loads this module wherever it looks for formats
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from tidelog.spark.options import Options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

    from tidelog.spark.writer import TidelogStreamWriter, TidelogWriter

NAME = "tidelog"


def is_batches_view(values: "Mapping[str, str]") -> bool:
    """Rows are batches (`view=batches`), not records."""
    return Options(values).one_of("view", "records", ("records", "batches")) == "batches"


class TidelogDataSource(DataSource):
    """Topics of a cluster, or the segments of its replicas, as rows."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> "StructType":
        from tidelog.spark.catalog_tables import is_creation, with_options, without_catalog

        if not is_creation(self.options):
            from tidelog.spark.load_check import check_at_load

            check_at_load(self.options)
            return _schema(self.options)
        # Some of a table's options may come with the queries, so the rest cannot be wrong yet.
        options = without_catalog(self.options)
        return with_options(_schema(options), options)

    def reader(self, schema: "StructType") -> "DataSourceReader":
        from tidelog.spark.catalog_tables import options_of_read

        options = options_of_read(self.options, schema)
        if is_batches_view(options):
            from tidelog.spark.segments.batches_reader import BatchesReader

            return BatchesReader(options, schema)
        if "path" in options:
            from tidelog.spark.segments.reader import SegmentsReader

            return SegmentsReader(options, schema)
        from tidelog.spark.batch_reader import TopicBatchReader

        return TopicBatchReader(options, schema)

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":  # noqa: N802
        from tidelog.spark.catalog_tables import options_of_read
        from tidelog.spark.spark_releases import HAS_READ_LIMITS

        options = options_of_read(self.options, schema)
        if HAS_READ_LIMITS:
            from tidelog.spark.stream_reader import TopicStreamReader

            return TopicStreamReader(options, schema)
        from tidelog.spark.early_stream_reader import EarlyTopicStreamReader

        return EarlyTopicStreamReader(options, schema)

    # The names of parameters are Spark's: it passes them by name.
    def writer(self, schema: "StructType", overwrite: bool) -> "TidelogWriter":
        from tidelog.spark import sink_options, writer

        sink_options.refuse_overwrite(overwrite)
        settings = sink_options.sink_settings(Options(self.options))
        return writer.TidelogWriter(settings, sink_options.check_columns(schema, settings))

    def streamWriter(  # noqa: N802
        self, schema: "StructType", overwrite: bool
    ) -> "TidelogStreamWriter":
        """Every output mode appends, as with stock: `overwrite` is set for complete."""
        from tidelog.spark import sink_options, writer

        settings = sink_options.sink_settings(Options(self.options))
        sink_options.refuse_application(settings)
        columns = sink_options.check_columns(schema, settings)
        return writer.TidelogStreamWriter(settings, columns, schema)


def _schema(options: "Mapping[str, str]") -> "StructType":
    """Where the user gives none."""
    if is_batches_view(options):
        from tidelog.spark.segments.batch_columns import BATCH_COLUMNS

        return BATCH_COLUMNS
    from tidelog.spark.columns import default_schema
    from tidelog.spark.formats import formatted

    return formatted(default_schema(options), Options(options))
