"""`tidelog audit`: a run on a real cluster, its history, and the verdict by every way to it."""

import json

import pytest
from click.testing import CliRunner

from tidelog.audit.history import file
from tidelog.audit.history.rows import READ_BACK, SEND
from tidelog.audit.workload import Work
from tidelog.cli.audit.history import HistoryOptions, judged
from tidelog.cli.audit.history_on_spark import judged_with
from tidelog.cli.main import cli
from tidelog.client import Admin, Client
from tidelog.client.offsets import trim


def tidelog(*arguments):
    return CliRunner().invoke(cli, [str(each) for each in arguments])


@pytest.fixture(scope="module")
def audited(cluster, tmp_path_factory):
    """A short run on the cluster of all tests, its history, and the topic it left."""
    path = tmp_path_factory.mktemp("audit") / "history.parquet"
    ran = tidelog(
        "audit", "run", "--for", "2s", "-b", cluster.bootstrap_servers, "--keep", "--history", path
    )
    assert ran.exit_code == 0, ran.output
    return path, ran.stdout


def options(path, **more):
    usual = {"bootstrap": None, "read_back": None, "timeout_ms": 10_000, "spark_url": None}
    return HistoryOptions(path=str(path), conf={}, output="text", **{**usual, **more})


def test_a_run_tells_its_verdict_in_one_line(audited):
    path, text = audited
    verdict = text.splitlines()[0]
    assert verdict.startswith("acknowledged ")
    assert " · lost 0 · duplicated 0 · out of order 0 · aborted but visible 0" in verdict
    rows = file.read(path)
    assert {row.client.partition("-")[0] for row in rows} == {
        "audit",
        "read",
        "reader",
        "transactions",
        "writer",
    }
    assert {row.outcome for row in rows if row.op == SEND} >= {"ok", "fail"}
    assert all(
        row.transaction for row in rows if row.client.startswith("transactions") and row.topic
    )


@pytest.mark.long
def test_every_way_to_the_verdict_says_the_same(audited, cluster, spark, tmp_path):
    path, _ = audited
    rows = file.read(path)
    alone, found = tmp_path / "alone.parquet", tmp_path / "found.parquet"
    file.write(alone, [row for row in rows if row.op != READ_BACK])
    file.write(found, [row for row in rows if row.op == READ_BACK])
    whole = judged(options(path))
    assert whole.holds
    assert whole.totals.aborted > 0
    assert not judged(options(alone)).totals.drained
    from_file = options(alone, read_back=str(found))
    from_brokers = options(alone, bootstrap=cluster.bootstrap_servers)
    assert judged(from_file) == whole
    assert judged(from_brokers) == whole
    assert judged_with(spark, from_brokers) == whole


def test_a_record_that_went_missing_is_named(audited, tmp_path):
    path, _ = audited
    rows = file.read(path)
    lost = next(row for row in rows if row.op == SEND and row.outcome == "ok" and row.offset == 5)
    gone = [row for row in rows if row.op == SEND or row.value != lost.value]
    damaged = tmp_path / "damaged.parquet"
    file.write(damaged, gone)
    judged_there = tidelog("audit", "history", damaged)
    assert judged_there.exit_code == 5
    lines = judged_there.stdout.splitlines()
    assert " · lost 1 · " in lines[0]
    place = f"{lost.topic}-{lost.partition} offset 5 ({lost.client}, operation {lost.operation})"
    assert lines[1].startswith(f"  lost-write: {place}: ")
    assert lines[-1].startswith("NOT OK · ")
    document = json.loads(tidelog("audit", "history", damaged, "-o", "json").stdout)
    assert document["anomalies"]["lost-write"] == 1
    assert (document["findings"][0]["offset"], document["ok"]) == (5, False)


def test_what_was_trimmed_away_is_not_called_lost(audited, cluster):
    path, _ = audited
    rows = file.read(path)
    (topic,) = file.topics_of(rows)

    async def cut(client: Client) -> int:
        return await trim(client, topic, 0, 7)

    assert cluster.ask(cut) == 7
    assert judged(options(path, bootstrap=cluster.bootstrap_servers)).holds


def test_a_topic_that_is_gone_is_said_to_be(audited, cluster):
    """The last of this file: it deletes what the others read."""
    path, _ = audited
    (topic,) = file.topics_of(file.read(path))

    async def delete(client: Client) -> None:
        await Admin(client).delete_topic(topic)

    cluster.ask(delete)
    asked = tidelog("audit", "history", path, "-b", cluster.bootstrap_servers)
    assert asked.exit_code == 1
    assert asked.stderr.startswith(f"error: audit history {path}: UNKNOWN_TOPIC_OR_PARTITION (3)")


def test_the_usual_work_is_what_the_help_says():
    text = tidelog("audit", "run", "--help").stdout
    assert f"[default: {Work('').rate};" in text
