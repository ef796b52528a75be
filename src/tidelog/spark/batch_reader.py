"""A batch over topics: one snapshot, planned once."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidelog.spark.formats import columns_of
from tidelog.spark.lookup import Lookup
from tidelog.spark.options import Options
from tidelog.spark.planning import Group, default_tasks, plan
from tidelog.spark.ranges import OffsetRange, Offsets
from tidelog.spark.source_options import Place, SourceOptions, source_options
from tidelog.spark.start_offsets import Bounds, ranges_between
from tidelog.spark.topics import check_all_there
from tidelog.spark.worker_memory import keep_what_is_loaded

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.spark.broker_read import ReadPlan


class RangesOfTask(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: Group) -> None:
        super().__init__(None)
        self.ranges = ranges

    def __repr__(self) -> str:
        return f"RangesOfTask({self.ranges!r})"


class TopicReader:
    """What batches and streams share: options, columns, and what tasks do."""

    def __init__(self, values: Mapping[str, str], schema: StructType, *, streaming: bool) -> None:
        self.options: SourceOptions = source_options(values, streaming=streaming)
        self.columns, self.values = columns_of(schema, Options(values))

    def read_plan(self) -> "ReadPlan":
        from tidelog.spark.broker_read import ReadPlan  # noqa: PLC0415 - pyarrow, for tasks alone

        return ReadPlan(
            self.options.bootstrap,
            self.options.client,
            self.columns,
            committed=self.options.committed,
            fail_on_data_loss=self.options.fail_on_data_loss,
            values=self.values,
            poll_timeout_ms=self.options.poll_timeout_ms,
        )

    def tasks(self, ranges: list[OffsetRange]) -> Sequence[RangesOfTask]:
        groups = plan(ranges, self.options.packing, default_tasks())
        return [RangesOfTask(group) for group in groups]

    def pieces(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Spark makes a partition of its own where there are none."""
        if not isinstance(partition, RangesOfTask):
            return iter(())
        from tidelog.spark.broker_read import read_ranges  # noqa: PLC0415

        keep_what_is_loaded()
        return read_ranges(partition.ranges, self.read_plan())


class TopicBatchReader(DataSourceReader):
    """Reads what lies between two places of each partition."""

    def __init__(self, values: Mapping[str, str], schema: StructType) -> None:
        self._topics = TopicReader(values, schema, streaming=False)

    def partitions(self) -> Sequence[InputPartition]:
        options = self._topics.options
        lookup = Lookup(options)
        seen = lookup.seen()
        check_all_there(options.subscription, seen)
        log = lookup.bounds(seen.partitions)
        starts, ends = (
            self._resolved(lookup, log, place) for place in (options.start, options.end)
        )
        fail = options.fail_on_data_loss
        return self._topics.tasks(ranges_between(starts, ends, log, fail=fail))

    @staticmethod
    def _resolved(lookup: Lookup, log: Bounds, place: Place) -> Offsets:
        offsets = lookup.resolve(log, place).offsets
        if place.offsets is not None:
            return offsets
        # What has come in since the ends were asked for is not in this batch.
        return {where: min(offset, log[where][1]) for where, offset in offsets.items()}

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return self._topics.pieces(partition)
