"""`format("tidelog")`: the door through which Spark comes in.

Spark makes an instance wherever it needs one, on the driver and for the commit of a sink, so
nothing happens in constructors. Whatever is heavy is imported where it is used.
"""

# ruff: noqa: PLC0415 - Spark loads this module wherever it looks for formats
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

NAME = "tidelog"


class TidelogDataSource(DataSource):
    """Topics of a cluster, or the segments of its replicas, as rows."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> "StructType":
        from tidelog.spark.columns import default_schema
        from tidelog.spark.formats import formatted
        from tidelog.spark.options import Options

        return formatted(default_schema(self.options), Options(self.options))

    def reader(self, schema: "StructType") -> "DataSourceReader":
        from tidelog.spark.batch_reader import TopicBatchReader

        return TopicBatchReader(self.options, schema)

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":  # noqa: N802
        from tidelog.spark.stream_reader import TopicStreamReader

        return TopicStreamReader(self.options, schema)
