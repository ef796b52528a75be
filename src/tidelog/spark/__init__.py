"""Spark reads and writes topics: `format("tidelog")`. Needs `pip install tidelog[spark]`.

Spark finds the format by itself where Tidelog is installed for its workers. Where it was sent
along with `--py-files`, say `tidelog.spark.register(spark)` once.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

__all__ = ["checkpoint_in", "register"]


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


def checkpoint_in(place: str, options: "Mapping[str, str] | None" = None) -> str:
    """A `checkpointLocation` in an object store, without a jar: `s3://bucket/checkpoints/revenue`,
    `gs://…` or `abfss://…`.

    This process serves it to its own Spark, so ask for it anew in each process. `options` say how
    to get into the store where the environment does not: `AWS_REGION`, `AWS_ENDPOINT_URL`, …
    """
    from tidelog.spark.checkpoint_store.serving import location_of  # noqa: PLC0415 - an extra
    from tidelog.spark.failure import InvalidOption  # noqa: PLC0415
    from tidelog.spark.tables.store_options import store_options  # noqa: PLC0415
    from tidelog.spark.tables.stores import Store, is_local, located, scheme_of  # noqa: PLC0415

    found = located(place)
    if is_local(found):
        raise InvalidOption(f"{place} is a directory", "give it to Spark as it is")
    return location_of(Store(found, store_options(scheme_of(found), options or {})))
