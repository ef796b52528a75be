"""`view=batches`: what the headers of batches say, for every replica, as Arrow."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.replica_files import Region, SegmentWalk, Stopped, resume_after
from tidelog.spark.segments.ranges import ReplicaSegment
from tidelog.wire.arrow import table_columns

BATCH_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("broker", pa.int32()),
        ("baseOffset", pa.int64()),
        ("lastOffset", pa.int64()),
        ("leaderEpoch", pa.int32()),
        ("crc", pa.int64()),
        ("crcOk", pa.bool_()),
        ("records", pa.int32()),
        ("sizeBytes", pa.int64()),
        ("attributes", pa.int32()),
        ("producerId", pa.int64()),
        ("maxTimestamp", pa.timestamp("us", "UTC")),
        ("segment", pa.int64()),
        ("position", pa.int64()),
        ("problem", pa.string()),
    ]
)
_FROM_TABLE = {
    "baseOffset": "base_offset",
    "lastOffset": "last_offset",
    "leaderEpoch": "leader_epoch",
    "crc": "crc",
    "crcOk": "crc_ok",
    "records": "record_count",
    "sizeBytes": "size_bytes",
    "attributes": "attributes",
    "producerId": "producer_id",
}


def read_batches(
    segments: Sequence[ReplicaSegment], columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """A row per batch; where a file holds none any more, a row with a `problem`."""
    for each in segments:
        try:
            for piece in _rows(each):
                yield piece.select(list(columns))
        except FileNotFoundError:
            continue  # retention took it: nobody can compare it any more


def _rows(place: ReplicaSegment) -> Iterator[pa.RecordBatch]:
    position = 0
    while True:
        with SegmentWalk(place.segment.path, position=position) as walk:
            next_offset = place.segment.base_offset
            for region in walk.regions():
                rows = region.table.rows
                next_offset = region.table.column("last_offset")[rows - 1] + 1
                yield _of_region(region, place)
        if walk.stopped is Stopped.END:
            return
        found = resume_after(place.segment, walk.position)
        yield _problem(place, walk, next_offset, found is None)
        if found is None:
            return
        position = found


def _of_region(region: Region, place: ReplicaSegment) -> pa.RecordBatch:
    table = table_columns(region.table)
    rows = region.table.rows
    constant = {
        "topic": place.replica.topic,
        "partition": place.replica.partition,
        "broker": place.replica.node_id,
        "segment": place.segment.base_offset,
        "problem": None,
    }
    arrays = []
    for field in BATCH_SCHEMA:
        if field.name in _FROM_TABLE:
            column = table.column(_FROM_TABLE[field.name])
        elif field.name == "position":
            column = pc.add(table.column("position"), region.position)
        elif field.name == "maxTimestamp":
            column = table.column("max_timestamp").cast(pa.timestamp("ms", "UTC"))
        else:
            column = pa.repeat(pa.scalar(constant[field.name], field.type), rows)
        arrays.append(column.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=BATCH_SCHEMA)


def _problem(
    place: ReplicaSegment, walk: SegmentWalk, next_offset: int, is_rest: bool
) -> pa.RecordBatch:
    what = "torn" if walk.stopped is Stopped.TORN and place.is_last and is_rest else "unreadable"
    row = {
        "topic": place.replica.topic,
        "partition": place.replica.partition,
        "broker": place.replica.node_id,
        "baseOffset": next_offset,
        "segment": place.segment.base_offset,
        "position": walk.position,
        "problem": what,
    }
    return pa.RecordBatch.from_pylist([row], schema=BATCH_SCHEMA)
