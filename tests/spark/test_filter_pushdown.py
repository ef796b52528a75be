"""Why the source takes no filters (spark.md §2.3)."""

from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, InputPartition

SWITCH = "spark.sql.python.filterPushdown.enabled"


def register_filtering_source(spark):
    class Numbers(DataSourceReader):
        def __init__(self):
            self.only = None

        def pushFilters(self, filters):  # noqa: N802
            for each in filters:
                if isinstance(each, EqualTo):
                    self.only = each.value
                else:
                    yield each

        def partitions(self):
            return [InputPartition(0)]

        def read(self, _partition):
            yield from ((x,) for x in range(1, 5) if self.only in (None, x))

    class FilteringSource(DataSource):
        @classmethod
        def name(cls):
            return "filtering"

        def schema(self):
            return "x int"

        def reader(self, schema):
            return Numbers()

    spark.dataSource.register(FilteringSource)


def test_spark_still_shares_what_a_filter_has_pruned(spark):
    register_filtering_source(spark)
    spark.conf.set(SWITCH, "true")
    try:
        frame = spark.read.format("filtering").load()
        assert frame.where("x = 2").count() == 1
        everything = frame.count()
    finally:
        spark.conf.unset(SWITCH)
    assert everything == 1, (
        f"an unfiltered count after a filtered one is {everything} where Spark 4.3.0 said 1: the "
        "bug is mended, so reconsider pushFilters for offsets, partitions and timestamps"
    )
