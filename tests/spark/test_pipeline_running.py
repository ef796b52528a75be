"""Pipelines from outside: what lag tools, metrics and events say of them, and new topics."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

from support.commands import tidelog
from support.pipelines import Home, quick
from support.spark_story import write, write_records
from tidelog.client import NewRecord
from tidelog.client.groups import GroupAdmin
from tidelog.client.offsets import LATEST, READ_COMMITTED, find_offsets
from tidelog.spark.pipelines import archive, running, state, topics
from tidelog.spark.pipelines.lag_group import LagGroup, usual_group
from tidelog.spark.pipelines.state import described
from tidelog.spark.security_options import Access
from tidelog.spark.tables.forms import read_table
from tidelog.spark.tables.words import TableSpec
from tidelog.testing import Cluster

WITHIN_S = 60
QUICK_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@pytest.fixture
def home(tmp_path, spark):
    with quick(spark):
        yield Home(tmp_path / "pipelines")


def committed(cluster, group):
    found = cluster.ask(lambda client: GroupAdmin(client).committed(group))
    return {where: each.offset for where, each in found.items()}


def events(home, name):
    text = (home.directory / name / "events.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


class Scraper(threading.Thread):
    """Asks a pipeline for its metrics until it says that it has failed."""

    def __init__(self, directory):
        super().__init__()
        self.directory = directory
        self.text = ""
        self.start()

    def run(self):
        deadline = time.monotonic() + WITHIN_S
        while 'state="failed"} 1.0' not in self.text and time.monotonic() < deadline:
            url = described(self.directory).get("metrics")
            if url is None:
                continue
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    self.text = answer.read().decode()
            except urllib.error.URLError:
                continue


def test_a_file_is_run_and_told_of_by_its_group_its_events_and_its_metrics(home, cluster, tmp_path):
    topic = cluster.topic("told", partitions=2)
    write_records(cluster, topic, [NewRecord(b'{"id": 1}', partition=0)] * 3)
    file = tmp_path / "told.toml"
    file.write_text(
        f'kind = "archive"\ntopics = "{topic}"\nto = "{tmp_path / "lake"}"\nname = "told"\n'
        'value-format = "json"\nschema = "id BIGINT"\nmetrics-port = 0\n'
        f'metrics-linger = "{WITHIN_S}s"\nbootstrap = "{cluster.bootstrap_servers}"\n'
    )
    ran = home.done("run", str(file), "--once")
    assert " · 3 in, 3 out · committed · " in ran.stdout
    group = usual_group("told")
    assert committed(cluster, group) == {(topic, 0): 3, (topic, 1): 0}, "also the last batch"
    assert home.status("told")["group"] == group
    assert "told-0" in tidelog(cluster, "group", "describe", group).stdout
    write_records(cluster, topic, [NewRecord(b"oops", partition=1)])
    (home.directory / "told" / "pipeline.json").unlink()  # the address of the run before
    scraper = Scraper(home.directory / "told")
    ran = home.run("run", str(file), "--once")
    scraper.join()
    assert ran.code == 1
    assert 'tidelog_pipeline_failures_total{kind="archive",pipeline="told"} 1.0' in scraper.text
    assert 'state="failed"} 1.0' in scraper.text
    assert 'tidelog_pipeline_restarts_total{kind="archive",pipeline="told"} 1.0' in scraper.text
    assert committed(cluster, group) == {(topic, 0): 3, (topic, 1): 0}, "nothing more is done"
    told = events(home, "told")
    assert [each["event"] for each in told] == [
        *("started", "batch", "finished", "started", "failed")
    ]
    assert (told[1]["rows_in"], told[1]["offsets"]["told-0"]) == (3, 3)
    assert "at offset 0 of told-1" in told[-1]["error"]


@pytest.mark.long
def test_two_tables_of_one_topic_are_two_pipelines(home, cluster, spark, tmp_path):
    topic = cluster.topic("twice")
    write(cluster, topic, range(3))
    for name in ("one", "two"):
        given = ["archive", topic, "--to", str(tmp_path / name), "-b", cluster.bootstrap_servers]
        (batch,) = home.batches(*given, "--once", "--group", "none")
        assert batch["rows_in"] == 3
    known = home.done("list", "-o", "json").document["pipelines"]
    assert len({each["name"] for each in known}) == 2
    assert [each["group"] for each in known] == [None, None]


@pytest.mark.long
def test_topics_that_match_are_read_also_those_that_come_later(spark, cluster, tmp_path):
    first = cluster.topic("shop-orders")
    write(cluster, first, range(2))
    spec = TableSpec(str(tmp_path / "lake"), "delta")
    with quick(spark), state.PipelineState(tmp_path / "shop") as mine:
        mine.begin("archive", {}, spark="tests")
        rows = topics.stream_of(
            spark, topics.Topics(Access(cluster.bootstrap_servers), (), pattern="shop-.*")
        )
        query = archive.start(rows, archive.Archive(spec), mine, running.Pace(False, 100))
        try:
            until_read(query, {first})
            cluster.topic("workshop")
            later = cluster.topic("shop-payments")
            write(cluster, later, range(3))
            until_read(query, {first, later})
        finally:
            query.stop()
        found = read_table(spark, spec).groupBy("topic").count().collect()
    assert {each["topic"]: each["count"] for each in found} == {first: 2, later: 3}


def until_read(query, wanted):
    deadline = time.monotonic() + WITHIN_S
    read = set()
    while read != wanted:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, read
        for progress in query.recentProgress:
            if "addBatch" in progress.durationMs:
                read |= set(json.loads(progress.sources[0].endOffset))
        query.awaitTermination(0.1)


def test_a_group_that_cannot_be_committed_is_told_once_and_stops_nothing(cluster):
    topic = cluster.topic("refused-group")
    told = []
    group = LagGroup(Access("127.0.0.1:1"), "nobody", told.append, try_ms=100)
    group.committed({(topic, 0): 1})
    group.finish()
    assert len(told) == 1
    assert "lag tools do not see it, group nobody is refused" in told[0]


@pytest.mark.long
def test_a_mirror_makes_topics_that_come_later_and_goes_on(home, cluster, tmp_path):
    """In a process, because it ends when it is interrupted."""
    first = cluster.topic("mall-orders", partitions=2)
    write(cluster, first, range(2), partition=1)
    with Cluster(brokers=1) as other:
        given = ["mirror", "--pattern", "mall-.*", "--from", cluster.bootstrap_servers]
        given += ["--to", other.bootstrap_servers, "--every", "200ms", "--master", "local[1]"]
        given += ["--conf", f"spark.driver.extraJavaOptions={QUICK_START}"]
        given += ["--conf", "spark.driver.memory=512m", "--name", "mall"]
        with running_command(home, given) as process:
            until_copied(process, other, {(first, 1): 2})
            later = cluster.topic("mall-payments", partitions=3)
            write(cluster, later, range(4), partition=2)
            until_copied(process, other, {(first, 1): 2, (later, 2): 4})
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 130, told
    assert "made the topic mall-payments" in told
    assert "Traceback" not in told
    assert home.status("mall")["progress"]["restarts"] >= 1


@contextlib.contextmanager
def running_command(home, given):
    process = subprocess.Popen(
        [sys.executable, "-m", "tidelog", "pipeline", *given, "--state-dir", str(home.directory)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(240, process.kill)
    watchdog.start()
    try:
        yield process
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()


def until_copied(process, cluster, wanted):
    """How many committed records there are in these partitions."""

    async def counts(client):
        known = (await client.view()).topics
        there = [where for where in wanted if where[0] in known]
        found = await find_offsets(client, dict.fromkeys(there, LATEST), isolation=READ_COMMITTED)
        return {where: each.offset - 1 for where, each in found.items()}  # and a marker

    while cluster.ask(counts) != wanted:
        assert process.poll() is None, process.communicate()
