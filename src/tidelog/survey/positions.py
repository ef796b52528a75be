"""Positions in a partition as people write them.

`start`, `end`, `1041` (an offset), `+5` (five after the start), `-5` (five before the end), and
times: `@now`, `@-30m`, `@1700000000000` (milliseconds), `@2026-01-31`, `@2026-01-31T10:00:00Z`.
"""

import time
from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple

from tidelog.client import Client
from tidelog.client.offsets import EARLIEST, LATEST, NOTHING, READ_UNCOMMITTED, find_offset
from tidelog.config.quantities import parse_duration_ms
from tidelog.survey.refusal import NotPossible


class Base(Enum):
    START = "start"
    END = "end"
    OFFSET = "offset"
    TIME = "time"


class Position(NamedTuple):
    base: Base
    value: int
    """What is added to the start or the end, an offset, or milliseconds since 1970."""


START = Position(Base.START, 0)
END = Position(Base.END, 0)


def parse_position(text: str, *, option: str, now_ms: int | None = None) -> Position:
    """Wrong usage if it is none."""
    word = text.strip()
    try:
        return _parse(word, int(time.time() * 1000) if now_ms is None else now_ms)
    except ValueError as reason:
        raise NotPossible(
            f"wrong value for {option}: {text}",
            why=str(reason) or "it is no position",
            advice=f"{option} start, end, 1041, +5, -5, @-1h, @2026-01-31T10:00",
            is_usage=True,
        ) from None


def _parse(word: str, now_ms: int) -> Position:
    if word in ("start", "beginning", "earliest"):
        return START
    if word in ("end", "latest"):
        return END
    if word.startswith("@"):
        return Position(Base.TIME, parse_time_ms(word[1:], now_ms))
    digits = word[1:] if word[:1] in "+-" else word
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError("a position is start, end, a number, or @ and a time")
    if word.startswith("+"):
        return Position(Base.START, int(digits))
    if word.startswith("-"):
        return Position(Base.END, -int(digits))
    return Position(Base.OFFSET, int(digits))


def parse_time_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970; ValueError if it is no time."""
    if text == "now":
        return now_ms
    if text.startswith("-"):
        return now_ms - parse_duration_ms(text[1:])
    if text.isascii() and text.isdigit() and len(text) > 8:
        return int(text) * (1000 if len(text) <= 10 else 1)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time: now, -1h, or ISO 8601") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


async def resolve(
    client: Client,
    topic: str,
    index: int,
    position: Position,
    *,
    isolation: int = READ_UNCOMMITTED,
) -> int:
    """The offset it means in one partition now, within what the partition has."""
    start = (await find_offset(client, topic, index, EARLIEST)).offset
    end = (await find_offset(client, topic, index, LATEST, isolation=isolation)).offset
    match position.base:
        case Base.START:
            wanted = start + position.value
        case Base.END:
            wanted = end + position.value
        case Base.OFFSET:
            wanted = position.value
        case Base.TIME:
            found = (await find_offset(client, topic, index, position.value)).offset
            wanted = end if found == NOTHING else found
    return min(max(wanted, start), max(end, start))
