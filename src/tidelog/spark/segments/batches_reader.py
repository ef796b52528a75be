"""`view=batches`: one row per batch and replica, for audits."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidelog.replica_files import find_replicas, segments_of
from tidelog.spark.planning import default_tasks
from tidelog.spark.segments.batch_columns import check_batch_columns
from tidelog.spark.segments.planning import (
    LARGEST_PIECE_BYTES,
    SMALLEST_PIECE_BYTES,
    open_directories,
    seen_on_disk,
)
from tidelog.spark.segments.ranges import ReplicaSegment
from tidelog.spark.source_options import SourceOptions, source_options
from tidelog.spark.topics import check_all_there
from tidelog.spark.worker_memory import keep_what_is_loaded

if TYPE_CHECKING:
    import pyarrow as pa


class FilesOfTask(InputPartition):
    """What one task reads."""

    def __init__(self, segments: tuple[ReplicaSegment, ...]) -> None:
        super().__init__(None)
        self.segments = segments


class BatchesReader(DataSourceReader):
    """Every batch of every replica, also above the high watermark and of aborted transactions."""

    def __init__(self, values: Mapping[str, str], schema: StructType) -> None:
        self._options: SourceOptions = source_options(values, streaming=False)
        self._columns = check_batch_columns(schema)

    def partitions(self) -> Sequence[InputPartition]:
        directories = open_directories(self._options.paths)
        seen = seen_on_disk(directories, self._options.subscription)
        check_all_there(self._options.subscription, seen)
        files = [
            ReplicaSegment(replica, segment, is_last=number + 1 == len(segments))
            for replicas in find_replicas(directories, sorted(seen.partitions)).values()
            for replica in replicas
            for segments in (segments_of(replica.directory),)
            for number, segment in enumerate(segments)
        ]
        return [FilesOfTask(tuple(group)) for group in _groups(files)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Spark makes a partition of its own where there are none."""
        if not isinstance(partition, FilesOfTask):
            return iter(())
        from tidelog.spark.segments.batches import read_batches  # noqa: PLC0415 - heavy, for tasks

        keep_what_is_loaded()
        return read_batches(partition.segments, self._columns)


def _groups(files: list[ReplicaSegment]) -> Iterator[list[ReplicaSegment]]:
    """Files that are worth a task together."""
    total = sum(each.segment.size_bytes for each in files)
    worth = min(max(total // default_tasks(), SMALLEST_PIECE_BYTES), LARGEST_PIECE_BYTES)
    group: list[ReplicaSegment] = []
    size_bytes = 0
    for each in files:
        group.append(each)
        size_bytes += each.segment.size_bytes
        if size_bytes >= worth:
            yield group
            group, size_bytes = [], 0
    if group:
        yield group
