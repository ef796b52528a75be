"""Topics kept as tables, against a real cluster, through the command."""

import json

import pytest

from support.pipelines import Home
from support.spark_story import write
from tidelog.client import NewRecord, Producer
from tidelog.spark.tables.forms import read_table
from tidelog.spark.tables.words import TableSpec


@pytest.fixture
def home(tmp_path, spark):
    """The shared session is the one that commands find."""
    return Home(tmp_path / "pipelines")


def offsets(spark, spec):
    found = read_table(spark, spec).select("topic", "partition", "offset").collect()
    return sorted((each.topic, each.partition, each.offset) for each in found)


def test_an_archive_goes_on_where_it_was_and_has_every_record_once(home, cluster, spark, tmp_path):
    topic = cluster.topic("archived", partitions=2)
    write(cluster, topic, range(10))
    write(cluster, topic, range(3), partition=1)
    spec = TableSpec(str(tmp_path / "lake"), "delta", ("topic", "date"))
    given = ["archive", topic, "--to", spec.path, "--partition-by", "topic,date", "--once"]
    given += ["-b", cluster.bootstrap_servers]
    first = home.done(*given, "--max-records", "8").stdout.splitlines()
    assert len(first) == 2
    assert first[0].startswith("batch 0 · archived-0 [")
    assert f"→ {spec.path} · 8 in, 8 out · committed · " in first[0]
    write(cluster, topic, range(10, 12))
    (batch,) = home.batches(*given)
    assert (batch["batch"], batch["rows_in"], batch["lag"]) == (2, 2, 0)
    assert home.batches(*given) == []
    wanted = [(topic, 0, each) for each in range(12)] + [(topic, 1, each) for each in range(3)]
    assert offsets(spark, spec) == wanted
    status = home.status("archive-archived")
    assert (status["kind"], status["state"]) == ("archive", "finished")
    assert status["progress"]["batch"] == 2
    assert status["arguments"]["topics"] == [topic]
