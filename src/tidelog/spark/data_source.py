"""`format("tidelog")`: the door through which Spark comes in.

Spark makes an instance wherever it needs one, on the driver and for the commit of a sink, so
nothing happens in constructors. Whatever is heavy is imported where it is used.
"""

from pyspark.sql.datasource import DataSource

NAME = "tidelog"


class TidelogDataSource(DataSource):
    """Topics of a cluster, or the segments of its replicas, as rows."""

    @classmethod
    def name(cls) -> str:
        return NAME
