"""Topics kept as tables, against a real cluster, through the command."""

import datetime as dt
import shutil
from pathlib import Path

import pytest

from support.pipelines import Home, quick
from support.spark_story import write, write_records
from tidelog.client import NewRecord
from tidelog.spark.tables.forms import read_table
from tidelog.spark.tables.words import TableSpec


@pytest.fixture
def home(tmp_path, spark):
    """The shared session is the one that commands find."""
    with quick(spark):
        yield Home(tmp_path / "pipelines")


def offsets(spark, spec):
    found = read_table(spark, spec).select("topic", "partition", "offset").collect()
    return sorted((each.topic, each.partition, each.offset) for each in found)


@pytest.mark.long
def test_an_archive_goes_on_where_it_was_and_has_every_record_once(home, cluster, spark, tmp_path):
    topic = cluster.topic("archived", partitions=2)
    write(cluster, topic, range(10))
    write(cluster, topic, range(3), partition=1)
    spec = TableSpec(str(tmp_path / "lake"), "delta", ("topic", "date"))
    given = ["archive", topic, "--to", spec.path, "--partition-by", "topic,date", "--once"]
    given += ["-b", cluster.bootstrap_servers]
    first = home.done(*given, "--max-records", "8").stdout.splitlines()
    assert len(first) == 2
    assert first[0].startswith("batch 0 · archived-0 [start, 5), archived-1 [start, 2) → ")
    assert " · 7 in, 7 out · committed · " in first[0]
    assert first[0].endswith("6 behind")
    write(cluster, topic, range(10, 12))
    (batch,) = home.batches(*given)
    assert (batch["batch"], batch["rows_in"], batch["lag"]) == (2, 2, 0)
    wanted = [(topic, 0, each) for each in range(12)] + [(topic, 1, each) for each in range(3)]
    assert offsets(spark, spec) == wanted
    status = home.status("archive-archived")
    assert (status["kind"], status["state"]) == ("archive", "finished")
    assert status["progress"]["batch"] == 2
    assert status["arguments"]["topics"] == [topic]
    refuses_what_would_double_or_lose(home, given, Path(spec.path))


def refuses_what_would_double_or_lose(home, given, table):
    """A checkpoint and its table belong together, and to their options."""
    again = home.run(*given, "--name", "again")
    assert again.code == 1
    assert "has rows, and again has no checkpoint" in again.stderr
    other = home.run(*given, "--partition-by", "date")
    assert "belongs to other arguments: --partition-by topic,date → date" in other.stderr
    assert "Spark" not in other.stderr, "nothing was started"
    shutil.rmtree(table)
    lost = home.run(*given)
    assert lost.code == 1
    assert "has written 3 batches, and there is no table" in lost.stderr
    assert f"{home.status('archive-archived')['name']} to begin anew" in lost.stderr
    assert "has written 3 batches" in home.status("archive-archived")["progress"]["error"]


def test_a_row_has_everything_that_its_record_had(home, cluster, spark, tmp_path):
    topic = cluster.topic("archived-whole")
    time_ms = 1_714_979_289_123
    headers = (("h", b"x"), ("n", None))
    records = [NewRecord(None, b"k", headers, time_ms), NewRecord(b"v", None, (), time_ms)]
    write_records(cluster, topic, records)
    spec = TableSpec(str(tmp_path / "lake"), "iceberg", ("hour",))
    given = ["archive", topic, "--to", spec.path, "--format", "iceberg", "--partition-by", "hour"]
    home.done(*given, "--once", "-b", cluster.bootstrap_servers)
    table = read_table(spark, spec)
    row, other = table.orderBy("offset").collect()
    assert (other.value, other.headers) == (b"v", None), "null, as the source has it"
    assert table.schema["headers"].nullable
    assert (row.key, row.value, row.topic, row.partition, row.offset) == (b"k", None, topic, 0, 0)
    assert row.headers == [("h", b"x"), ("n", None)]
    assert row.timestamp.replace(tzinfo=dt.UTC).timestamp() * 1000 == time_ms
    assert (row.timestampType, row.hour) == (0, 7)


@pytest.mark.long
def test_values_that_are_json_have_fields_and_one_that_is_not_ends_the_run(
    home, cluster, spark, tmp_path
):
    topic = cluster.topic("archived-json")
    write_records(cluster, topic, [NewRecord(b'{"id": 7, "name": "ann"}')])
    spec = TableSpec(str(tmp_path / "lake"), "parquet")
    given = ["archive", topic, "--to", spec.path, "--format", "parquet", "--once"]
    given += ["--value-format", "json", "--schema", "id BIGINT, name STRING"]
    given += ["-b", cluster.bootstrap_servers]
    home.done(*given)
    write_records(cluster, topic, [NewRecord(b"{}"), NewRecord(b"oops")])
    ran = home.run(*given)
    assert ran.code == 1
    assert "at offset 2 of archived-json-0 is no JSON" in ran.stderr
    assert [each.value for each in read_table(spark, spec).collect()] == [(7, "ann")]
    failed = home.status("archive-archived-json")
    assert failed["state"] == "failed"
    assert "at offset 2" in failed["progress"]["error"]
    assert "at offset 2" in home.done("status").stdout
