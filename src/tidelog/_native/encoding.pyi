from tidelog._native.contract import (
    Buffer,
    BytesColumn,
    HeadersColumn,
    Int32Column,
    WritableBuffer,
)

def murmur2_of(data: Buffer) -> int: ...
def assign(
    rows: int,
    *,
    keys: BytesColumn | None,
    values: BytesColumn | None,
    explicit: Int32Column | None,
    partitions: int,
    sticky: tuple[int, int],
    batch_bytes: int,
) -> tuple[bytearray, tuple[int, int], int]: ...
def encode(
    row_count: int,
    *,
    keys: BytesColumn | None,
    values: BytesColumn | None,
    headers: HeadersColumn | None,
    timestamps: Buffer | None,
    assigned: Buffer,
    partitions: int,
    timestamp_ms: int,
    attributes: int,
    max_batch_bytes: int,
    max_items: int,
) -> tuple[bytearray | None, bytearray | None, int, int]: ...
def restamp(
    region: WritableBuffer,
    positions: Buffer,
    *,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    transactional: bool,
) -> int: ...
