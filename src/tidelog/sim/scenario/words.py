"""How a story names brokers and records, and how it writes down a log."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from tidelog.core.types import NO_LEADER
from tidelog.sim.scenario.script import ArgumentError, number
from tidelog.wire.records import (
    COMMIT,
    BatchHeader,
    Buffer,
    control_type,
    iter_batches,
    iter_records,
)


class Cast:
    """Brokers by name. A number is its own id; A, B, C … are brokers 1, 2, 3 …"""

    def __init__(self) -> None:
        self._names: dict[int, str] = {NO_LEADER: "none"}

    def id_of(self, name: str) -> int:
        broker = ord(name) - ord("A") + 1 if len(name) == 1 and "A" <= name <= "Z" else None
        if broker is None:
            broker = number("a broker", name)
        self._names[broker] = name
        return broker

    def name_of(self, broker: int) -> str:
        return self._names.get(broker, str(broker))

    def names_of(self, brokers: Iterable[int]) -> str:
        return f"({','.join(map(self.name_of, brokers))})"


class StoryBatch(NamedTuple):
    """A batch as a story names it: its records are called by their values."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    names: tuple[str, ...]

    @property
    def record_count(self) -> int:
        return self.last_offset - self.base_offset + 1

    def __str__(self) -> str:
        """`x/1`, or `p+q+r/1` for one batch of three records."""
        return f"{'+'.join(self.names)}/{self.leader_epoch}"


def read_batches(data: Buffer) -> list[StoryBatch]:
    """The batches in bytes of a log or of an answer."""
    view = memoryview(data)
    return [
        StoryBatch(
            header.base_offset,
            header.last_offset,
            header.leader_epoch,
            _names(view, position, header),
        )
        for position, header in iter_batches(view)
    ]


def _names(view: memoryview, position: int, header: BatchHeader) -> tuple[str, ...]:
    if header.is_control:
        return ("commit" if control_type(view, position) == COMMIT else "abort",)
    return tuple((each.value or b"").decode() for each in iter_records(view, position, header))


def log_text(batches: Sequence[StoryBatch]) -> str:
    """Named records one by one, unnamed ones of one epoch as `e0:[0..9]`."""
    parts: list[str] = []
    for key, run in groupby(batches, _run_key):
        members = list(run)
        if key is None or len(members) == 1:
            parts += map(str, members)
        else:
            first, last = members[0].base_offset, members[-1].last_offset
            parts.append(f"e{key}:[{first}..{last}]")
    return " ".join(parts)


def _run_key(batch: StoryBatch) -> int | None:
    """Records that nobody named are called by the offset they were first given."""
    return batch.leader_epoch if batch.names == (str(batch.base_offset),) else None


def parse_log(text: str) -> list[tuple[str, int]]:
    """`a/0 b/0` or `e0:[0..9] e1:[10..12]` → names and leader epochs, offset by offset."""
    records: list[tuple[str, int]] = []
    for part in text.split():
        if part.startswith("e") and ":[" in part:
            records += _parse_run(part, len(records))
        else:
            name, slash, epoch = part.rpartition("/")
            if not slash or not name:
                raise ArgumentError(f"a log is like 'a/0 b/0' or 'e0:[0..9]', not {part!r}")
            records.append((name, number("a leader epoch", epoch)))
    return records


def _parse_run(part: str, next_offset: int) -> list[tuple[str, int]]:
    epoch, _, offsets = part[1:].partition(":[")
    first, dots, last = offsets.removesuffix("]").partition("..")
    begin = number("an offset", first)
    end = number("an offset", last) if dots else begin
    if begin != next_offset or end < begin:
        raise ArgumentError(f"{part!r} does not continue the log at offset {next_offset}")
    return [(str(offset), number("a leader epoch", epoch)) for offset in range(begin, end + 1)]


def offsets_text(first: int, last: int) -> str:
    return f"offset={first}" if first == last else f"offsets={first}..{last}"
