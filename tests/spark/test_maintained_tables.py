"""Tables that are put in order, also while somebody writes into them."""

import json
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tidelog.cli.main import cli
from tidelog.spark.failure import InvalidOption
from tidelog.spark.pipelines import maintenance
from tidelog.spark.pipelines.maintenance import Limits
from tidelog.spark.tables.files import open_file, write_files
from tidelog.spark.tables.forms import open_table
from tidelog.spark.tables.layouts import layout_of
from tidelog.spark.tables.words import BatchFiles, BatchId, TableSpec

SCHEMA = pa.schema([("topic", pa.string()), ("offset", pa.int64()), ("key", pa.binary())])
NOW = Limits(older_than_ms=0)


@pytest.fixture(params=["delta", "iceberg"])
def spec(request, tmp_path):
    made = TableSpec(str(tmp_path / "table"), request.param, ("topic",))
    open_table(made).prepare(SCHEMA)
    return made


def append(spec, number, *, query="q"):
    rows = [{"topic": topic, "offset": number, "key": b"k"} for topic in ("a", "b")]
    batch = BatchId(query, number)
    batches = [pa.RecordBatch.from_pylist(rows, schema=SCHEMA)]
    files = write_files(layout_of(spec, batch), SCHEMA, "part", batches)
    return open_table(spec).commit(SCHEMA, BatchFiles(batch, files))


def offsets(spec):
    found = []
    for file in open_table(spec).files():
        with open_file(spec, file) as source:
            found += pq.read_table(source, columns=["offset"])["offset"].to_pylist()
    return sorted(found)


def compact(spec):
    groups = maintenance.plan(spec, NOW, 0).groups
    return [maintenance.compact(spec, each) for each in groups]


def test_small_files_become_one_for_each_place_and_rows_stay(spec):
    for number in range(4):
        append(spec, number)
    assert len(open_table(spec).files()) == 8
    assert compact(spec) == [True, True]
    assert {each.values for each in open_table(spec).files()} == {
        (("topic", "a"),),
        (("topic", "b"),),
    }
    assert offsets(spec) == sorted([*range(4), *range(4)])
    assert not append(spec, 3), "which batches are in the table is still known"
    assert compact(spec) == []


def test_a_plan_says_what_is_removed_and_nothing_young_is(spec):
    for number in range(3):
        append(spec, number)
    compact(spec)
    written = layout_of(spec, BatchId("q", 9))
    write_files(written, SCHEMA, "not-committed", [pa.RecordBatch.from_pylist([], schema=SCHEMA)])
    (stray,) = write_files(
        written,
        SCHEMA,
        "stray",
        [pa.RecordBatch.from_pylist([{"topic": "a", "offset": 9, "key": None}], schema=SCHEMA)],
    )
    now_ms = int(time.time() * 1000)
    week = Limits()
    assert maintenance.plan(spec, week, now_ms).unused.files == ()
    now_ms += 1000
    planned = maintenance.plan(spec, NOW, now_ms).unused
    assert len(planned.files) == 7, "six files that were put together, and one of no version"
    assert any(stray.name in each for each in planned.files)
    before = offsets(spec)
    assert len(maintenance.clear(spec, NOW, now_ms).files) == 7
    assert offsets(spec) == before
    assert maintenance.plan(spec, NOW, now_ms).unused.files == ()
    assert append(spec, 3)


def test_who_writes_meanwhile_loses_no_batch_and_no_row_is_doubled(spec):
    for number in range(6):
        append(spec, number)
    written, failures = threading.Event(), []

    def write():
        try:
            for number in range(6, 14):
                assert append(spec, number)
        except Exception as error:  # told to the test
            failures.append(error)
        finally:
            written.set()

    writer = threading.Thread(target=write)
    writer.start()
    rounds = 0
    while not written.is_set():
        compact(spec)
        rounds += 1
    writer.join()
    assert failures == []
    assert rounds
    compact(spec)
    assert offsets(spec) == sorted([*range(14), *range(14)])
    assert len(open_table(spec).files()) == 2


def test_two_who_put_the_same_files_together_do_it_once(spec):
    for number in range(2):
        append(spec, number)
    groups = maintenance.plan(spec, NOW, 0).groups
    assert [maintenance.compact(spec, each) for each in groups] == [True, True]
    assert [maintenance.compact(spec, each) for each in groups] == [False, False]
    assert offsets(spec) == [0, 0, 1, 1]


def test_plain_parquet_and_a_table_that_is_not_there_are_refused(tmp_path):
    with pytest.raises(InvalidOption, match="no versions to replace files in"):
        maintenance.plan(TableSpec(str(tmp_path), "parquet"), NOW, 0)
    with pytest.raises(InvalidOption, match="there is no delta table"):
        maintenance.plan(TableSpec(str(tmp_path / "no"), "delta"), NOW, 0)


def test_the_help_shows_an_example_before_the_options():
    told = CliRunner().invoke(cli, ["pipeline", "maintain", "--help"]).stdout
    assert "tidelog pipeline maintain --to" in told.partition("Options:")[0].partition("Example")[2]


def test_the_command_tells_its_plan_and_does_it(spec):
    for number in range(3):
        append(spec, number)
    given = ["pipeline", "maintain", "--to", spec.path, "--format", spec.form]
    dry = CliRunner().invoke(cli, [*given, "--dry-run"])
    assert dry.exit_code == 0, dry.stderr
    assert dry.stdout.startswith("plan: 6 small files in 2 places, 0 snapshots to expire")
    assert len(open_table(spec).files()) == 6
    done = CliRunner().invoke(cli, given)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "2 places put together, 0 snapshots and 0 files gone"
    assert len(open_table(spec).files()) == 2
    told = CliRunner().invoke(cli, [*given, "--older-than", "0s", "-o", "json"])
    plan, counts = map(json.loads, told.stdout.splitlines())
    assert len(plan["plan"]["files"]) == counts["files"] == 6
    assert offsets(spec) == [0, 0, 1, 1, 2, 2]
