"""What Spark looks for: a package called `pyspark_…` with a `DefaultSource`.

Spark imports every such package once per driver, so nothing heavy may be imported from here.
"""

from tidelog.spark.data_source import TidelogDataSource as DefaultSource

__all__ = ["DefaultSource"]
