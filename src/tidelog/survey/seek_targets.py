"""Where `group seek` moves a group to, as people write it, and what that means in a partition.

`earliest`, `latest`, `1041` (an offset), `+5` and `-5` (from what is committed), and times: `-1h`
(ago), `2026-01-31`, `2026-01-31T10:00:00Z`.
"""

from enum import Enum
from typing import NamedTuple

from tidelog.survey.positions import parse_time_ms
from tidelog.survey.refusal import NotPossible


class Toward(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    SHIFT = "shift"
    TIME = "time"


class Target(NamedTuple):
    toward: Toward
    value: int = 0
    """An offset, a number of records, or milliseconds since 1970."""


class Move(NamedTuple):
    topic: str
    partition: int
    committed: int | None
    to: int
    note: str = ""
    """Why it is not where it was asked for."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def difference(self) -> int | None:
        return None if self.committed is None else self.to - self.committed


def parse_target(text: str, now_ms: int) -> Target:
    """Wrong usage if it is none."""
    word = text.strip()
    try:
        return _parse(word, now_ms)
    except ValueError as reason:
        raise NotPossible(
            f"wrong value for --to: {text}",
            why=str(reason),
            advice="--to earliest, latest, 1041, +5, -5, -1h, 2026-01-31T10:00",
            is_usage=True,
        ) from None


def _parse(word: str, now_ms: int) -> Target:
    if word in ("earliest", "start", "beginning"):
        return Target(Toward.EARLIEST)
    if word in ("latest", "end"):
        return Target(Toward.LATEST)
    if word.isascii() and word.isdigit():
        return Target(Toward.OFFSET, int(word))
    if word[:1] in ("+", "-") and word[1:].isascii() and word[1:].isdigit():
        return Target(Toward.SHIFT, int(word))
    return Target(Toward.TIME, parse_time_ms(word.removeprefix("@"), now_ms))


def parse_topics(texts: tuple[str, ...]) -> dict[str, list[int] | None]:
    """`orders`, `orders:0`, `orders:0,2`: the partitions of each topic, None for all of them."""
    chosen: dict[str, list[int] | None] = {}
    for text in texts:
        topic, colon, listed = text.partition(":")
        numbers = [each.strip() for each in listed.split(",")] if colon else []
        if not topic or not all(each.isascii() and each.isdigit() for each in numbers):
            raise NotPossible(
                f"wrong value for --topic: {text}",
                why="it is a topic, or a topic, a colon and partitions",
                advice="--topic orders    or    --topic orders:0,2",
                is_usage=True,
            )
        known = chosen.get(topic, [])
        if not colon or known is None:
            chosen[topic] = None
        else:
            chosen[topic] = sorted({*known, *map(int, numbers)})
    return chosen


def settle(wanted: int, start: int, end: int) -> tuple[int, str]:
    """The nearest offset that a reader could begin at, and why it is another one."""
    if wanted < start:
        return start, f"{wanted} asked for, the log starts at {start}"
    if wanted > end:
        return end, f"{wanted} asked for, the log ends at {end}"
    return wanted, ""
