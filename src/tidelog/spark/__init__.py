"""Spark reads and writes topics: `format("tidelog")`. Needs `pip install tidelog[spark]`.

Spark finds the format by itself where Tidelog is installed for its workers. Where it was sent
along with `--py-files`, say `tidelog.spark.register(spark)` once.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: "SparkSession") -> None:
    """Make `format("tidelog")` known to a session that could not find it by itself. From then on
    private keys among the options of a query are hidden in its plans, and a batch write needs no
    mode, as with the stock connector."""
    from tidelog.spark.data_source import TidelogDataSource  # noqa: PLC0415 - pyspark is an extra
    from tidelog.spark.save_mode import append_without_mode  # noqa: PLC0415
    from tidelog.spark.session import hide_secrets  # noqa: PLC0415

    spark.dataSource.register(TidelogDataSource)
    hide_secrets(spark)
    append_without_mode(spark)
