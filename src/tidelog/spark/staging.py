"""What tasks hand to the commit: encoded batches, in the message itself or in a file.

Nobody reads a file but the commit of the same attempt, so what a lost attempt leaves behind is only
in the way.
"""

import os
import re
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from tidelog.spark import staged_files
from tidelog.spark.failure import TidelogError
from tidelog.spark.sink_options import SinkSettings, temporary_directory
from tidelog.spark.staged_files import StagedFile
from tidelog.spark.tables.store_options import NO_OPTIONS, StoreOptions
from tidelog.spark.tables.stores import Store, told
from tidelog.wire.records import Buffer, read_header

INLINE_BYTES: Final = 1024 * 1024
"""More goes to a file, if there is a place for one."""
INLINE_BYTES_AT_MOST: Final = 4 * 1024 * 1024
PIECE_BYTES: Final = 1024 * 1024
PREFIX: Final = "tidelog-staged"
SHARED: Final = (
    "set stagingDir to a directory that the driver and all executors share, or to s3://…"
)
ORPHAN_AGE_S: Final = 7 * 24 * 3600
_NAME: Final = re.compile(rf"{PREFIX}\.(?P<query>[^.]+)\.(?P<number>\d+)\..*")
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Piece(NamedTuple):
    """Some batches of one partition, and where they lie among the staged bytes."""

    topic: str
    partition: int
    position: int
    size_bytes: int
    records: int


class Origin(NamedTuple):
    """Source offsets of rows that go to one partition."""

    topic: str
    partition: int
    first: int
    end: int


class Attempt(NamedTuple):
    """Whose rows they are: names the file."""

    query_id: str
    number: int
    """Of the micro-batch."""
    task: int


@dataclass(frozen=True)
class StagedRows(WriterCommitMessage):
    """The rows of one task."""

    query_id: str
    run_id: str
    pieces: tuple[Piece, ...]
    inline: bytes | None
    path: str | None
    machine: str
    origins: tuple[Origin, ...] = ()
    """Where they came from, of rows that are mirrored."""

    options: StoreOptions = NO_OPTIONS
    """How to get there, if the path is in a store."""

    @property
    def place(self) -> Store:
        assert self.path is not None, self.pieces
        return Store(self.path, self.options)

    def read(self, piece: Piece) -> bytearray:
        """A fresh copy of the batches, to be stamped in place."""
        end = piece.position + piece.size_bytes
        if self.inline is not None:
            return bytearray(memoryview(self.inline)[piece.position : end])
        try:
            with told(self.place, "cannot read what was staged at"):
                found = staged_files.read(self.place, piece.position, piece.size_bytes)
        except OSError as error:
            raise self._unreadable(error.strerror or str(error)) from None
        if len(found) != piece.size_bytes:
            raise self._unreadable(f"it ends before position {end}")
        return found

    def _unreadable(self, reason: str) -> TidelogError:
        where = self.machine.partition(" ")[0]
        return TidelogError(
            f"{self.path}, staged on {where}, cannot be read by the driver: {reason}",
            SHARED,
        )

    def remove(self) -> None:
        if self.path is not None:
            with told(self.place, "cannot remove what was staged at"):
                staged_files.remove(self.place)


class Staging:
    """Collects the batches of one task. Small amounts stay in memory."""

    __slots__ = ("_attempt", "_directory", "_file", "_memory", "_pieces", "_place", "_position")

    def __init__(self, attempt: Attempt, directory: Store | None) -> None:
        """Without a directory, what does not fit into the message is refused."""
        self._attempt = attempt
        self._directory = directory
        self._memory: list[Buffer] = []
        self._file: StagedFile | None = None
        self._place: Store | None = None
        self._pieces: list[Piece] = []
        self._position = 0

    def add(self, topic: str, partition: int, batch: Buffer) -> None:
        records = read_header(batch).record_count
        piece = Piece(topic, partition, self._position, len(batch), records)
        last = self._pieces[-1] if self._pieces else None
        if last is not None and _may_join(last, piece):
            self._pieces[-1] = last._replace(
                size_bytes=last.size_bytes + piece.size_bytes, records=last.records + records
            )
        else:
            self._pieces.append(piece)
        self._position += len(batch)
        self._memory.append(batch)
        if self._file is not None or self._position > self._inline_limit:
            self._spill()

    @property
    def _inline_limit(self) -> int:
        return INLINE_BYTES if self._directory is not None else INLINE_BYTES_AT_MOST

    def _spill(self) -> None:
        if self._file is None:
            if self._directory is None:
                raise TidelogError(
                    f"a task wrote more than {INLINE_BYTES_AT_MOST} bytes, which is too much"
                    " to hand to the driver without a file",
                    SHARED,
                )
            self._place = self._directory.below(file_name(self._attempt))
            with _usable(self._place):
                self._file = staged_files.begin(self._place)
        assert self._place is not None, "a file has a place"
        with _usable(self._place):
            for batch in self._memory:
                self._file.write(batch)
        self._memory.clear()

    def finish(self, run_id: str, machine: str) -> StagedRows:
        query_id, pieces = self._attempt.query_id, tuple(self._pieces)
        if self._file is None:
            return StagedRows(query_id, run_id, pieces, b"".join(self._memory), None, machine)
        assert self._place is not None, "a file has a place"
        with _usable(self._place):
            self._file.finish()
        place, options = self._place
        return StagedRows(query_id, run_id, pieces, None, place, machine, options=options)

    def discard(self) -> None:
        """Nothing is left of it."""
        if self._file is not None:
            self._file.discard()


def _may_join(last: Piece, piece: Piece) -> bool:
    same = (last.topic, last.partition) == (piece.topic, piece.partition)
    return same and last.size_bytes + piece.size_bytes <= PIECE_BYTES


@contextmanager
def _usable(place: Store) -> Iterator[None]:
    try:
        with told(place, "rows cannot be staged in"):
            yield
    except OSError as error:
        raise TidelogError(
            f"rows cannot be staged in {place.path.parent}: {error.strerror or error}",
            "set stagingDir to a directory with space that may be written to",
        ) from None


def file_name(attempt: Attempt) -> str:
    query = re.sub(r"[^A-Za-z0-9_-]", "_", attempt.query_id)[:80]
    some = uuid.uuid4().hex[:8]
    return f"{PREFIX}.{query}.{attempt.number}.{attempt.task}.{some}"


def staging_directory(settings: SinkSettings, driver: str) -> Store | None:
    """Where a task stages: as the option says, else beside the checkpoint, else on the machine
    that it shares with the driver. None: there is no such place."""
    if settings.staging is not None:
        return settings.staging
    if settings.checkpoint is not None and Path(settings.checkpoint).is_dir():
        return Store(settings.checkpoint).below("tidelog-staging")
    if driver == this_machine():
        return Store(str(temporary_directory() / f"tidelog-staging-{os.getuid()}"))
    return None


def this_machine() -> str:
    """Equal in two processes if they see the same files under the same names, as far as one can
    know: containers of one machine have different host names."""
    boot_id = _BOOT_ID.read_text(encoding="ascii").strip() if _BOOT_ID.exists() else "-"
    return f"{socket.gethostname()} {boot_id}"


def sweep(directory: Store, query_id: str, number: int) -> None:
    """Remove what lost attempts left: of this query up to this micro-batch, which is decided, and
    of anybody if it is very old."""
    query = re.sub(r"[^A-Za-z0-9_-]", "_", query_id)[:80]
    for found in staged_files.listed(directory):
        name = _NAME.fullmatch(found.name)
        if name is None:
            continue
        decided = name["query"] == query and int(name["number"]) <= number
        if decided or found.age_s > ORPHAN_AGE_S:
            staged_files.remove(directory.below(found.name))
