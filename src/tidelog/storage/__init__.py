"""Logs on a disk: segments, indexes, checkpoints, recovery. Formats and file names are Kafka's.

Everything goes through a `host.ports.Disk`; nothing here opens a file or reads a clock.
"""

from tidelog.storage.config import LogConfig
from tidelog.storage.errors import (
    BatchLargerThanSegment,
    ContradictedSegment,
    CorruptFile,
    CorruptSegment,
    DirectoryLocked,
    DirectoryOffline,
    ForeignDirectory,
    NoSpace,
    NotFormatted,
    OffsetOutOfRange,
    StorageError,
    UnexpectedAppend,
)
from tidelog.storage.log import Log
from tidelog.storage.log_directory import LogDirectory

__all__ = [
    "BatchLargerThanSegment",
    "ContradictedSegment",
    "CorruptFile",
    "CorruptSegment",
    "DirectoryLocked",
    "DirectoryOffline",
    "ForeignDirectory",
    "Log",
    "LogConfig",
    "LogDirectory",
    "NoSpace",
    "NotFormatted",
    "OffsetOutOfRange",
    "StorageError",
    "UnexpectedAppend",
]
