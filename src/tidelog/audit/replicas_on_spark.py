"""The same comparison where Spark runs: `view=batches` grouped by partition.

The files are read by Spark's tasks, so every executor must see the data directories. Compacted
partitions are compared record by record, one task each.
"""

import json
import pickle
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tidelog.audit.replica_batches import ReplicaBatches, Unreadable, no_numbers
from tidelog.audit.replica_comparison import Comparison, compare
from tidelog.audit.replicas import PartitionWork, TopicPartition, absent_in, audit_partition
from tidelog.replica_files import missing_at_start, segments_of
from tidelog.spark.data_source import NAME

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_COLUMNS = {
    "base_offset": "baseOffset",
    "last_offset": "lastOffset",
    "leader_epoch": "leaderEpoch",
    "crc": "crc",
    "size_bytes": "sizeBytes",
    "crc_ok": "crcOk",
    "segment": "segment",
    "position": "position",
}
_SCHEMA = (
    "topic string, partition int, broker int, baseOffset bigint, lastOffset bigint,"
    " leaderEpoch int, crc bigint, crcOk boolean, sizeBytes bigint, segment bigint,"
    " position bigint, problem string"
)
_RESULT = "comparison binary"


def audit_on_spark(
    spark: "SparkSession",
    work: Sequence[PartitionWork],
    paths: Sequence[str],
    done: Callable[[Comparison], None],
) -> None:
    """Tells of every comparison; the order is Spark's."""
    by_batches = {(each.topic, each.partition): each for each in work if not each.is_compacted}
    held = {where for where, each in by_batches.items() if each.replicas}
    seen = set()
    if held:
        for comparison in _by_batches(spark, by_batches, held, paths):
            seen.add((comparison.topic, comparison.partition))
            done(comparison)
    for where, each in by_batches.items():
        if where not in seen:  # no batch at all, so Spark knows no such group
            done(audit_partition(each))
    for comparison in _by_records(spark, [each for each in work if each.is_compacted]):
        done(comparison)


def _by_batches(
    spark: "SparkSession",
    work: dict[TopicPartition, PartitionWork],
    held: set[TopicPartition],
    paths: Sequence[str],
) -> Iterator[Comparison]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(held):
        topics.setdefault(topic, []).append(partition)
    options = {"view": "batches", "path": ",".join(paths), "assign": json.dumps(topics)}
    frame = spark.read.format(NAME).schema(_SCHEMA).options(**options).load()

    def compared(rows: "pa.Table") -> "pa.Table":
        where = (rows.column("topic")[0].as_py(), rows.column("partition")[0].as_py())
        return _result([compare_rows(work[where], rows)])

    groups = frame.groupBy("topic", "partition").applyInArrow(compared, _RESULT)
    for row in groups.collect():
        yield pickle.loads(bytes(row["comparison"]))  # noqa: S301 - our own workers made it


def _by_records(spark: "SparkSession", work: Sequence[PartitionWork]) -> Iterator[Comparison]:
    if not work:
        return

    def compared(pieces: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        for piece in pieces:
            found = [audit_partition(work[number]) for number in piece.column(0).to_pylist()]
            yield from _result(found).to_batches()

    numbers = spark.range(0, len(work), 1, len(work))
    for row in numbers.mapInArrow(compared, _RESULT).collect():
        yield pickle.loads(bytes(row["comparison"]))  # noqa: S301 - our own workers made it


def _result(found: Sequence[Comparison]) -> "pa.Table":
    import pyarrow as pa  # noqa: PLC0415 - an extra

    return pa.table({"comparison": pa.array([pickle.dumps(each) for each in found], pa.binary())})


def compare_rows(work: PartitionWork, rows: "pa.Table") -> Comparison:
    """Rows of `view=batches`, of all replicas of one partition."""
    import pyarrow.compute as pc  # noqa: PLC0415 - an extra

    ordered = rows.sort_by(
        [("broker", "ascending"), ("segment", "ascending"), ("position", "ascending")]
    )
    batches = []
    for replica, standing in work.replicas:
        mine = ordered.filter(pc.equal(ordered.column("broker"), replica.node_id))
        whole = mine.filter(pc.is_null(mine.column("problem")))
        broken = mine.filter(pc.is_valid(mine.column("problem")))
        numbers = no_numbers()
        for name, column in _COLUMNS.items():
            cast = whole.column(column).cast("int64").combine_chunks()
            numbers[name] = array("q", cast.to_numpy(zero_copy_only=False).tobytes())
        places = zip(
            *(broken.column(name).to_pylist() for name in ("baseOffset", "segment", "position")),
            strict=True,
        )
        files = segments_of(replica.directory)
        start = max(files[0].base_offset if files else 0, replica.log_start)
        unreadable = tuple(Unreadable(*place) for place in places)
        size_bytes = sum(numbers["size_bytes"])
        missing = missing_at_start(replica)
        batches.append(
            ReplicaBatches(
                replica.node_id, numbers, unreadable, start, standing, size_bytes, missing
            )
        )
    bound = work.high_watermark
    return compare(work.topic, work.partition, [*batches, *absent_in(work)], bound)
