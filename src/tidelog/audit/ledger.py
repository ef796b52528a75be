"""What writers sent and what was acknowledged to them, and the comparison with what can be read.

A record is `writer:number:filling`. A writer uses one partition and counts, so the numbers of one
writer must be read in order, each once, and every acknowledged one at the offset it was told.
"""

from collections.abc import Iterable
from typing import NamedTuple

RecordName = tuple[int, int]
"""(writer, number)"""


class Found(NamedTuple):
    """One record as a consumer read it."""

    partition: int
    offset: int
    value: bytes


class Acknowledged(NamedTuple):
    partition: int
    offset: int


class Verdict(NamedTuple):
    sent: int
    acknowledged: int
    in_doubt: int
    """Sent, and neither acknowledged nor refused for sure: they may be there or not."""
    read_back: int
    lost: int
    duplicated: int
    out_of_order: int
    misplaced: int
    """Acknowledged with another offset than the one they are at."""
    never_sent: int

    @property
    def holds(self) -> bool:
        wrong = self.lost, self.duplicated, self.out_of_order, self.misplaced, self.never_sent
        return not any(wrong)


def value_of(writer: int, number: int, size_bytes: int) -> bytes:
    return b"%d:%d:" % (writer, number) + b"." * max(0, size_bytes - 20)


def name_of(value: bytes) -> RecordName | None:
    """None if no writer made it."""
    writer, _, rest = value.partition(b":")
    number, colon, _ = rest.partition(b":")
    if not (colon and writer.isdigit() and number.isdigit()):
        return None
    return int(writer), int(number)


class Ledger:
    """One entry per record. Filled by the writers, judged once at the end."""

    __slots__ = ("_acknowledged", "_sent")

    def __init__(self) -> None:
        self._sent: dict[int, int] = {}
        self._acknowledged: dict[RecordName, Acknowledged] = {}

    @property
    def acknowledged(self) -> int:
        return len(self._acknowledged)

    def next_numbers(self, writer: int, count: int) -> range:
        """Noted as sent before they are: an answer may never come."""
        first = self._sent.get(writer, 0)
        self._sent[writer] = first + count
        return range(first, first + count)

    def acknowledge(self, writer: int, numbers: Iterable[int], partition: int, offset: int) -> None:
        for place, number in enumerate(numbers):
            assert (writer, number) not in self._acknowledged, f"{writer}:{number} twice"
            self._acknowledged[writer, number] = Acknowledged(partition, offset + place)

    def judge(self, found: Iterable[Found]) -> Verdict:
        """`found` is every record of every partition, in the order of each."""
        seen: dict[RecordName, Acknowledged] = {}
        last: dict[int, int] = {}
        read = duplicated = out_of_order = never_sent = 0
        for record in found:
            read += 1
            name = name_of(record.value)
            if name is None or name[1] >= self._sent.get(name[0], 0):
                never_sent += 1
                continue
            if name in seen:
                duplicated += 1
                continue
            seen[name] = Acknowledged(record.partition, record.offset)
            writer, number = name
            out_of_order += number < last.get(writer, -1)
            last[writer] = max(number, last.get(writer, -1))
        told = self._acknowledged
        sent = sum(self._sent.values())
        return Verdict(
            sent=sent,
            acknowledged=len(told),
            in_doubt=sent - len(told),
            read_back=read,
            lost=sum(name not in seen for name in told),
            duplicated=duplicated,
            out_of_order=out_of_order,
            misplaced=sum(seen.get(name, place) != place for name, place in told.items()),
            never_sent=never_sent,
        )
