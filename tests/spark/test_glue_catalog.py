"""Iceberg tables in a Glue catalog, which moto plays, with their files on an S3 server."""

import boto3
import pytest
from pyiceberg.catalog import load_catalog

from support import glue_catalog, object_store, spark_story
from support.exactly_once import faults
from support.exactly_once.drivers import Drivers
from support.exactly_once.story import DRIVER, Plan, Run
from support.exactly_once.targets import TableTarget
from support.pipelines import Home, quick
from support.store_tables import SCHEMA
from tidelog.spark.failure import TidelogError
from tidelog.spark.tables.forms import open_table
from tidelog.spark.tables.stores import REGION_ANYWHERE
from tidelog.spark.tables.words import CatalogTable, TableSpec


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    with object_store.running_or_skipped(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture(scope="session")
def glue():
    """With a login. boto3 would find that in the environment of a driver, but the session that
    tests share was started before."""
    login = {
        "glue.access-key-id": object_store.KEY_ID,
        "glue.secret-access-key": object_store.SECRET,
    }
    with glue_catalog.running() as properties:
        yield {**properties, **login}


def read_by_pyiceberg(properties, store, name):
    """As somebody who has nothing to do with us reads it."""
    files = {
        "s3.endpoint": store.endpoint,
        "s3.region": REGION_ANYWHERE,
        "s3.access-key-id": object_store.KEY_ID,
        "s3.secret-access-key": object_store.SECRET,
    }
    catalog = load_catalog("of others", **properties, **files)
    try:
        return catalog.load_table(name).scan().to_arrow()
    finally:
        catalog.close()


def kept_by_glue(properties, database, table):
    client = boto3.client(
        "glue",
        region_name=properties["glue.region"],
        endpoint_url=properties["glue.endpoint"],
        aws_access_key_id=properties["glue.access-key-id"],
        aws_secret_access_key=properties["glue.secret-access-key"],
    )
    try:
        return client.get_table(DatabaseName=database, Name=table)["Table"]
    finally:
        client.close()


def test_an_archive_is_a_table_of_glue_and_goes_on_there(glue, store, cluster, spark, tmp_path):
    topic = cluster.topic("archived-with-glue", partitions=2)
    spark_story.write(cluster, topic, range(6))
    login = tmp_path / "s3.properties"
    login.write_text("".join(f"{name}={value}\n" for name, value in store.options.items()))
    home = Home(tmp_path / "pipelines")
    given = ["archive", topic, "--to", store.place("glue/orders"), "--format", "iceberg"]
    given += ["--partition-by", "topic", "--catalog", "glue", "--table", "shop.orders", "--once"]
    for name, value in glue.items():
        given += ["--catalog-option", f"{name}={value}"]
    given += ["--store-options-file", str(login), "-b", cluster.bootstrap_servers]
    with quick(spark):
        ran = home.done(*given)
        spark_story.write(cluster, topic, range(6, 8))
        again = home.done(*given)
    assert "6 in, 6 out · committed" in ran.stdout
    assert "2 in, 2 out · committed" in again.stdout
    found = read_by_pyiceberg(glue, store, "shop.orders")
    assert sorted(int(each) for each in found["value"].to_pylist()) == list(range(8))
    kept = kept_by_glue(glue, "shop", "orders")
    assert kept["Parameters"]["table_type"] == "ICEBERG"
    assert kept["StorageDescriptor"]["Location"] == store.place("glue/orders")
    written = [each.read_text() for each in home.directory.rglob("*.json*") if each.is_file()]
    said = [ran.stdout, ran.stderr, again.stdout, again.stderr, str(kept), *written]
    for secret in (object_store.KEY_ID, object_store.SECRET):
        assert not [each for each in said if secret in each]


@pytest.mark.long
def test_every_row_is_in_the_table_once_though_the_driver_is_killed(glue, store, cluster, tmp_path):
    """Right after Glue took the commit, so the batch comes again."""
    catalog = CatalogTable("glue", "shop.killed", tuple(glue.items()))
    target = TableTarget("iceberg", tmp_path, store, catalog)
    drivers = Drivers(tmp_path)
    killed = Plan("glue-driver", DRIVER, faults.AFTER_END)
    try:
        outcome = Run(cluster, drivers, tmp_path, killed, target=target).run()
    finally:
        drivers.close()
    assert (outcome.kills, outcome.restarts) == (1, 1)
    assert outcome.exact, outcome


def in_catalog(directory, **options):
    catalog = CatalogTable("lake", "shop.orders", tuple(options.items()))
    return open_table(TableSpec(str(directory / "orders"), "iceberg", catalog=catalog))


def test_a_catalog_whose_package_is_not_installed_names_it(tmp_path):
    """Hive's is not; Glue's would be told in the same way."""
    form = in_catalog(tmp_path, type="hive", uri="thrift://127.0.0.1:1")
    with pytest.raises(TidelogError, match="Hive support not installed") as refused:
        form.prepare(SCHEMA)
    assert refused.value.advice == "pip install 'pyiceberg[hive]'"


def test_glue_without_a_region_is_told_what_to_name(tmp_path, monkeypatch):
    for name in ("AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(TidelogError, match="You must specify a region") as refused:
        in_catalog(tmp_path, type="glue").prepare(SCHEMA)
    assert "glue.region" in refused.value.advice


def test_a_glue_that_does_not_answer_is_told_without_its_secret(tmp_path, glue):
    options = {**glue, "glue.endpoint": "http://127.0.0.1:1", "glue.max-retries": "1"}
    words = r"the table shop\.orders at .*: EndpointConnectionError"
    with pytest.raises(TidelogError, match=words) as refused:
        in_catalog(tmp_path, **options).prepare(SCHEMA)
    assert object_store.KEY_ID not in str(refused.value)
    assert object_store.SECRET not in str(refused.value)
