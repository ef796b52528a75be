"""A producer entered into batches that were encoded without one (spark.md §5, staged mode)."""

from tidelog.wire.kernel import choice
from tidelog.wire.kernel.table import BatchTable, as_bytes, scan_batches
from tidelog.wire.records import CorruptBatch, TruncatedBatch, WritableBuffer
from tidelog.wire.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE


def restamp(
    batches: WritableBuffer,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    *,
    transactional: bool = False,
) -> int:
    """Makes the batches in a buffer, one or many, the next ones of a producer, in place.

    Gives the sequence that follows them. Checksums are verified before they are computed anew:
    bytes that went bad while they were staged are not blessed with a new one.
    """
    assert (producer_id >= 0) == (base_sequence >= 0), (producer_id, base_sequence)
    assert producer_id >= 0 or not transactional, "a transactional batch must name its producer"
    table = scan_batches(batches)
    _check_whole(batches, table)
    return choice.kernel.encoding.restamp(
        memoryview(as_bytes(batches)),
        table.column_bytes("position"),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )


def _check_whole(batches: WritableBuffer, table: BatchTable) -> None:
    if table.end != len(batches):
        left = len(batches) - table.end
        raise TruncatedBatch(f"{left} bytes after the last whole batch are too few for another")
    for row, is_ok in enumerate(table.column("crc_ok")):
        if not is_ok:
            position = table.column("position")[row]
            raise CorruptBatch(f"the checksum of the batch at position {position} is wrong")
