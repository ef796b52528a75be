"""The generator and the accounts of examples/ride-lakehouse: what they must find wrong."""

import io
import json
from importlib import import_module

import fastavro
import numpy as np
import polars as pl
import pytest

from support.tidy.source import ROOT


@pytest.fixture(scope="module")
def example():
    """Its modules, as its programs import each other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples/ride-lakehouse"))
        yield {name: import_module(name) for name in ("rides", "accounts", "report")}


@pytest.fixture(scope="module")
def rides(example):
    return example["rides"]


@pytest.fixture(scope="module")
def accounts(example):
    return example["accounts"]


@pytest.fixture(scope="module")
def events(rides):
    return rides.make_events(rides.Size(rate=600, seconds=20))


@pytest.fixture(scope="module")
def driven(rides, events):
    """Rows of a table that has everything, as the archive makes them."""
    records = rides.as_records(events)
    at = pl.col("at").cast(pl.Datetime("ms", "UTC"))
    whole = pl.DataFrame(records, schema=[*records[0], *MONEY], infer_schema_length=None)
    return whole.with_columns(at)


MONEY = ("fare_cents", "tip_cents", "congestion_fee_cents")


def judged(accounts, events, values, windows=None, letters=5):
    rows = values.select(pl.struct(pl.all()).alias("value")).lazy()
    table = accounts.table_of(rows, events.count // 3)
    return accounts.judge(events, table, windows or accounts.windows_of(events), letters)


def test_the_same_seed_makes_the_same_rides(rides, events):
    again = rides.make_events(rides.Size(rate=600, seconds=20))
    assert all(np.array_equal(one, other) for one, other in zip(events, again, strict=True))
    other = rides.make_events(rides.Size(rate=600, seconds=20, seed=1))
    assert not np.array_equal(events.fare_cents, other.fare_cents)


def test_events_outlive_a_file(rides, events, tmp_path):
    events.save(tmp_path / "events.npz")
    kept = rides.load_events(tmp_path / "events.npz")
    assert all(np.array_equal(one, other) for one, other in zip(events, kept, strict=True))


def test_every_ride_is_requested_then_picked_up_then_dropped_off(rides, events):
    assert events.count == 600 * 20 + 3
    order = np.lexsort((events.kind, events.ride))
    assert events.kind[order].reshape(-1, 3).tolist() == [[0, 1, 2]] * (events.count // 3)
    assert (np.diff(events.at_ms[order].reshape(-1, 3)) >= 0).all()
    assert (events.fare_cents[events.kind != rides.DROPPED_OFF] == 0).all()
    assert (events.fare_cents[events.kind == rides.DROPPED_OFF] > 0).all()


def test_late_events_are_late_and_never_beyond_the_watermark(rides, events):
    """A stream that reads all partitions to the same point has seen nothing that is younger than
    a late event by more than the watermark."""
    stream = events.where(np.isin(events.written_as, (rides.AVRO, rides.JSON_BY_MISTAKE)))
    behind_ms = np.maximum.accumulate(stream.at_ms) - stream.at_ms
    assert stream.late.sum() > 10
    assert (behind_ms[stream.late] > 0).mean() > 0.9  # the last ones are followed by nothing
    assert (behind_ms[~stream.late] == 0).all()
    assert behind_ms.max() <= rides.LATE_MS[1]
    closing = events.at_ms[events.written_as == rides.CLOSING]
    assert (closing - stream.at_ms.max() > rides.WATERMARK_MINUTES * rides.MINUTE_MS).all()


def test_values_are_what_readers_of_avro_expect(rides, events):
    record = next(
        each
        for each, form in zip(rides.as_records(events), events.written_as.tolist(), strict=True)
        if form == rides.JSON_BY_MISTAKE
    )
    value = rides.AvroValues(2, 77)(record)
    assert value[:5] == b"\0" + (77).to_bytes(4, "big")
    schema = fastavro.parse_schema(rides.SCHEMAS[2])
    found = fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None)
    assert {**found, "at": record["at"]} == record
    assert json.loads(rides.as_json(record)) == record


def test_the_field_of_version_2_is_there_from_half_time_on(rides, events):
    records = rides.as_records(events)
    has_fee = ["congestion_fee_cents" in each for each in records]
    ended = events.kind == rides.DROPPED_OFF
    assert has_fee == (ended & (events.version == 2)).tolist()
    assert not any(has_fee[:2000])


def test_a_table_that_has_everything_holds(accounts, events, driven):
    verdict = judged(accounts, events, driven)
    assert verdict.holds, verdict
    assert verdict.events == driven.height
    assert verdict.examples == []


def test_one_lost_cent_is_found(accounts, events, driven):
    ended = driven.with_row_index().filter(pl.col("fare_cents").is_not_null())["index"][17]
    wrong = driven.with_row_index().with_columns(
        pl.col("fare_cents") - pl.when(pl.col("index") == ended).then(1).otherwise(0)
    )
    verdict = judged(accounts, events, wrong.drop("index"))
    assert not verdict.holds
    assert (verdict.wrong_money, verdict.lost, verdict.doubled) == (1, 0, 0)
    assert "driven" in verdict.examples[0]


def test_a_cent_that_moves_to_another_field_is_found(accounts, events, driven):
    """Fare and tip together are still right."""
    ended = driven.with_row_index().filter(pl.col("tip_cents") > 0)["index"][5]
    here = pl.when(pl.col("index") == ended).then(1).otherwise(0)
    wrong = driven.with_row_index().with_columns(
        pl.col("fare_cents") + here, pl.col("tip_cents") - here
    )
    assert judged(accounts, events, wrong.drop("index")).wrong_money == 1


def test_a_doubled_ride_is_found(accounts, events, driven):
    ride = driven.filter(pl.col("ride") == 5)
    verdict = judged(accounts, events, pl.concat([driven, ride]))
    assert not verdict.holds
    assert (verdict.doubled, verdict.lost, verdict.wrong_money) == (3, 0, 1)


def test_a_lost_ride_is_found_even_if_another_one_is_there_twice(accounts, events, driven):
    requested = driven.filter(pl.col("kind") == "requested")
    lost, twice = requested.row(3, named=True)["ride"], requested.row(4, named=True)["ride"]
    others = driven.filter(~((pl.col("ride") == lost) & (pl.col("kind") == "requested")))
    again = requested.filter(pl.col("ride") == twice)
    verdict = judged(accounts, events, pl.concat([others, again]))
    assert (verdict.lost, verdict.doubled, verdict.wrong_money) == (1, 1, 0)
    assert not verdict.holds


def test_rides_that_never_were_and_values_that_are_none_are_found(accounts, events, driven):
    stranger = driven.head(1).with_columns(ride=pl.lit(events.count))
    nothing = driven.head(1).with_columns(pl.lit(None).alias(name) for name in driven.columns)
    verdict = judged(
        accounts, events, pl.concat([driven, stranger, nothing], how="vertical_relaxed")
    )
    assert verdict.strangers == 2
    assert not verdict.holds


@pytest.mark.parametrize("wrong", ["missing", "twice", "a cent less", "never over"])
def test_a_wrong_window_is_found(accounts, events, driven, wrong):
    windows = accounts.windows_of(events)
    first = windows[0]
    found = {
        "missing": windows[1:],
        "twice": [*windows, first],
        "a cent less": [first._replace(cents=first.cents - 1), *windows[1:]],
        "never over": [*windows, first._replace(minute_ms=first.minute_ms + 3_600_000)],
    }[wrong]
    verdict = judged(accounts, events, driven, found)
    assert verdict.wrong_windows == 1
    assert not verdict.holds
    assert "windows (rides, cents)" in verdict.examples[0]


def test_a_dead_letter_too_few_is_found(accounts, events, driven):
    verdict = judged(accounts, events, driven, letters=4)
    assert verdict.wrong_letters == 1
    assert not verdict.holds


def test_what_windows_leave_out_is_what_came_too_late(accounts, rides, events):
    whole = accounts.total(accounts.money_of(events).values())
    missed = accounts.left_out(events)
    closing = accounts.total(
        accounts.money_of(events.where(events.written_as == rides.CLOSING)).values()
    )
    in_time = sum(each.cents for each in accounts.windows_of(events))
    assert missed.rides == 2 * rides.SPECIAL_MIN
    assert in_time + missed.revenue_cents + closing.revenue_cents == whole.revenue_cents


def test_money_is_written_without_a_float(example):
    assert example["report"].dollars(123_456_789_012_345_607) == "$1,234,567,890,123,456.07"
