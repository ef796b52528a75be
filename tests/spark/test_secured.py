"""Spark against a cluster that wants TLS and a login: all of it works, and the password is nowhere
that Spark shows."""

import contextlib
import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from support.pipelines import Home, quick
from support.spark_story import plans_of, refused, write
from tidelog.config.properties import write_properties
from tidelog.spark.failure import words_of
from tidelog.testing import Cluster

WRONG = "not-the-password"
ENDS_WITHIN_S = 60


class Story(NamedTuple):
    """What came of one run, and all that Spark showed of it."""

    read: list[str]
    copied: list[str]
    plans: str
    progress: str
    log: str


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def secured(directory):
    with Cluster(brokers=1, secure=True, directory=directory) as running:
        yield running


@pytest.fixture(scope="module")
def login(secured, directory):
    """Options of a reader or a writer, from the file that a secured cluster has for Spark."""
    return json.loads((directory / "secure/users/admin/spark.json").read_text())


@pytest.fixture(scope="module")
def password(login):
    found = re.search(r'password="([^"]+)"', login["kafka.sasl.jaas.config"])
    assert found is not None, "a login without a password"
    return found[1]


@pytest.fixture(scope="module")
def key(directory, secured):
    """A private key and its certificate, as texts that can stand in options."""
    text = (directory / "secure/nodes/1/node.pem").read_text()
    key, chain = re.findall(r"(-----BEGIN (.+?)-----.+-----END \2-----)", text, re.DOTALL)
    assert "PRIVATE KEY" in key[1], key[1]
    return {
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.key": key[0],
        "kafka.ssl.keystore.certificate.chain": chain[0],
    }


@pytest.fixture
def wrong_login(login, password):
    jaas = login["kafka.sasl.jaas.config"].replace(password, WRONG)
    return {**login, "kafka.sasl.jaas.config": jaas}


@contextlib.contextmanager
def logged_into(spark, path):
    """Everything that Spark logs, down to what it tells its developers."""
    log4j = spark._jvm.org.apache.logging.log4j
    levels = {name: getattr(log4j.Level, name) for name in ("DEBUG", "OFF")}
    context = log4j.LogManager.getContext(False)
    root = context.getConfiguration().getRootLogger()
    layout = log4j.core.layout.PatternLayout.createDefaultLayout()
    builder = log4j.core.appender.FileAppender.newBuilder()
    appender = builder.withFileName(str(path)).setName("story").setLayout(layout).build()
    appender.start()
    others = dict(root.getAppenders())
    for name in others:
        root.removeAppender(name)
    root.addAppender(appender, levels["DEBUG"], None)
    root.setLevel(levels["DEBUG"])
    context.updateLoggers()
    try:
        yield
    finally:
        root.removeAppender("story")
        for other in others.values():
            root.addAppender(other, None, None)
        root.setLevel(levels["OFF"])
        context.updateLoggers()
        appender.stop()


def values(frame):
    return sorted(row.value for row in frame.selectExpr("cast(value as string) AS value").collect())


def read(spark, login, topic, connector="tidelog"):
    return spark.read.format(connector).options(**login, subscribe=topic).load()


def copy(spark, given, source, target, checkpoint):
    """What is there, exactly once into another topic. The query, which has ended."""
    stream = spark.readStream.format("tidelog").options(**given, subscribe=source)
    query = (
        stream.option("startingOffsets", "earliest")
        .load()
        .select("value")
        .writeStream.format("tidelog")
        .options(**given, topic=target, sinkId=target, checkpointLocation=str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(ENDS_WITHIN_S), "the query does not end"
    return query


@pytest.fixture(scope="module")
def story(spark, secured, login, key, tmp_path_factory):
    """A batch is written and read back, and a stream copies it twice with one checkpoint."""
    home = tmp_path_factory.mktemp("secured")
    source, target = secured.topic("said", partitions=2), secured.topic("heard", partitions=2)
    login = {**login, **key}
    spark.conf.set("spark.sql.ui.explainMode", "extended")
    with quick(spark), logged_into(spark, home / "spark.log"):
        rows = spark.range(5).selectExpr("cast(id AS string) AS value")
        rows.write.format("tidelog").options(**login, topic=source).mode("append").save()
        frame = read(spark, login, source)
        found = values(frame)
        query = copy(spark, login, source, target, home / "checkpoint")
        copy(spark, login, source, target, home / "checkpoint")
        copied = values(read(spark, login, target))
    spark.conf.unset("spark.sql.ui.explainMode")
    own = [frame._jdf.queryExecution().toString(), query._jsq.explainInternal(True)]
    progress = "\n".join(each.json for each in query.recentProgress)
    log = (home / "spark.log").read_text("utf-8")
    return Story(found, copied, "\n".join([plans_of(spark), *own]), progress, log)


def test_batches_and_streams_are_read_and_written_with_tls_and_a_login(story):
    assert story.read == ["0", "1", "2", "3", "4"]
    assert story.copied == story.read


def test_no_secret_is_in_a_plan_in_progress_or_in_a_log(story, password, key):
    secrets = [password, *key["kafka.ssl.keystore.key"].splitlines()[1:-1]]
    for shown, known in (
        (story.plans, "kafka.security.protocol=SASL_SSL"),
        (story.progress, "said"),
        (story.log, "MicroBatchExecution"),
    ):
        assert known in shown  # it is the text that it should be
        assert not [each for each in secrets if each in shown]


def test_a_wrong_password_ends_a_batch_and_is_not_told(spark, secured, login, wrong_login):
    topic = secured.topic("guarded", partitions=1)
    rows = spark.range(1).selectExpr("cast(id AS string) AS value")
    writer = rows.write.format("tidelog").options(**wrong_login, topic=topic).mode("append")
    for attempt in (read(spark, wrong_login, topic).collect, writer.save):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever Spark makes of it
            attempt()
        assert "SASL_AUTHENTICATION_FAILED (58)" in (words_of(caught.value) or "")
        assert "check kafka.sasl.mechanism" in (words_of(caught.value) or "")
        assert WRONG not in str(caught.value)
    assert values(read(spark, login, topic)) == []


def test_a_wrong_password_ends_a_stream(spark, secured, wrong_login, tmp_path):
    topic = secured.topic("not-streamed", partitions=1)
    with refused("SASL_AUTHENTICATION_FAILED (58)"):
        copy(spark, wrong_login, topic, topic, tmp_path / "checkpoint")


def test_a_certificate_that_nobody_vouches_for_is_told(spark, secured, login):
    trusting = {name: value for name, value in login.items() if "truststore" not in name}
    with refused("check kafka.ssl.truststore.location"):
        read(spark, trusting, secured.topic("untrusted", partitions=1)).collect()


def test_a_table_of_the_catalog_keeps_no_secret(spark, secured, login, password):
    topic = secured.topic("tabled", partitions=1)
    write(secured, topic, [7])

    def create(given):
        listed = ", ".join(f"`{name}` '{value}'" for name, value in given.items())
        spark.sql(f"CREATE TABLE guarded USING tidelog OPTIONS ({listed}, subscribe '{topic}')")

    with refused("kafka.sasl.jaas.config is a secret"):
        create(login)
    create({name: value for name, value in login.items() if "jaas" not in name})
    try:
        secret = "kafka.sasl.jaas.config"
        table = spark.read.option(secret, login[secret]).table("guarded")
        assert values(table) == ["7"]
        described = spark.sql("DESCRIBE TABLE EXTENDED guarded").collect()
        assert password not in str([*described, table.schema.json()])
    finally:
        spark.sql("DROP TABLE guarded")


def test_pipelines_log_in_with_the_properties_of_a_client(
    spark, secured, login, password, tmp_path
):
    topic = secured.topic("piped", partitions=1)
    write(secured, topic, range(3))
    config = tmp_path / "client.properties"
    config.write_text(write_properties(secured.client_properties))
    at, lake = secured.bootstrap_servers, tmp_path / "lake"
    mirror = ("mirror", topic, "--from", at, "--to", at, "--prefix", "copy.", "--once")
    archive = ("archive", topic, "--to", str(lake), "--format", "parquet", "--once")
    with quick(spark):
        home = Home(tmp_path / "pipelines")
        (batch,) = home.batches(*mirror, "--from-config", str(config), "--to-config", str(config))
        assert batch["rows_in"] == 3
        (batch,) = home.batches(*archive, "--command-config", str(config))
        assert batch["rows_out"] == 3
    assert values(read(spark, login, f"copy.{topic}")) == ["0", "1", "2"]
    assert password not in everything_below(tmp_path / "pipelines")


def everything_below(directory: Path) -> str:
    """All files there: checkpoints, state and logs."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files, directory
    return "\n".join(path.read_text("utf-8", errors="replace") for path in files)


def test_the_stock_connector_reads_what_ours_wrote(spark, login, story, stock_jars):
    if isinstance(stock_jars, str):
        pytest.skip(stock_jars)
    assert values(read(spark, login, "said", connector="kafka")) == story.read
