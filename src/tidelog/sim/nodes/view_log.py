"""What a replica's log holds, as the rules see it: batches with numbers, and prefix digests.

A shadow of a production log is fed by the probes with every append and cut. Looking at it reads
no file, so a rule never finds what the node has not found. When a node has restarted, a new shadow
is read from what recovery left on the disk.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import NamedTuple, cast

from tidelog.host.ports import Buffer
from tidelog.sim.disk import SimFile
from tidelog.sim.recovery_facts import Written
from tidelog.storage.guarded_disk import GuardedFile
from tidelog.storage.log import Log
from tidelog.wire.records import BatchHeader, InvalidBatch, iter_batches

ATTRIBUTES_AT = 21
"""Before it a leader stamps offset and epoch; from there on a batch never changes."""

_MASK = (1 << 61) - 1

Decode = Callable[[bytes, BatchHeader], tuple[int, ...]]
"""The numbers of the records of a batch."""


class Content:
    """What a batch says, wherever it stands. Equal contents of a partition are one object."""

    __slots__ = ("_batch", "_decode", "_header", "_values", "number")

    def __init__(self, number: int, batch: bytes, header: BatchHeader, decode: Decode) -> None:
        self.number = number
        self._batch = batch
        self._header = header
        self._decode = decode
        self._values: tuple[int, ...] | None = None

    @property
    def values(self) -> tuple[int, ...]:
        """Decoded when a rule asks for the first time."""
        if self._values is None:
            self._values = self._decode(self._batch, self._header)
        return self._values


class Contents:
    """All contents of one partition, by their bytes."""

    __slots__ = ("_decode", "_known")

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._known: dict[bytes, Content] = {}

    def batches_in(self, data: Buffer) -> list["ShadowBatch"]:
        """Every batch of a piece of a log."""
        view = memoryview(data)
        return [self._batch(view, position, header) for position, header in iter_batches(view)]

    def _batch(self, view: memoryview, position: int, header: BatchHeader) -> "ShadowBatch":
        end = position + header.size_bytes
        key = bytes(view[position + ATTRIBUTES_AT : end])
        content = self._known.get(key)
        if content is None:
            batch = bytes(view[position:end])
            number = len(self._known) + 1
            content = self._known[key] = Content(number, batch, header, self._decode)
        return shadow_batch(header, content)


class ShadowBatch(NamedTuple):
    """A record batch of a log. Two are equal if they say the same at the same place."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    is_transactional: bool
    is_control: bool
    content: Content | None

    @property
    def values(self) -> tuple[int, ...]:
        return () if self.content is None else self.content.values

    def __str__(self) -> str:
        return (
            f"offsets {self.base_offset} to {self.last_offset} of leader epoch"
            f" {self.leader_epoch} (records {self.values})"
        )


def shadow_batch(header: BatchHeader, content: Content | None) -> ShadowBatch:
    return ShadowBatch(
        header.base_offset,
        header.last_offset,
        header.leader_epoch,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
        header.is_transactional,
        header.is_control,
        content,
    )


class ShadowLog:
    """A `LogFace`: offsets and epochs are the log's own, batches those of the shadow."""

    __slots__ = (
        "_bases",
        "_batches",
        "_chains",
        "_start_chain",
        "_trimmed",
        "arriving",
        "contents",
        "cut_to",
        "log",
        "starts",
    )

    def __init__(self, log: Log, contents: Contents) -> None:
        self.log = log
        self.contents = contents
        self.starts: list[int] = [log.log_start_offset]
        """Every log start it had in this life: a crash may bring an earlier one back."""
        self.arriving: Sequence[Buffer] = ()
        """What is being written: after a crash it may be there."""
        self.cut_to: int | None = None
        """To where it is being cut: after a crash the rest may be gone."""
        self._batches: list[ShadowBatch] = []
        self._bases: list[int] = []
        self._chains: list[int] = []
        self._start_chain = log.log_start_offset
        self._trimmed: list[ShadowBatch] = []
        """Below the log start. They are back if a crash brings back an earlier one."""

    # -- what the log itself says

    # Asked at every happening: no frame of their own.
    log_start_offset = property(attrgetter("log.log_start_offset"))
    log_end_offset = property(attrgetter("log.log_end_offset"))
    durable_offset = property(attrgetter("log.durable_offset"))
    epochs = property(attrgetter("log.epochs"))
    may_have_gaps = property(attrgetter("log.may_have_gaps"))

    # -- what it holds

    @property
    def batches(self) -> Sequence[ShadowBatch]:
        self._forget_deleted()
        return self._batches

    @property
    def end(self) -> int:
        """Where the shadow ends; the log must agree."""
        return self._batches[-1].last_offset + 1 if self._batches else self.log.log_end_offset

    def batch_at(self, offset: int) -> ShadowBatch | None:
        """The batch that holds this offset."""
        index = bisect_right(self._bases, offset) - 1
        if index < 0 or self._batches[index].last_offset < offset:
            return None
        return self._batches[index]

    def chain_at(self, offset: int) -> int | None:
        """Digest of everything below `offset`; None when it is not a batch border we know."""
        batches = self._batches
        if batches and batches[-1].last_offset == offset - 1:  # as good as always
            return self._chains[-1]
        index = bisect_left(self._bases, offset) - 1
        if index < 0 or batches[index].last_offset != offset - 1:
            return None
        return self._chains[index]

    # -- what happens to it

    def append(self, batches: Sequence[ShadowBatch]) -> None:
        for batch in batches:
            before = self._chains[-1] if self._chains else self._start_chain
            self._chains.append(_chain(before, batch))
            self._batches.append(batch)
            self._bases.append(batch.base_offset)

    def follow_cut(self) -> None:
        """The log was cut, perhaps to nothing: what it has no more goes here too."""
        end = self.log.log_end_offset
        keep = bisect_left(self._bases, end)
        del self._batches[keep:], self._bases[keep:], self._chains[keep:]
        while self._trimmed and self._trimmed[-1].base_offset >= end:
            self._trimmed.pop()
        if not self._batches:
            self._start_chain = end
        self.note_start()

    def written(self) -> Written:
        """Its process is gone: what the next one may find, and what it must find."""
        self.note_start()
        self._forget_deleted()
        batches = [*self._trimmed, *self._batches]
        for piece in self.arriving:
            batches += self.contents.batches_in(piece)
        owed_end = self.log.log_end_offset
        if self.cut_to is not None:
            kept = bisect_right(self._bases, self.cut_to) - 1
            owed_end = min(owed_end, self._bases[kept] if kept >= 0 else 0, self.cut_to)
            self.starts.append(self.cut_to)
        return Written(batches, owed_end, tuple(self.starts))

    def failed(self) -> None:
        """What was to be appended may be on the disk in part; its buffers are others' by then."""
        self.arriving = tuple(bytes(piece) for piece in self.arriving)

    def note_start(self) -> None:
        if self.starts[-1] != self.log.log_start_offset:
            self.starts.append(self.log.log_start_offset)

    def _forget_deleted(self) -> None:
        start = self.log.log_start_offset
        gone = bisect_right(self._bases, start) - 1
        if gone >= 0 and self._batches and self._batches[gone].last_offset < start:
            gone += 1
        if gone > 0:
            self._start_chain = self._chains[gone - 1]
            self._trimmed += self._batches[:gone]
            del self._batches[:gone], self._bases[:gone], self._chains[:gone]

    # -- restarts

    def load(self, former: "ShadowLog | None") -> None:
        """Read what the log holds. Digests go on from the former shadow where both begin alike, so
        that they stay comparable with those of other replicas."""
        batches = stored_batches(self.log, self.contents)
        self._start_chain = self.log.log_end_offset
        if batches:
            first = batches[0]
            self._start_chain = first.base_offset
            if former is not None and former.batch_at(first.base_offset) == first:
                index = bisect_left(former._bases, first.base_offset)
                self._start_chain = former._chains[index - 1] if index else former._start_chain
        self.append(batches)

    def take_over(self, former: "ShadowLog") -> None:
        """What the former shadow knows, as far as the log goes. Its bytes are damaged, and a rule
        must not know that before the node does. Or they were compacted, which no rule is about."""
        self._start_chain = former._start_chain
        self.append(former._batches)
        self.follow_cut()


def stored_batches(log: Log, contents: Contents) -> list[ShadowBatch]:
    """What is on the disk, past the log that owns it: no fault hits this reading."""
    found: list[ShadowBatch] = []
    for segment in log.segments:
        file = cast(SimFile, cast(GuardedFile, segment.file)._inner)
        with suppress(InvalidBatch):  # damaged: whoever serves it finds out
            found += contents.batches_in(file.content()[: segment.size])
    return [batch for batch in found if batch.last_offset >= log.log_start_offset]


def _chain(previous: int, batch: ShadowBatch) -> int:
    """Numbers only: `hash()` of anything else would differ between processes."""
    number = 0 if batch.content is None else batch.content.number
    mixed = previous * 6364136223846793005 + batch.base_offset * 1442695040888963407
    return (mixed + batch.leader_epoch * 1099511628211 + number * 805306457) & _MASK
