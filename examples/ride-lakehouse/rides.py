"""Rides of an invented taxi company in New York: which events there are, and what they cost.

Everything follows from a seed. The producer writes these events; whoever checks the tables later
has them too and compares. Money is in whole cents from the beginning to the end.

A ride has three events: requested, picked up, dropped off; the last one has fare and tip. Events
are spread evenly: with 50,000 per second, one second of the producer is one minute of the city.
"""

import io
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from fastavro import parse_schema, schemaless_writer

KINDS = ("requested", "picked_up", "dropped_off")
DROPPED_OFF = 2
# Numbers and names of the city's taxi zones, and whether entering costs a congestion fee.
ZONES = {
    43: ("Central Park", False),
    48: ("Clinton East", True),
    68: ("East Chelsea", True),
    79: ("East Village", True),
    100: ("Garment District", True),
    107: ("Gramercy", True),
    132: ("JFK Airport", False),
    138: ("LaGuardia Airport", False),
    142: ("Lincoln Square East", False),
    161: ("Midtown Center", True),
    162: ("Midtown East", True),
    163: ("Midtown North", True),
    170: ("Murray Hill", True),
    186: ("Penn Station", True),
    230: ("Times Square", True),
    234: ("Union Square", True),
    236: ("Upper East Side North", False),
    237: ("Upper East Side South", False),
    239: ("Upper West Side South", False),
    249: ("West Village", True),
}
ZONE_IDS = np.array(list(ZONES))
HAS_FEE = np.array([fee for _, fee in ZONES.values()])
FEE_CENTS = 75

STARTS_MS = 1_772_438_400_000  # 2026-03-02 08:00 UTC
MINUTE_MS = 60_000
LATE_SHARE = 0.005
LATE_MS = (1 * MINUTE_MS, 5 * MINUTE_MS)
WATERMARK_MINUTES = 10
"""More than events are late, and than the producer lets one partition fall behind another."""
SPECIAL_SHARE = 1 / 50_000
SPECIAL_MIN = 5
NO_FEE = -1

# How an event is written.
AVRO, JSON_BY_MISTAKE, AFTER_CLOSING, CLOSING = range(4)


class Size(NamedTuple):
    """How much there is of everything."""

    rate: int = 50_000
    seconds: int = 60
    seed: int = 4711

    @property
    def events(self) -> int:
        """Of the rides of the day; three of the next come behind them."""
        return self.rate * self.seconds // len(KINDS) * len(KINDS)

    @property
    def minutes(self) -> int:
        """A minute of the city per second."""
        return self.seconds


class Events(NamedTuple):
    """One array per field, in the order in which the events are written."""

    ride: np.ndarray
    kind: np.ndarray
    at_ms: np.ndarray
    zone: np.ndarray
    """Its place in ZONE_IDS."""
    fare_cents: np.ndarray
    tip_cents: np.ndarray
    fee_cents: np.ndarray
    """NO_FEE where the event is of version 1, or no drop-off."""
    version: np.ndarray
    written_as: np.ndarray
    late: np.ndarray
    """Whether it is written minutes after it happened."""

    def where(self, chosen: np.ndarray | slice) -> "Events":
        return Events(*(column[chosen] for column in self))

    @property
    def count(self) -> int:
        return len(self.ride)

    def save(self, path: Path) -> None:
        np.savez(path, **self._asdict())


def load_events(path: Path) -> Events:
    with np.load(path) as kept:
        return Events(**{name: kept[name] for name in Events._fields})


def make_events(size: Size) -> Events:
    """All of them: those of the stream, then the three that close it, then those that come
    after that."""
    chance = np.random.default_rng(size.seed)
    rides = size.events // len(KINDS)
    ride, kind, at_ms = _in_order(chance, rides, size)
    zone_of_ride = chance.choice(len(ZONE_IDS), rides, p=_popularity())
    fare_of_ride = 300 + 10 * chance.integers(20, 600, rides) + chance.integers(0, 10, rides)
    tips = chance.random(rides) < 0.7
    tip_of_ride = np.where(tips, fare_of_ride * chance.integers(10, 26, rides) // 100, 0)

    late = chance.random(size.events) < LATE_SHARE
    written_ms = at_ms + np.where(late, chance.integers(*LATE_MS, size.events), 0)
    order = np.argsort(written_ms, kind="stable")
    ride, kind, at_ms, late = ride[order], kind[order], at_ms[order], late[order]

    done = kind == DROPPED_OFF
    version = np.where(np.arange(size.events) < size.events // 2, 1, 2)
    written_as = np.full(size.events, AVRO)
    special = max(SPECIAL_MIN, int(size.events * SPECIAL_SHARE))
    later, earlier = np.flatnonzero(done & (version == 2)), np.flatnonzero(done & (version == 1))
    written_as[chance.choice(later, special, replace=False)] = JSON_BY_MISTAKE
    written_as[chance.choice(earlier, special, replace=False)] = AFTER_CLOSING
    version[written_as == AFTER_CLOSING] = 2
    zone = zone_of_ride[ride]
    fee = np.where(done & (version == 2), np.where(HAS_FEE[zone], FEE_CENTS, 0), NO_FEE)
    fare, tip = np.where(done, fare_of_ride[ride], 0), np.where(done, tip_of_ride[ride], 0)
    day = Events(ride, kind, at_ms, zone, fare, tip, fee, version, written_as, late)
    missed = day.written_as == AFTER_CLOSING
    parts = day.where(~missed), _closing(size), day.where(missed)
    return Events(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _in_order(
    chance: np.random.Generator, rides: int, size: Size
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ride, kind and time of every event. The times are drawn and then spread evenly, so there
    are as many in each minute."""
    requested = chance.uniform(0, size.minutes, rides)
    picked_up = requested + chance.uniform(1, 8, rides)
    dropped_off = picked_up + chance.gamma(4, 3, rides)
    order = np.argsort(np.concatenate([requested, picked_up, dropped_off]), kind="stable")
    spread = np.arange(size.events) * (size.minutes * MINUTE_MS) // size.events
    return order % rides, order // rides, STARTS_MS + spread


def _popularity() -> np.ndarray:
    weights = 1 / np.arange(2, len(ZONE_IDS) + 2)
    return weights / weights.sum()


def _closing(size: Size) -> Events:
    """A ride an hour later. It moves the watermark beyond all that was before."""
    at_ms = STARTS_MS + (size.minutes + 60) * MINUTE_MS
    count = len(KINDS)
    last = np.arange(count) == DROPPED_OFF
    return Events(
        ride=np.full(count, size.events // count),
        kind=np.arange(count),
        at_ms=np.full(count, at_ms),
        zone=np.zeros(count, int),
        fare_cents=np.where(last, 1_000, 0),
        tip_cents=np.zeros(count, int),
        fee_cents=np.where(last, 0, NO_FEE),
        version=np.full(count, 2),
        written_as=np.full(count, CLOSING),
        late=np.zeros(count, bool),
    )


# ---- as bytes

_OPTIONAL = {"type": ["null", "long"], "default": None}
FIELDS = [
    {"name": "ride", "type": "long"},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": list(KINDS)}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "zone", "type": "int"},
    {"name": "fare_cents", **_OPTIONAL},
    {"name": "tip_cents", **_OPTIONAL},
]
NEW_FIELD = {"name": "congestion_fee_cents", **_OPTIONAL}
SCHEMAS = {
    version: {"type": "record", "name": "RideEvent", "namespace": "rides", "fields": fields}
    for version, fields in {1: FIELDS, 2: [*FIELDS, NEW_FIELD]}.items()
}


def as_records(events: Events) -> list[dict]:
    """One dict per event, as the schemas want them."""
    zones = ZONE_IDS[events.zone]
    columns = (events.ride, events.kind, events.at_ms, zones, *events[4:7], events.version)
    records = []
    for ride, kind, at, zone, fare, tip, fee, version in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        record = {"ride": ride, "kind": KINDS[kind], "at": at, "zone": zone}
        if kind == DROPPED_OFF:
            record["fare_cents"], record["tip_cents"] = fare, tip
            if version == 2:
                record["congestion_fee_cents"] = fee
        records.append(record)
    return records


class AvroValues:
    """Values as serializers with a registry write them: a zero byte, the id of the schema, Avro.

    confluent_kafka's AvroSerializer writes the same bytes and asks the registry by itself; this
    one does less per value, for 50,000 in a second.
    """

    def __init__(self, version: int, schema_id: int) -> None:
        self._schema = parse_schema(SCHEMAS[version])
        self._head = b"\0" + schema_id.to_bytes(4, "big")
        self._buffer = io.BytesIO()

    def __call__(self, record: dict) -> bytes:
        buffer = self._buffer
        buffer.seek(0)
        buffer.truncate()
        buffer.write(self._head)
        schemaless_writer(buffer, self._schema, record)
        return buffer.getvalue()


def as_json(record: dict) -> bytes:
    """What one version of the drivers' app writes by mistake."""
    return json.dumps(record).encode()
