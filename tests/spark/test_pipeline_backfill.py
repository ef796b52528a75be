"""`tidelog pipeline backfill` on a real cluster: what an archive lost comes back, as it was."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from support.pipelines import Home, quick
from support.spark_story import write_records
from tidelog.cli.pipeline.backfill import Asked, Held, check_held
from tidelog.client import NewRecord
from tidelog.client.offsets import trim
from tidelog.spark.failure import TidelogError
from tidelog.spark.pipelines.state import PipelineState
from tidelog.survey.positions import END, START, Base, Position


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "pipelines")


def numbers(cluster, topic, values, *, partition=0):
    made = [NewRecord(b'{"id": %d}' % each, partition=partition) for each in values]
    write_records(cluster, topic, made)


def rows(path):
    found = DeltaTable(path).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda each: (each["partition"], each["offset"]))


def test_rows_that_were_lost_come_back_as_they_were_and_the_archive_goes_on(
    home, cluster, spark, tmp_path
):
    topic, path = cluster.topic("trips", partitions=2), str(tmp_path / "lake")
    numbers(cluster, topic, range(20))
    numbers(cluster, topic, range(5), partition=1)
    at = ["-b", cluster.bootstrap_servers]
    given = ["archive", topic, "--to", path, "--partition-by", "partition,hour", "--once", *at]
    given += ["--value-format", "json", "--schema", "id BIGINT", "--name", "mine"]
    with quick(spark):
        home.done(*given)
    before = rows(path)
    DeltaTable(path).delete("(offset >= 3 AND offset < 9) OR partition = 1")
    numbers(cluster, topic, range(20, 23))
    dry = home.done("backfill", "mine", "--dry-run", *at).stdout.splitlines()
    assert dry == [
        "trips-0 [0, 20): 6 offsets without a row, 6 rows missing",
        "trips-1 [0, 5): 5 offsets without a row, 5 rows missing",
        "11 rows would be added",
    ]
    part = home.done("backfill", "mine", "--from", "5", "--until", "7", "-p", "0", *at).stdout
    assert part.splitlines() == [
        "trips-0 [5, 7): 2 offsets without a row",
        f"2 rows added to {path} in 1 commit",
    ]
    rest = home.done("backfill", "mine", "--max-records", "4", *at, "-o", "json").stdout
    assert json.loads(rest.splitlines()[-1]) == {"added": 9, "skipped": 0, "commits": 4}
    assert rows(path) == before
    again = home.done("backfill", "mine", *at).stdout
    assert again.splitlines()[-1] == f"0 rows added to {path} in 0 commits"
    with quick(spark):
        home.done(*given)
    assert [each["value"] for each in rows(path) if each["partition"] == 0] == [
        {"id": each} for each in range(23)
    ]


# ---- what is refused ----


@pytest.fixture
def mine(home, cluster, tmp_path):
    """An archive that has committed two of three records, and has lost its table."""
    topic = "backfill-refused"
    if topic not in cluster.ask(lambda client: client.view()).topics:
        numbers(cluster, cluster.topic(topic), range(3))
    begun(home, "mine", cluster, {topic: {"0": 2}}, topics=[topic], to=str(tmp_path / "lake"))
    return ["backfill", "mine", "-b", cluster.bootstrap_servers]


def begun(home, name, cluster, offsets, *, kind="archive", **arguments):
    async def cluster_id(client):
        return (await client.brokers()).cluster_id

    known = {"cluster_id": cluster.ask(cluster_id), "format": "delta", "partition_by": []}
    with PipelineState(home.directory / name) as state:
        state.begin(kind, {**known, "schema": None, **arguments}, spark="local[*]")
        for part, text in (("offsets", f"v1\n{{}}\n{json.dumps(offsets)}"), ("commits", "v1\n{}")):
            (state.directory / "checkpoint" / part).mkdir(parents=True)
            if offsets:
                Path(state.directory / "checkpoint" / part / "0").write_text(text, "utf-8")


def refused(ran, code, *texts):
    assert ran.code == code, ran.stderr
    for text in texts:
        assert text in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 3, ran.stderr


def test_what_cannot_be_filled_is_told_with_what_to_do(home, mine, cluster):
    refused(home.run(*mine), 1, "there is no delta table at", "start the pipeline")
    refused(home.run(*mine, "--until", "3"), 1, "above what mine has committed", "-p 0 --until 2")
    refused(home.run(*mine, "--from", "soon"), 2, "wrong value for --from: soon", "@-1h")
    refused(home.run(*mine, "-p", "7"), 2, "mine has read the partitions backfill-refused-0")
    refused(home.run(*mine, "--topic", "backfil-refused"), 2, "did you mean", "backfill-refused")
    refused(home.run(*mine, "--registry", "http://h"), 2, "its values have none in a registry")
    refused(home.run("backfill", "mime"), 2, 'no pipeline "mime"', "did you mean")
    begun(home, "new", cluster, {}, topics=["t"], to="/nowhere")
    refused(home.run("backfill", "new", *mine[2:]), 1, "new has committed no batch yet")
    begun(home, "keyed", cluster, {}, kind="upsert", topics=["t"], to="/nowhere")
    refused(home.run("backfill", "keyed"), 2, "keyed is no archive", "a row for each record")
    offsets = {"backfill-refused": {"0": 1}}
    begun(home, "other", cluster, offsets, cluster_id="another", topics=["t"], to="/nowhere")
    refused(home.run("backfill", "other", *mine[2:]), 1, "other reads another cluster: another")
    begun(home, "plain", cluster, offsets, format="parquet", topics=["t"], to="/nowhere")
    refused(home.run("backfill", "plain", *mine[2:]), 2, "a plain directory of Parquet")
    begun(home, "avro", cluster, offsets, value_format="avro", topics=["t"], to="/nowhere")
    refused(home.run("backfill", "avro", *mine[2:]), 2, "its values have schemas", "--registry")


def test_nothing_ran_here_is_told(home):
    refused(home.run("backfill", "mine"), 2, "none ran here", "--state-dir")


def test_offsets_that_the_topic_lost_are_refused_by_number_and_left_out_by_word(
    home, cluster, tmp_path
):
    topic = cluster.topic("backfill-trimmed")
    numbers(cluster, topic, range(9))
    cluster.ask(lambda client: trim(client, topic, 0, 4))
    begun(home, "mine", cluster, {topic: {"0": 8}}, topics=[topic], to=str(tmp_path / "lake"))
    given = ["backfill", "mine", "-b", cluster.bootstrap_servers]
    refused(home.run(*given, "--from", "3"), 1, "backfill-trimmed-0 begins at offset 4", "-p 0")
    refused(home.run(*given, "--from", "start"), 1, "there is no delta table")


def at(offset):
    return Position(Base.OFFSET, offset)


def test_a_range_is_judged_by_what_the_partition_has_and_the_pipeline_has_committed():
    where, held = ("t", 0), Held(first=10, end=100, committed=50)
    check_held(where, held, Asked(START, END), "mine")
    check_held(where, held, Asked(at(10), at(50)), "mine")
    check_held(where, held, Asked(Position(Base.TIME, 1), Position(Base.END, -5)), "mine")
    with pytest.raises(TidelogError, match="begins at offset 10"):
        check_held(where, held, Asked(at(9), END), "mine")
    with pytest.raises(TidelogError, match="--until 51 is above"):
        check_held(where, held, Asked(START, at(51)), "mine")
    with pytest.raises(TidelogError, match="--from 51 is above"):
        check_held(where, held, Asked(at(51), END), "mine")
    with pytest.raises(TidelogError, match="the topic was made anew"):
        check_held(where, held._replace(end=49), Asked(START, END), "mine")
