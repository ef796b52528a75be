"""Tables in Google's object store, on a server of its own process: what is written, and refused."""

import json
import pickle
import threading
import urllib.error
import urllib.request
from collections import Counter

import pytest

from support import gcs_store, spark_story, two_drivers
from support.exactly_once import faults
from support.exactly_once.drivers import Drivers
from support.exactly_once.story import DRIVER, Plan, Run
from support.exactly_once.targets import TableTarget
from support.pipelines import Home, quick
from support.store_tables import SCHEMA, check_checkpoint_files, rows, write
from tidelog.spark.failure import TidelogError
from tidelog.spark.staged_files import listed
from tidelog.spark.staging import INLINE_BYTES, Attempt, Staging, sweep
from tidelog.spark.tables.files import write_files
from tidelog.spark.tables.forms import open_table, read_table
from tidelog.spark.tables.layouts import layout_of
from tidelog.spark.tables.store_options import store_options
from tidelog.spark.tables.stores import Store, located
from tidelog.spark.tables.words import BatchId, CatalogTable, TableSpec
from tidelog.wire.kernel import scan_batches
from tidelog.wire.records import Record, encode

DELTA, ICEBERG = "delta", "iceberg"
AT_ONCE = 20
ROUNDS = 6
SECRET = "a-private-key-that-nobody-may-see"


@pytest.fixture(scope="session")
def store():
    with gcs_store.running_or_skipped() as running:
        yield running


@pytest.fixture(params=[DELTA, ICEBERG])
def table(request, store, tmp_path):
    """A table that is not there yet, of each kind."""
    place = located(store.place(f"tables/{tmp_path.name}"))
    catalog = None
    if request.param == ICEBERG:
        catalog = CatalogTable(f"sqlite:///{tmp_path}/catalog.db", "shop.orders")
    return TableSpec(place, request.param, (), store_options("gs", store.options, {}), catalog)


@pytest.fixture
def key_file(tmp_path, monkeypatch):
    """Of an account whose key is broken: a library finds that out by itself, and asks nobody."""
    name = "GOOGLE_APPLICATION_CREDENTIALS"
    monkeypatch.setenv(name, "")  # and back to what it was, though ours sets it for pyarrow
    monkeypatch.delenv(name)
    key = {
        "type": "service_account",
        "client_email": "nobody@shop.test",
        "private_key_id": "1",
        "private_key": f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n",
        "token_uri": "http://127.0.0.1:1/token",
    }
    path = tmp_path / "key.json"
    path.write_text(json.dumps(key))
    return path


@pytest.mark.parametrize("api", ["JSON", "XML"])
def test_of_many_conditional_uploads_the_server_takes_one(store, api):
    """What commits of Delta rely on; without it the stories of this file would prove nothing."""
    name = f"asked-for-in-{api}"
    if api == "XML":
        request = urllib.request.Request(
            f"{store.endpoint}/{gcs_store.BUCKET}/{name}",
            method="PUT",
            headers={"x-goog-if-generation-match": "0"},
        )
    else:
        asked = f"uploadType=media&ifGenerationMatch=0&name={name}"
        request = urllib.request.Request(
            f"{store.endpoint}/upload/storage/v1/b/{gcs_store.BUCKET}/o?{asked}", method="POST"
        )
    answers = Counter()
    together = threading.Barrier(AT_ONCE)

    def upload():
        together.wait(30)
        try:
            with urllib.request.urlopen(request, b"of one", 30) as answer:
                answers[answer.status] += 1
        except urllib.error.HTTPError as refused:
            answers[refused.code] += 1
            refused.close()

    uploads = [threading.Thread(target=upload) for _ in range(AT_ONCE)]
    for each in uploads:
        each.start()
    for each in uploads:
        each.join()
    assert answers == {200: 1, 412: AT_ONCE - 1}


def test_a_batch_that_comes_again_is_left_out_and_spark_reads_without_jars(spark, table):
    spec = table._replace(partition_by=("topic",))
    assert not open_table(spec).exists()
    open_table(spec).prepare(SCHEMA)
    assert read_table(spark, spec) is None
    assert write(spec, BatchId("q", 0), rows(0, 30))
    assert not write(spec, BatchId("q", 0), rows(0, 30))
    assert write(spec, BatchId("q", 1), rows(30, 48))
    found = read_table(spark, spec).orderBy("offset").collect()
    assert [each.offset for each in found] == list(range(48))
    assert [each.topic for each in found[:2]] == ["orders", "payments"]


@pytest.mark.long
def test_of_two_drivers_that_commit_the_same_batch_one_does(table):
    open_table(table).prepare(two_drivers.SCHEMA)
    said = two_drivers.commits_of_both(table, ROUNDS)
    assert [one + other for one, other in zip(*said, strict=True)] == [1] * ROUNDS
    assert len(open_table(table).active_files()) == ROUNDS


def test_a_bucket_that_is_not_there_is_told(table):
    wrong = table._replace(path="gs://bucket-of-nobody/orders")
    with pytest.raises(TidelogError, match="gs://bucket-of-nobody/orders: "):
        open_table(wrong).prepare(SCHEMA)
    with pytest.raises(TidelogError, match=r"cannot write to gs://bucket-of-nobody/.*NOT_FOUND"):
        write_files(layout_of(wrong, BatchId("q", 0)), SCHEMA, "part", [rows(0, 5)])


@pytest.mark.parametrize("form", [DELTA, ICEBERG])
def test_a_broken_key_is_told_in_one_line_without_it(cluster, spark, tmp_path, key_file, form):
    topic = cluster.topic(f"broken-key-{form}", partitions=1)
    home = Home(tmp_path / "pipelines")
    given = ["archive", topic, "--to", "gs://lake/orders", "--format", form, "--once"]
    given += ["--store-option", f"GOOGLE_APPLICATION_CREDENTIALS={key_file}"]
    given += ["-b", cluster.bootstrap_servers]
    if form == ICEBERG:
        given += ["--catalog", f"sqlite:///{tmp_path}/catalog.db", "--table", "shop.orders"]
    ran = home.run(*given)
    assert ran.code == 1
    (why,) = [line for line in ran.stderr.splitlines() if line.startswith("  why: ")]
    assert "gs://lake/orders: " in why
    assert "\x1b" not in ran.stderr
    (advice,) = [line for line in ran.stderr.splitlines() if line.startswith("  try: ")]
    assert "GOOGLE_APPLICATION_CREDENTIALS" in advice or "login of the store" in advice
    kept = [each.read_text() for each in home.directory.rglob("*") if each.is_file()]
    assert not [each for each in (ran.stdout, ran.stderr, *kept) if SECRET in each]


def test_an_archive_lies_in_the_store(cluster, spark, tmp_path, store, table):
    topic = cluster.topic(f"google-{table.form}", partitions=2)
    spark_story.write(cluster, topic, range(6))
    spec = table._replace(partition_by=("topic",))
    home = Home(tmp_path / "pipelines")
    given = ["archive", topic, "--to", spec.path.replace("gs:", "gcs:"), "--format", spec.form]
    given += ["--partition-by", "topic", "--once", "-b", cluster.bootstrap_servers]
    host = store.options["STORAGE_EMULATOR_HOST"]
    if spec.catalog is not None:
        given += ["--catalog", spec.catalog.catalog, "--table", spec.catalog.table]
    with quick(spark):
        ran = home.done(*given, "--store-option", f"storage_emulator_host={host}")
        spark_story.write(cluster, topic, range(6, 8))
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("STORAGE_EMULATOR_HOST", host)
            again = home.done(*given)
        found = read_table(spark, spec).collect()
    assert "6 in, 6 out · committed" in ran.stdout
    assert "2 in, 2 out · committed" in again.stdout
    assert sorted(int(each.value) for each in found) == list(range(8))


def test_a_checkpoint_lies_in_the_store(store, tmp_path):
    place = store.place(f"checkpoints/{tmp_path.name}")
    check_checkpoint_files(Store(place, store_options("gs", store.options, {})))


def test_what_a_task_stages_in_a_store_is_read_by_the_commit_and_swept(store, tmp_path):
    options = store_options("gs", store.options, {})
    directory = Store(store.place(f"staging-{tmp_path.name}"), options)
    for number in (1, 2):
        stage = Staging(Attempt("q", number, 0), directory)
        stage.add("t", 0, encode([Record(0, 0, None, b"x" * INLINE_BYTES, ())]))
        stage.add("t", 1, encode([Record(0, 0, None, b"y", ())]))
        message = pickle.loads(pickle.dumps(stage.finish("run", "elsewhere")))
    assert scan_batches(message.read(message.pieces[1])).column("record_count")[0] == 1
    assert len(list(listed(directory))) == 2
    sweep(directory, "q", 1)
    (left,) = listed(directory)
    assert message.path == directory.below(left.name).place
    message.remove()
    message.remove()
    with pytest.raises(TidelogError, match="cannot read what was staged at gs://"):
        message.read(message.pieces[0])


def test_a_stream_is_written_exactly_once_through_a_store(store, cluster, spark, tmp_path):
    """Rows of a task that are too many for a message, with executors that share no directory."""
    topic = cluster.topic("staged-at-google", partitions=1)
    staging = store.place(f"staging-{tmp_path.name}")
    many = spark.range(0, 40_000, 1, 1).selectExpr(
        "CAST(id AS STRING) AS value", "sha2(CAST(id AS STRING), 512) AS key"
    )
    writer = many.write.format("tidelog").mode("append").option("topic", topic)
    writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    writer = writer.option("storeSecrets", json.dumps(store.options))
    writer.option("compression", "none").option("stagingDir", staging).save()
    found = spark_story.loaded(spark, cluster, subscribe=topic)
    assert found.select("value").distinct().count() == 40_000
    assert not list(listed(Store(staging, store_options("gs", store.options))))


@pytest.mark.long
@pytest.mark.parametrize("form", [DELTA, ICEBERG])
def test_every_row_is_in_the_table_once_though_the_driver_is_killed(cluster, tmp_path, store, form):
    """Right after its library committed, so the batch comes again."""
    drivers = Drivers(tmp_path)
    killed = Plan(f"gs-{form}-driver", DRIVER, faults.AFTER_END)
    try:
        target = TableTarget(form, tmp_path, store)
        outcome = Run(cluster, drivers, tmp_path, killed, target=target).run()
    finally:
        drivers.close()
    assert (outcome.kills, outcome.restarts) == (1, 1)
    assert outcome.exact, outcome
