"""What topics have led to, kept as tables, against a real cluster, through the command."""

import json
import random

import pytest

from support import change_stream as stream
from support.pipelines import Home, quick
from support.spark_story import write_records
from tidelog.client import NewRecord
from tidelog.spark.tables.forms import read_table
from tidelog.spark.tables.words import TableSpec


@pytest.fixture
def home(tmp_path, spark):
    """The shared session is the one that commands find."""
    with quick(spark):
        yield Home(tmp_path / "pipelines")


def row(number, name):
    return {"id": number, "name": name}


def event(op, lsn, before=None, after=None):
    """As Debezium writes one for PostgreSQL, with its schema left out."""
    source = {"connector": "postgresql", "lsn": lsn, "table": "customers"}
    document = {"op": op, "before": before, "after": after, "source": source, "ts_ms": 1}
    number = (after or before or {}).get("id")
    return NewRecord(json.dumps(document).encode(), json.dumps({"id": number}).encode())


def tombstone(number):
    return NewRecord(None, json.dumps({"id": number}).encode())


@pytest.mark.parametrize("form", ["delta", pytest.param("iceberg", marks=pytest.mark.long)])
def test_a_table_is_what_change_events_have_led_to_however_late_they_come(
    home, cluster, spark, tmp_path, form
):
    topic = cluster.topic(f"customers-{form}")
    write_records(
        cluster,
        topic,
        [
            event("r", 10, after=row(1, "ann")),
            event("r", 10, after=row(2, "bob")),
            event("c", 20, after=row(3, "cyd")),
            event("u", 30, row(1, "ann"), row(1, "anna")),
            event("d", 40, row(2, "bob")),
            tombstone(2),
        ],
    )
    to = str(tmp_path / "lake")
    given = ["upsert", topic, "--to", to, "--format", form, "--change-format", "debezium"]
    given += ["--key", "id", "--value-format", "json", "--schema", "id BIGINT, name STRING"]
    given += ["--once", "--buckets", "2", "-b", cluster.bootstrap_servers]
    home.done(*given)
    spec = TableSpec(to, form, ("tidelog_bucket",))

    def table():
        found = read_table(spark, spec).collect()
        return {each.id: each.name for each in found}, len(found)

    assert table() == ({1: "anna", 3: "cyd"}, 2)
    write_records(
        cluster,
        topic,
        [
            event("u", 25, row(1, "ann"), row(1, "late")),
            event("c", 35, after=row(2, "late")),
            event("u", 50, row(3, "cyd"), row(3, "cid")),
            event("d", 15, row(3, "cyd")),
        ],
    )
    home.done(*given)
    assert table() == ({1: "anna", 3: "cid"}, 2)
    write_records(cluster, topic, [tombstone(3), event("c", 60, after=row(2, "bo"))])
    home.done(*given)
    assert table() == ({1: "anna", 2: "bo", 3: "cid"}, 3)


@pytest.mark.long
@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_table_is_its_source_though_drivers_are_killed(cluster, tmp_path, form):
    topic = cluster.topic(f"source-{form}", partitions=stream.PARTITIONS)
    source = stream.SourceTable(7, 3_000)
    stream.fill(cluster, topic, source, 20_000)
    given = stream.arguments(topic, tmp_path / "lake", form, cluster.bootstrap_servers, batch=4_000)
    outcome = stream.run_with_kills(given, tmp_path / "pipelines", 2, random.Random(7), batches=5)
    assert outcome.kills == 2
    assert outcome.batches >= 5
    found = stream.difference(source, tmp_path / "lake", form)
    assert found == {"missing": 0, "extra": 0, "wrong": 0, "rows": len(source.rows)}
