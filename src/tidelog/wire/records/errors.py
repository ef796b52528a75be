"""What can be wrong with a record batch, each with the code a Kafka client gets for it.

The codes are plain ints: `wire` does not know `core.errors`, the broker translates.
Every error of this package is an `InvalidBatch`; nothing else may escape on hostile bytes.
"""

from typing import ClassVar


class InvalidBatch(Exception):  # noqa: N818 - callers catch a state of bytes, not an accident
    """The bytes are not a usable record batch; the message is a reason a human can act on."""

    kafka_error: ClassVar[int] = 87  # INVALID_RECORD


class TruncatedBatch(InvalidBatch):
    """The bytes end before the batch does: a torn tail in a file, a lie from a client."""


class CorruptBatch(InvalidBatch):
    """The checksum does not match, or the length field makes no sense."""

    kafka_error: ClassVar[int] = 2  # CORRUPT_MESSAGE


class InvalidRecord(InvalidBatch):
    """The header is fine and the records inside are not."""


class UnknownRecord(InvalidRecord):
    """Intact, and of a kind or version that this release does not know."""


class BatchTooLarge(InvalidBatch):
    """More bytes, or more once decompressed, than we accept.

    Java producers answer this code by splitting the batch and trying again, which is what
    an honest client with very compressible data should do.
    """

    kafka_error: ClassVar[int] = 10  # MESSAGE_TOO_LARGE


class UnsupportedCodec(InvalidBatch):
    """A codec that does not exist, or zstd from a client older than zstd (KIP-110)."""

    kafka_error: ClassVar[int] = 76  # UNSUPPORTED_COMPRESSION_TYPE


class InvalidTimestampType(InvalidBatch):
    """Only a broker may say that timestamps are log append times."""

    kafka_error: ClassVar[int] = 32  # INVALID_TIMESTAMP
