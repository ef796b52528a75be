"""`path`: a topic as a table, read from the segment files of its replicas."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidelog.spark.formats import columns_of
from tidelog.spark.options import Options
from tidelog.spark.segments.planning import SegmentGroup, plan_groups
from tidelog.spark.segments.ranges import SegmentsPlan
from tidelog.spark.source_options import source_options
from tidelog.spark.worker_memory import keep_what_is_loaded

if TYPE_CHECKING:
    import pyarrow as pa


class SegmentsOfTask(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: SegmentGroup) -> None:
        super().__init__(None)
        self.ranges = ranges

    def __repr__(self) -> str:
        return f"SegmentsOfTask({self.ranges!r})"


class SegmentsReader(DataSourceReader):
    """Reads the committed part of each partition from one of its replicas."""

    def __init__(self, values: Mapping[str, str], schema: StructType) -> None:
        self._options = source_options(values, streaming=False)
        self._columns = columns_of(schema, Options(values))

    def partitions(self) -> Sequence[InputPartition]:
        return [SegmentsOfTask(group) for group in plan_groups(self._options)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Spark makes a partition of its own where there are none."""
        if not isinstance(partition, SegmentsOfTask):
            return iter(())
        from tidelog.spark.segments.reading import read_segments  # noqa: PLC0415 - heavy, for tasks

        options = self._options
        names, values = self._columns
        plan = SegmentsPlan(names, options.committed, options.fail_on_data_loss, values)
        keep_what_is_loaded()
        return read_segments(partition.ranges, plan)
