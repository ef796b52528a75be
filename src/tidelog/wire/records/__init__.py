"""Record batches of format v2: headers, records, compression, control batches, checks.

Rules: nothing but `InvalidBatch` and its kinds escapes on bytes from outside; no memory is
taken on the word of a length that was not checked; the leader's stamp never touches what
the checksum covers. Layout and reasons: replication.md §2.3.
"""

from tidelog.wire.records.body import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    DecodeLimits,
    Record,
    decode,
    encode,
    iter_records,
    rewrite,
)
from tidelog.wire.records.compression import CODEC_NAMES, GZIP, LZ4, NONE, SNAPPY, ZSTD
from tidelog.wire.records.control import (
    ABORT,
    COMMIT,
    KRAFT_VERSION,
    KRAFT_VOTERS,
    LEADER_CHANGE,
    NOT_CONTROL,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    EndTxnMarker,
    control_type,
    encode_control,
    encode_end_txn_marker,
    end_txn_marker,
)
from tidelog.wire.records.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidBatch,
    InvalidRecord,
    InvalidTimestampType,
    TruncatedBatch,
    UnsupportedCodec,
)
from tidelog.wire.records.header import (
    HEADER_SIZE,
    HEADER_SIZE_UP_TO_MAGIC,
    BatchHeader,
    Buffer,
    WritableBuffer,
    check_crc,
    iter_batches,
    read_header,
    stamp,
    stamp_log_append_time,
)
from tidelog.wire.records.validation import ClientLimits, validate_client_batch

__all__ = [
    "ABORT",
    "CODEC_NAMES",
    "COMMIT",
    "CREATE_TIME",
    "GZIP",
    "HEADER_SIZE",
    "HEADER_SIZE_UP_TO_MAGIC",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
    "LEADER_CHANGE",
    "LOG_APPEND_TIME",
    "LZ4",
    "NONE",
    "NOT_CONTROL",
    "SNAPPY",
    "SNAPSHOT_FOOTER",
    "SNAPSHOT_HEADER",
    "ZSTD",
    "BatchHeader",
    "BatchTooLarge",
    "Buffer",
    "ClientLimits",
    "CorruptBatch",
    "DecodeLimits",
    "EndTxnMarker",
    "InvalidBatch",
    "InvalidRecord",
    "InvalidTimestampType",
    "Record",
    "TruncatedBatch",
    "UnsupportedCodec",
    "WritableBuffer",
    "check_crc",
    "control_type",
    "decode",
    "encode",
    "encode_control",
    "encode_end_txn_marker",
    "end_txn_marker",
    "iter_batches",
    "iter_records",
    "read_header",
    "rewrite",
    "stamp",
    "stamp_log_append_time",
    "validate_client_batch",
]
