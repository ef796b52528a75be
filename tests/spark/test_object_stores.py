"""Tables in an object store, on an S3 server of its own process: exact, whoever else commits."""

import json
import pickle

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from support import azure_store, object_store, spark_story, two_drivers
from support import rest_catalog as rest_catalog_process
from support.exactly_once import faults
from support.exactly_once.drivers import Drivers, InSession
from support.exactly_once.story import DRIVER, WORKER, Plan, Run
from support.exactly_once.targets import TableTarget
from support.pipelines import Home, quick
from support.store_tables import SCHEMA, check_checkpoint_files, rows, write
from tidelog.spark.failure import TidelogError
from tidelog.spark.staged_files import listed
from tidelog.spark.staging import INLINE_BYTES, Attempt, Staging, sweep
from tidelog.spark.tables.files import write_files
from tidelog.spark.tables.forms import open_table, read_table
from tidelog.spark.tables.layouts import layout_of
from tidelog.spark.tables.reading import rows_of
from tidelog.spark.tables.store_options import store_options
from tidelog.spark.tables.stores import Store, located
from tidelog.spark.tables.words import BatchFiles, BatchId, CatalogTable, TableSpec
from tidelog.wire.kernel import scan_batches
from tidelog.wire.records import Record, encode

DELTA, WITH_SQL, WITH_REST = "delta", "iceberg in a SQL catalog", "iceberg in a REST catalog"
ROUNDS = 6


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    with object_store.running_or_skipped(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture(scope="module")
def session(spark):
    cloudpickle.register_pickle_by_value(faults)  # workers of this session do not see tests
    yield InSession(spark)
    cloudpickle.unregister_pickle_by_value(faults)


@pytest.fixture(scope="session")
def rest_catalog():
    with rest_catalog_process.running_or_skipped() as uri:
        yield uri


@pytest.fixture(params=[DELTA, WITH_SQL, WITH_REST])
def table(request, store, tmp_path):
    """A table that is not there yet, of each kind."""
    form = request.param.partition(" ")[0]
    catalog = None
    if form == "iceberg":
        uri = f"sqlite:///{tmp_path}/catalog.db"
        if request.param == WITH_REST:
            uri = request.getfixturevalue("rest_catalog")
        catalog = CatalogTable(uri, f"shop.{tmp_path.name}")
    place = located(store.place(f"tables/{tmp_path.name}"))
    return TableSpec(place, form, (), store_options("s3", store.options, {}), catalog)


@pytest.mark.parametrize("columns", [(), ("topic",)], ids=["flat", "partitioned"])
def test_a_batch_that_comes_again_is_left_out_and_spark_reads_without_jars(spark, table, columns):
    spec = table._replace(partition_by=columns)
    assert not open_table(spec).exists()
    open_table(spec).prepare(SCHEMA)
    assert read_table(spark, spec) is None
    assert write(spec, BatchId("q", 0), rows(0, 30))
    assert not write(spec, BatchId("q", 0), rows(0, 30))
    assert write(spec, BatchId("q", 1), rows(30, 48))
    found = read_table(spark, spec).orderBy("offset").collect()
    assert [each.offset for each in found] == list(range(48))
    assert [each.topic for each in found[:2]] == ["orders", "payments"]
    assert found[0].key == b"k"


def test_columns_that_came_later_are_null_in_older_rows(spark, table):
    spec = table
    write(spec, BatchId("q", 0), rows(0, 2))
    more = SCHEMA.append(pa.field("note", pa.string()))
    open_table(spec).grow(more)
    later = pa.record_batch([[2], ["orders"], [None], ["new"]], schema=more)
    files = write_files(layout_of(spec, BatchId("q", 1)), more, "part", [later])
    assert open_table(spec).commit(more, BatchFiles(BatchId("q", 1), files))
    found = read_table(spark, spec).orderBy("offset").collect()
    assert [each.note for each in found] == [None, None, "new"]


@pytest.mark.long
def test_of_two_drivers_that_commit_the_same_batch_one_does(table):
    spec = table
    open_table(spec).prepare(two_drivers.SCHEMA)
    said = two_drivers.commits_of_both(spec, ROUNDS)
    assert [one + other for one, other in zip(*said, strict=True)] == [1] * ROUNDS
    assert len(open_table(spec).active_files()) == ROUNDS


def test_a_driver_that_looked_before_another_committed_the_batch_leaves_it_out(table, monkeypatch):
    """The case in which a mark that was read too early would double rows."""
    spec = table
    open_table(spec).prepare(SCHEMA)
    batch = BatchId("q", 0)
    ours, theirs = open_table(spec), open_table(spec)
    files = write_files(layout_of(spec, batch), SCHEMA, "ours", [rows(0, 5)])
    others = write_files(layout_of(spec, batch), SCHEMA, "theirs", [rows(0, 5)])
    if spec.form == "delta":
        from deltalake import DeltaTable as Looked

        looks = "transaction_version"
    else:
        from pyiceberg.table import Table as Looked

        looks = "transaction"
    real = getattr(Looked, looks)

    def looked(self, *given):
        found = real(self, *given)
        monkeypatch.setattr(Looked, looks, real)
        assert theirs.commit(SCHEMA, BatchFiles(batch, others))
        return found

    monkeypatch.setattr(Looked, looks, looked)
    assert not ours.commit(SCHEMA, BatchFiles(batch, files))
    (only,) = open_table(spec).active_files()
    assert "/theirs-" in only


@pytest.mark.parametrize("table", [DELTA, WITH_SQL], indirect=True)
def test_a_wrong_secret_is_told_without_it(store, table):
    wrong = {**store.options, "AWS_SECRET_ACCESS_KEY": "not-the-secret"}
    spec = table._replace(options=store_options("s3", wrong, {}))
    with pytest.raises(TidelogError, match=r"SignatureDoesNotMatch|403|ACCESS_DENIED") as refused:
        open_table(spec).prepare(SCHEMA)
    assert "not-the-secret" not in str(refused.value)
    with pytest.raises(TidelogError, match="cannot write to s3://") as refused:
        write_files(layout_of(spec, BatchId("q", 0)), SCHEMA, "part", [rows(0, 5)])
    assert "not-the-secret" not in str(refused.value)


def test_a_checkpoint_lies_in_the_store(store, tmp_path):
    place = store.place(f"checkpoints/{tmp_path.name}")
    check_checkpoint_files(Store(place, store_options("s3", store.options)))


@pytest.mark.long
def test_a_delta_table_and_a_checkpoint_lie_in_an_azure_store(tmp_path):
    with azure_store.running_or_skipped(tmp_path) as given:
        place = f"abfss://lake@{azure_store.ACCOUNT}.dfs.core.windows.net/orders"
        options = store_options("abfss", given, {})
        Store(place, options).filesystem()[0].create_dir(azure_store.CONTAINER)
        spec = TableSpec(place, "delta", ("topic",), options)
        assert write(spec, BatchId("q", 0), rows(0, 4))
        assert not write(spec, BatchId("q", 0), rows(0, 4))
        assert write(spec, BatchId("q", 1), rows(4, 6))
        files = [Store(each, options) for each in open_table(spec).active_files()]
        found = [batch.to_pylist() for each in files for batch in rows_of(each, SCHEMA)]
        assert sorted(row["offset"] for part in found for row in part) == list(range(6))
        with pytest.raises(TidelogError, match=r"pyiceberg 0\.12 takes the account"):
            open_table(spec._replace(form="iceberg"))
        check_checkpoint_files(Store(place, options).above().below("checkpoints", "orders"))


def test_plain_parquet_and_iceberg_without_a_catalog_are_refused():
    with pytest.raises(TidelogError, match="a store has no rename"):
        open_table(TableSpec("s3://lake/orders", "parquet"))
    with pytest.raises(TidelogError, match="needs a catalog"):
        open_table(TableSpec("s3://lake/orders", "iceberg"))


@pytest.mark.parametrize("table", [WITH_SQL, WITH_REST], indirect=True)
def test_a_table_that_the_catalog_has_elsewhere_is_refused(table):
    open_table(table).prepare(SCHEMA)
    with pytest.raises(TidelogError, match="lies at s3://lake/tables/"):
        open_table(table._replace(path="s3://lake/elsewhere")).prepare(SCHEMA)


def test_a_catalog_that_does_not_answer_is_told_without_its_password(store):
    uri = "postgresql+psycopg2://shop:very-secret@127.0.0.1:1/catalog"
    options = store_options("s3", store.options, {})
    for catalog in (CatalogTable("http://127.0.0.1:1", "a.b"), CatalogTable(uri, "a.b")):
        spec = TableSpec("s3://lake/orders", "iceberg", (), options, catalog)
        with pytest.raises(TidelogError) as refused:
            open_table(spec).prepare(SCHEMA)
        assert "very-secret" not in str(refused.value)


def test_an_archive_lies_in_the_store_and_its_secrets_nowhere_else(
    store, cluster, spark, tmp_path, table
):
    topic = cluster.topic(f"{tmp_path.name}"[:60].replace("_", "-"), partitions=2)
    spark_story.write(cluster, topic, range(6))
    spec = table._replace(partition_by=("topic",))
    secrets = tmp_path / "s3.properties"
    secrets.write_text("".join(f"{name}={value}\n" for name, value in store.options.items()))
    home = Home(tmp_path / "pipelines")
    given = ["archive", topic, "--to", spec.path.replace("s3:", "s3a:"), "--format", spec.form]
    given += ["--partition-by", "topic", "--store-options-file", str(secrets), "--once"]
    given += ["-b", cluster.bootstrap_servers]
    if spec.catalog is not None:
        given += ["--catalog", spec.catalog.catalog, "--table", spec.catalog.table]
    spark.conf.set("spark.sql.ui.explainMode", "extended")
    with quick(spark):
        ran = home.done(*given)
        spark_story.write(cluster, topic, range(6, 8))
        given.remove("--store-options-file")
        given.remove(str(secrets))
        with pytest.MonkeyPatch.context() as environment:
            for name, value in store.options.items():
                environment.setenv(name, value)
            again = home.done(*given)
        found = read_table(spark, spec).collect()
    assert "6 in, 6 out · committed" in ran.stdout
    assert "2 in, 2 out · committed" in again.stdout
    assert sorted(int(each.value) for each in found) == list(range(8))
    (directory,) = home.directory.iterdir()
    written = [each.read_bytes() for each in directory.rglob("*") if each.is_file()]
    plans = spark_story.plans_of(spark)
    spark.conf.unset("spark.sql.ui.explainMode")
    assert "tidelog_table" in plans, "Spark shows the sink"
    said = (ran.stdout + ran.stderr + again.stdout + again.stderr + plans).encode()
    assert b"s3://lake/" in b"".join(written)
    for secret in (object_store.KEY_ID, object_store.SECRET):
        assert not [each for each in (*written, said) if secret.encode() in each]


def test_what_a_task_stages_in_a_store_is_read_by_the_commit_and_swept(store, tmp_path):
    directory = Store(store.place(f"staging-{tmp_path.name}"), store_options("s3", store.options))
    for number in (1, 2):
        stage = Staging(Attempt("q", number, 0), directory)
        stage.add("t", 0, encode([Record(0, 0, None, b"x" * INLINE_BYTES, ())]))
        stage.add("t", 1, encode([Record(0, 0, None, b"y", ())]))
        message = pickle.loads(pickle.dumps(stage.finish("run", "elsewhere")))
    assert object_store.SECRET not in repr(message)
    assert scan_batches(message.read(message.pieces[1])).column("record_count")[0] == 1
    assert len(list(listed(directory))) == 2
    sweep(directory, "q", 1)
    (left,) = listed(directory)
    assert message.path == directory.below(left.name).place
    message.remove()
    message.remove()
    with pytest.raises(TidelogError, match="cannot read what was staged at s3://"):
        message.read(message.pieces[0])
    failed = Staging(Attempt("q", 3, 0), directory)
    failed.add("t", 0, encode([Record(0, 0, None, b"x" * INLINE_BYTES, ())]))
    failed.discard()
    assert not list(listed(directory))


def test_a_stream_is_written_exactly_once_through_a_store(store, cluster, spark, tmp_path):
    """Rows of a task that are too many for a message, with executors that share no directory."""
    topic = cluster.topic("staged-in-a-store", partitions=1)
    staging = store.place(f"staging-{tmp_path.name}")
    rows = spark.range(0, 40_000, 1, 1).selectExpr(
        "CAST(id AS STRING) AS value", "sha2(CAST(id AS STRING), 512) AS key"
    )
    writer = rows.write.format("tidelog").mode("append").option("topic", topic)
    writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    writer = writer.option("storeSecrets", json.dumps(store.options))
    writer.option("compression", "none").option("stagingDir", staging).save()
    found = spark_story.loaded(spark, cluster, subscribe=topic)
    assert found.select("value").distinct().count() == 40_000
    assert not list(listed(Store(staging, store_options("s3", store.options))))
    assert list((store.directory / "buckets" / object_store.BUCKET).glob("staging-*"))


@pytest.fixture(params=["delta", "iceberg"])
def target(request, store, tmp_path):
    return TableTarget(request.param, tmp_path, store)


def plan(target, victim, point, **more):
    return Plan(f"s3-{target.spec.form}-{victim}-{point}".replace(" ", "-"), victim, point, **more)


@pytest.mark.long
@pytest.mark.parametrize("point", [faults.BEFORE_END, faults.AFTER_END])
def test_every_row_is_in_the_table_once_though_the_driver_is_killed(
    cluster, tmp_path, target, point
):
    """Just before its library commits, or right after that."""
    drivers = Drivers(tmp_path)
    killed = plan(target, DRIVER, point)
    try:
        outcome = Run(cluster, drivers, tmp_path, killed, target=target).run()
    finally:
        drivers.close()
    assert (outcome.kills, outcome.restarts) == (1, 1)
    assert outcome.exact, outcome


@pytest.mark.long
@pytest.mark.parametrize("point", [faults.IN_TASK, faults.BEFORE_END])
def test_every_row_is_in_the_table_once_though_a_worker_is_killed(
    session, cluster, tmp_path, target, point
):
    killed = plan(target, WORKER, point)
    outcome = Run(cluster, session, tmp_path, killed, target=target).run()
    assert outcome.kills == 1
    assert outcome.exact, outcome


@pytest.mark.long
def test_a_table_whose_mark_is_not_asked_is_caught_with_rows_twice(
    session, cluster, tmp_path, target
):
    control = plan(target, WORKER, faults.AFTER_END, markers=False)
    outcome = Run(cluster, session, tmp_path, control, target=target).run()
    assert outcome.restarts == 1
    assert outcome.duplicates > 0
    assert outcome.missing == 0
