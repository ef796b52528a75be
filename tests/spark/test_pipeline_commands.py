"""What `tidelog pipeline` says when it cannot do what was asked, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.pipelines import Home, quick
from support.spark_story import write
from tidelog.cli.main import cli
from tidelog.spark.pipelines.batches import batch_of, line
from tidelog.spark.pipelines.state import PipelineState
from tidelog.spark.tables.forms import read_table
from tidelog.spark.tables.words import TableSpec

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "pipelines")


@pytest.fixture
def archive(cluster, tmp_path):
    """A command that would work."""
    topic = "commanded"
    if "commanded" not in cluster.ask(lambda client: client.view()).topics:
        cluster.topic(topic)
    return ["archive", topic, "--to", str(tmp_path / "lake"), "-b", cluster.bootstrap_servers]


def in_a_process(home, arguments, **environment):
    """As a shell runs it: with its own Java, or without one."""
    given = ["pipeline", *arguments, "--state-dir", str(home.directory)]
    return subprocess.Popen(
        [sys.executable, "-m", "tidelog", *given],
        env={**os.environ, "PYTHONPATH": str(SOURCE), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def refused(ran, code, *texts):
    assert ran.code == code, ran.stderr
    for text in texts:
        assert text in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 3, ran.stderr


def test_a_topic_that_is_not_there_is_told_with_a_guess(home, cluster, archive):
    archive[1] = "comanded"
    refused(home.run(*archive), 1, "UNKNOWN_TOPIC_OR_PARTITION", "did you mean commanded?")


def test_brokers_that_cannot_be_reached_are_told(home, tmp_path):
    given = ["archive", "orders", "--to", str(tmp_path), "-b", "127.0.0.1:1", "--timeout", "1s"]
    refused(home.run(*given), 3, "127.0.0.1:1 cannot be reached")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--format", "orc"], "'orc' is not one of 'delta', 'parquet', 'iceberg'"),
        (["--partition-by", "colour"], "cannot be partitioned by colour"),
        (["--partition-by", "date,date"], "named twice"),
        (["--conf", "spark.executor.memory"], "wrong value for --conf"),
        (["--value-format", "json"], "belong together"),
        (["--schema", "id BIGINT"], "belong together"),
        (["--name", "../up"], "it names a directory"),
        (["--to", "hdfs://name/orders"], "there are no tables at hdfs://"),
        (["--to", __file__], "a table is a directory, or a place in an object store"),
        (["--to", "s3://lake/orders", "--format", "parquet"], "a store has no rename"),
        (["--to", "s3://lake/orders", "--format", "iceberg"], "needs a catalog"),
        (["--to", "s3://lake/o", "--store-option", "aws_regoin=x"], "did you mean AWS_REGION"),
        (["--catalog", "http://localhost:8181"], "belong together"),
        (["--table", "shop.orders"], "are for a catalog"),
        (["--every", "often"], "--every"),
    ],
)
def test_wrong_use_is_told_before_anything_is_started(home, archive, more, text):
    refused(home.run(*archive, *more), 2, text)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--format", "parquet"], "cannot follow changes"),
        (["--change-format", "debezium"], "change events of Debezium are not binary"),
        (["--key", "id,id"], "named twice"),
        (["--value-format", "json"], "belong together"),
        (["--buckets", "0"], "--buckets"),
    ],
)
def test_wrong_use_of_upsert_is_told_before_anything_is_started(home, archive, more, text):
    refused(home.run("upsert", *archive[1:], *more), 2, text)


def test_health_needs_brokers_that_write_events(home, cluster):
    ran = home.run("health", "-b", cluster.bootstrap_servers)
    refused(ran, 1, "there is no topic __tidelog_events", "tidelog.events.topic.enable=true")


def test_without_java_one_line_says_so(home, archive, tmp_path):
    path = {"PATH": str(tmp_path), "JAVA_HOME": ""}
    process = in_a_process(home, archive, **path)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "Spark needs Java, and there is no java on the PATH" in told
    assert "Traceback" not in told


def test_a_java_that_is_too_old_is_named(home, archive, tmp_path):
    java = tmp_path / "java-11" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    process = in_a_process(home, archive, JAVA_HOME=str(tmp_path / "java-11"))
    _, told = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "Spark needs Java 17, and" in told
    assert "is Java 11" in told
    assert "Traceback" not in told


def test_a_pipeline_that_runs_is_not_started_twice(home, archive, spark):
    with PipelineState(home.directory / "mine") as state:
        state.begin("archive", {"topics": ["other"]}, spark="local[*]")
        assert home.status("mine")["state"] == "running"
        ran = home.run(*archive, "--once", "--name", "mine")
        assert ran.code == 1
        assert f"runs already, as process {os.getpid()}" in ran.stderr
    assert home.status("mine")["state"] == "failed", "its process is gone"


@pytest.mark.parametrize(
    "command",
    [
        *("archive", "upsert", "mirror", "health", "run", "deploy"),
        *("backfill", "replay-dead-letters", "list", "status"),
    ],
)
def test_every_help_shows_an_example_before_the_options(command):
    shown = CliRunner().invoke(cli, ["pipeline", command, "--help"])
    assert shown.exit_code == 0, shown.stderr
    before_options = shown.stdout.partition("Options:")[0]
    assert f"tidelog pipeline {command}" in before_options.partition("Example")[2]


def test_list_and_status_tell_of_nothing_and_of_what_ran(home):
    assert "archive" in home.done("list").stdout
    assert home.done("status").stdout == ""
    refused(home.run("status", "nobody"), 1, 'no pipeline "nobody"')
    with PipelineState(home.directory / "one") as state:
        state.begin("mirror", {}, spark="local[*]")
        state.note(state="stopped", batch=3, rows_in=1200, rows_out=1200, lag=7)
    assert home.done("status").stdout.splitlines()[1].split()[:6] == [
        *("one", "mirror", "stopped", "3", "1,200", "1,200")
    ]
    document = home.done("list", "-o", "json").document
    assert [each["kind"] for each in document["kinds"]] == [
        *("archive", "upsert", "mirror", "health")
    ]
    assert [each["name"] for each in document["pipelines"]] == ["one"]
    refused(home.run("status", "onne"), 2, 'did you mean "one"?')


def test_a_line_tells_where_a_batch_was_read_and_how_it_went():
    offsets = {"startOffset": '{"orders":{"0":0}}', "endOffset": '{"orders":{"0":1041,"1":9}}'}
    progress = {
        "batchId": 12,
        "numInputRows": 1041,
        "durationMs": {"triggerExecution": 2100},
        "sources": [{**offsets, "latestOffset": '{"orders":{"0":1041,"1":20}}'}],
        "sink": {"numOutputRows": 17},
    }
    assert line(batch_of(progress), "per-minute") == (
        "batch 12 · orders-0 [0, 1041), orders-1 [start, 9) → per-minute"
        " · 1,041 in, 17 out · committed · 2.1 s · 11 behind"
    )
    assert line(batch_of({"batchId": 1, "sources": [{"endOffset": "7"}]}), "x") == (
        "batch 1 · nothing new → x · 0 in · committed · 0.0 s"
    )


@pytest.mark.long
def test_ctrl_c_ends_a_pipeline_cleanly_and_it_can_be_gone_on_with(
    home, cluster, archive, spark, tmp_path
):
    write(cluster, "commanded", range(4))
    sooner = "spark.driver.extraJavaOptions=-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    more = ["--conf", sooner, "--conf", "spark.driver.memory=512m", "--master", "local[1]"]
    process = in_a_process(home, [*archive, *more])
    watchdog = threading.Timer(240, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert " · 4 in, 4 out · committed · " in first, process.communicate(timeout=60)
        assert home.status("archive-commanded")["state"] == "running"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
    assert process.returncode == 130, told
    assert told.strip().splitlines()[-1] == "interrupted"
    assert "Traceback" not in told
    assert "WARN" not in told, "what Spark says is in its log"
    (log,) = home.directory.glob("archive-commanded-*/spark.log")
    assert log.stat().st_size
    assert home.status("archive-commanded")["state"] == "stopped"
    write(cluster, "commanded", range(4, 6))
    with quick(spark):
        (batch,) = home.batches(*archive, "--once")
        assert batch["rows_in"] == 2
        assert home.batches(*archive, "--once") == [], "there is nothing new"
    rows = read_table(spark, TableSpec(str(tmp_path / "lake"), "delta")).collect()
    assert sorted(json.loads(each.value) for each in rows) == list(range(6))


def test_a_state_directory_is_no_object_store(archive):
    ran = Home(Path("s3://lake/states")).run(*archive)
    refused(ran, 2, "wrong value for --state-dir", "--checkpoint s3://bucket/checkpoints/orders")
