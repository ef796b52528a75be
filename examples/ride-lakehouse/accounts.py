"""What the table and the windows must hold, what they do hold, and whether that is the same.

The table is read by Polars: another engine than the one that wrote it, with another reader of
Parquet. Money is compared per zone and minute, in whole cents.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from rides import (
    AVRO,
    CLOSING,
    DROPPED_OFF,
    JSON_BY_MISTAKE,
    KINDS,
    MINUTE_MS,
    NO_FEE,
    STARTS_MS,
    ZONE_IDS,
    ZONES,
    Events,
)

SHOWN_MAX = 5

Place = tuple[int, int]
"""(zone, first millisecond of a minute)"""


class Money(NamedTuple):
    """Of the rides that ended in one zone and minute."""

    rides: int
    fare_cents: int
    tip_cents: int
    fee_cents: int
    """Congestion fees, which are known since version 2 of the schema."""

    @property
    def revenue_cents(self) -> int:
        return self.fare_cents + self.tip_cents


class Window(NamedTuple):
    """One record of the topic zone-revenue."""

    zone: int
    minute_ms: int
    rides: int
    cents: int


class Kind(NamedTuple):
    """What a table has of one kind of event."""

    events: int
    rides: int
    """Different ones that exist."""
    strangers: int
    """Events of rides that never were."""


class Table(NamedTuple):
    rows: int
    undecoded: int
    """Rows without a value."""
    with_fee: int
    """Rows that have the field which came with version 2."""
    kinds: Mapping[str, Kind]
    money: Mapping[Place, Money]


class Verdict(NamedTuple):
    events: int
    lost: int
    doubled: int
    strangers: int
    """Events that nobody wrote, or that have no value."""
    wrong_money: int
    """Zones and minutes whose sums in the table are not those of the rides."""
    wrong_windows: int
    """Missing, written twice, or with another number of rides or another sum."""
    wrong_letters: int
    """How many more or fewer dead letters there were than values that are no Avro."""
    places: int
    windows: int
    letters: int
    examples: list[str]

    @property
    def holds(self) -> bool:
        events = self.lost, self.doubled, self.strangers, self.wrong_letters
        return not any((*events, self.wrong_money, self.wrong_windows))


# ---- as it must be


def money_of(events: Events) -> dict[Place, Money]:
    """Sums per zone and minute of these events; only drop-offs have money."""
    ended = events.where(events.kind == DROPPED_OFF)
    minute = (ended.at_ms - STARTS_MS) // MINUTE_MS
    minutes = int(minute.max(initial=0)) + 1
    place = ended.zone * minutes + minute
    fees = np.where(ended.fee_cents == NO_FEE, 0, ended.fee_cents)
    columns = (np.ones(ended.count, int), ended.fare_cents, ended.tip_cents, fees)
    sums = np.zeros((len(columns), len(ZONE_IDS) * minutes), np.int64)
    for row, column in zip(sums, columns, strict=True):
        np.add.at(row, place, column)  # whole numbers throughout
    return {
        (int(ZONE_IDS[at // minutes]), STARTS_MS + int(at % minutes) * MINUTE_MS): Money(
            *map(int, sums[:, at])
        )
        for at in np.flatnonzero(sums[0])
    }


def windows_of(events: Events) -> list[Window]:
    """What the stream had in time: neither what it could not decode nor what came later."""
    in_time = money_of(events.where(events.written_as == AVRO))
    return [Window(*place, each.rides, each.revenue_cents) for place, each in in_time.items()]


# ---- as it is


def read_table(path: Path, rides: int) -> Table:
    return table_of(pl.scan_delta(str(path)), rides)


def table_of(rows: pl.LazyFrame, rides: int) -> Table:
    """Counted and added up by Polars. There are so many rides, numbered from 0."""
    values = rows.select(pl.col("value")).unnest("value")
    fee = "congestion_fee_cents"
    whole = values.select(
        pl.len().alias("rows"),
        pl.col("kind").is_null().sum().alias("undecoded"),
        pl.col(fee).is_not_null().sum().alias("with_fee"),
    ).collect()
    known = pl.col("ride").is_between(0, rides - 1)
    kinds = (
        values.drop_nulls("kind")
        .group_by("kind")
        .agg(
            pl.len().alias("events"),
            pl.col("ride").filter(known).n_unique().alias("rides"),
            (~known).sum().alias("strangers"),
        )
        .collect()
    )
    money = (
        values.filter(pl.col("kind") == KINDS[DROPPED_OFF])
        .group_by("zone", pl.col("at").dt.truncate("1m").dt.epoch("ms").alias("minute_ms"))
        .agg(pl.len(), pl.col("fare_cents", "tip_cents", fee).sum())
        .collect()
    )
    return Table(
        *map(int, whole.row(0)),
        kinds={kind: Kind(*counts) for kind, *counts in kinds.iter_rows()},
        money={(zone, minute): Money(*sums) for zone, minute, *sums in money.iter_rows()},
    )


def window_of(value: bytes) -> Window:
    """A record of the topic zone-revenue."""
    return Window(**json.loads(value))


# ---- compared


def judge(events: Events, table: Table, windows: Iterable[Window], letters: int) -> Verdict:
    """All of it. So many dead letters were there before they were repaired."""
    expected_money, expected_windows = money_of(events), windows_of(events)
    windows = list(windows)
    lost = doubled = 0
    strangers = table.undecoded
    for number, kind in enumerate(KINDS):
        written = int((events.kind == number).sum())
        found = table.kinds.get(kind, Kind(0, 0, 0))
        lost += written - found.rides
        doubled += found.events - found.strangers - found.rides
        strangers += found.strangers
    money = _wrong_money(expected_money, table.money)
    missing = Counter(expected_windows) - Counter(windows)
    unexpected = Counter(windows) - Counter(expected_windows)
    wrong = sorted({each[:2] for each in (*missing, *unexpected)})
    return Verdict(
        events=events.count,
        lost=lost,
        doubled=doubled,
        strangers=strangers,
        wrong_money=len(money),
        wrong_windows=len(wrong),
        wrong_letters=abs(letters - int((events.written_as == JSON_BY_MISTAKE).sum())),
        places=len(expected_money),
        windows=len(expected_windows),
        letters=letters,
        examples=money[:SHOWN_MAX] + _wrong_windows(wrong, expected_windows, windows),
    )


def _wrong_money(expected: Mapping[Place, Money], found: Mapping[Place, Money]) -> list[str]:
    return [
        f"{place_name(place)}: {found.get(place)} in the table, {expected.get(place)} driven"
        for place in sorted(expected.keys() | found.keys())
        if expected.get(place) != found.get(place)
    ]


def _wrong_windows(wrong: list[Place], expected: list[Window], found: list[Window]) -> list[str]:
    lines = []
    for place in wrong[:SHOWN_MAX]:
        there = [each[2:] for each in found if each[:2] == place]
        wanted = [each[2:] for each in expected if each[:2] == place]
        lines.append(f"{place_name(place)}: windows (rides, cents) {there}, must be {wanted}")
    return lines


def place_name(place: Place) -> str:
    """`Midtown Center 08:07`"""
    zone, minute_ms = place
    minute = minute_ms // MINUTE_MS
    name = ZONES[zone][0] if zone in ZONES else f"zone {zone}"
    return f"{name} {minute // 60 % 24:02}:{minute % 60:02}"


def left_out(events: Events) -> Money:
    """What the windows do not have, because it came or was repaired after they were closed."""
    late = (events.written_as != AVRO) & (events.written_as != CLOSING)
    return total(money_of(events.where(late)).values())


def total(money: Iterable[Money]) -> Money:
    return Money(*map(sum, zip(Money(0, 0, 0, 0), *money, strict=True)))
