"""What the disk can do to us, each with the code a peer gets for it.

Every one names the file, and where in it: an operator must be able to look.
"""

from typing import ClassVar

from tidelog.core.errors import Error


class StorageError(Exception):
    """The storage cannot do what was asked, and says why."""

    kafka_error: ClassVar[Error] = Error.KAFKA_STORAGE_ERROR


class CorruptFile(StorageError):  # noqa: N818 - it names a state of bytes, not an accident
    """A file is not what we wrote. Nothing of it has been used."""

    def __init__(self, path: str, where: str, reason: str) -> None:
        super().__init__(f"{path}, {where}: {reason}")
        self.path = path
        self.where = where
        self.reason = reason


class UnknownContent(CorruptFile):
    """The file is intact, and has something in it that only another release understands. It must
    not be repaired."""


class CorruptSegment(CorruptFile):
    """Records that were safe on disk cannot be read any more.

    `offset` is the first offset lost. A follower truncates to it and fetches again; a leader
    must not serve anything from there on and should let a clean replica lead.
    """

    def __init__(self, path: str, *, position: int, offset: int, reason: str) -> None:
        super().__init__(path, f"byte {position} (offset {offset})", reason)
        self.position = position
        self.offset = offset


class MissingRecords(CorruptSegment):
    """Records between the log start and the first segment, or between two segments, are gone,
    and neither retention nor DeleteRecords took them. `end` is the first offset that is there."""

    def __init__(self, path: str, *, position: int, offset: int, end: int) -> None:
        reason = f"records {offset} to {end - 1} are gone, and nothing deleted them"
        super().__init__(path, position=position, offset=offset, reason=reason)
        self.end = end


class OffsetsGoBack(CorruptSegment):
    """A batch begins before the end of the one in front of it, in a log that may have gaps. It
    is torn, or the one in front of it has rotted to a larger offset."""


class ContradictedSegment(CorruptSegment):
    """An intact batch and the epoch history disagree about its leader epoch. Both were durable
    in the right order, so no crash can do that: a bit of one of them has changed at rest."""


class NoSpace(StorageError):  # noqa: N818
    """The device is full. What was there stays readable; appends work again when space is."""

    def __init__(self, path: str) -> None:
        super().__init__(f"no space left on the device while writing {path}")
        self.path = path


class DirectoryOffline(StorageError):  # noqa: N818
    """An I/O error made the whole log directory unusable until the process starts again."""

    def __init__(self, path: str, operation: str, cause: OSError) -> None:
        super().__init__(f"log directory is offline: {operation} of {path} failed: {cause}")
        self.path = path
        self.operation = operation


class NotFormatted(StorageError):  # noqa: N818
    """There is no meta.properties: this directory was never formatted, or it is the wrong one."""


class ForeignDirectory(StorageError):  # noqa: N818
    """The directory belongs to another cluster or another node."""

    kafka_error: ClassVar[Error] = Error.INCONSISTENT_CLUSTER_ID


class DirectoryLocked(StorageError):  # noqa: N818
    """Another process uses this log directory."""


class OffsetOutOfRange(StorageError):  # noqa: N818
    """The log does not hold this offset."""

    kafka_error: ClassVar[Error] = Error.OFFSET_OUT_OF_RANGE


class UnexpectedAppend(StorageError):  # noqa: N818
    """Batches from a leader that do not continue this log, or are not batches at all."""

    kafka_error: ClassVar[Error] = Error.CORRUPT_MESSAGE


class BatchLargerThanSegment(StorageError):  # noqa: N818
    """A client's batch does not fit into a segment of this topic."""

    kafka_error: ClassVar[Error] = Error.RECORD_LIST_TOO_LARGE
