"""Where tables lie, and how the three libraries are told to get there."""

import json
import pickle

import pytest
from pyiceberg.io import load_file_io

from tidelog.spark.failure import InvalidOption, TidelogError
from tidelog.spark.tables.store_options import store_options
from tidelog.spark.tables.stores import Store, google_filesystem, located, told
from tidelog.spark.tables.words import CatalogTable, TableSpec

KEYS = {"AWS_ACCESS_KEY_ID": "key-id", "AWS_SECRET_ACCESS_KEY": "very-secret"}
NOWHERE = {"HOME": "/nonexistent"}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/lake/orders", "/lake/orders"),
        ("file:///lake/my%20orders", "/lake/my orders"),
        ("s3://lake/orders/", "s3://lake/orders"),
        ("s3a://lake/orders", "s3://lake/orders"),
        ("gcs://lake/a/b", "gs://lake/a/b"),
        (
            "abfs://box@account.dfs.core.windows.net/orders",
            "abfss://box@account.dfs.core.windows.net/orders",
        ),
    ],
)
def test_a_place_is_written_in_one_way(text, place):
    assert located(text) == place


def test_a_relative_directory_becomes_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert located("lake/orders") == str(tmp_path / "lake/orders")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hdfs://name/orders", "there are no tables at hdfs://"),
        ("s3://lake", "is no place for a table"),
        ("s3://lake/orders?versionId=7", "is no place for a table"),
        ("file://elsewhere/orders", "on another machine"),
        ("s3://key-id:very-secret@lake/orders", "has a login in it"),
        ("abfss://account.dfs.core.windows.net/orders", "names no container and account"),
    ],
)
def test_what_can_be_no_place_is_refused_without_its_secrets(text, words):
    with pytest.raises(InvalidOption, match=words) as refused:
        located(text)
    assert "very-secret" not in str(refused.value)


def test_each_library_is_told_the_same_of_an_s3_store():
    options = store_options(
        "s3", {"aws_endpoint_url": "http://127.0.0.1:9000"}, {**KEYS, **NOWHERE}
    )
    store = Store("s3://lake/orders", options)
    assert store.delta_options() == {
        **KEYS,
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
        "AWS_REGION": "us-east-1",
        "AWS_CONDITIONAL_PUT": "etag",
        "ALLOW_HTTP": "true",
    }
    assert store.iceberg_properties() == {
        "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
        "s3.access-key-id": "key-id",
        "s3.secret-access-key": "very-secret",
        "s3.endpoint": "http://127.0.0.1:9000",
        "s3.region": "us-east-1",
    }
    filesystem, path = store.filesystem()
    assert (filesystem.type_name, filesystem.region, path) == ("s3", "us-east-1", "lake/orders")


def test_delta_and_pyarrow_are_told_the_same_of_an_azure_account():
    given = {"azure_storage_key": "c2VjcmV0", "azure_storage_endpoint": "http://127.0.0.1:10000"}
    store = Store("abfss://box@shop.dfs.core.windows.net/lake", store_options("abfss", given, {}))
    assert store.delta_options() == {
        "AZURE_STORAGE_ACCOUNT_NAME": "shop",
        "AZURE_STORAGE_ACCOUNT_KEY": "c2VjcmV0",
        "AZURE_ENDPOINT": "http://127.0.0.1:10000/shop",
        "ALLOW_HTTP": "true",
    }
    filesystem, path = store.filesystem()
    assert (filesystem.type_name, path) == ("abfs", "box/lake")


def test_the_file_of_googles_credentials_reaches_all_libraries(monkeypatch):
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    given = {"google_application_credentials": "/keys/shop.json"}
    store = Store("gs://lake/orders", store_options("gs", given, {}))
    assert store.delta_options() == {"GOOGLE_APPLICATION_CREDENTIALS": "/keys/shop.json"}
    import os

    store.iceberg_properties()
    assert os.environ["GOOGLE_APPLICATION_CREDENTIALS"] == "/keys/shop.json"


@pytest.mark.parametrize("host", ["http://127.0.0.1:4443", "127.0.0.1:4443"])
def test_an_emulator_of_google_needs_no_login(host, monkeypatch):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "of others")
    given = {"STORAGE_EMULATOR_HOST": host, "GOOGLE_APPLICATION_CREDENTIALS": "/keys/shop.json"}
    store = Store("gs://lake/orders", store_options("gs", {}, given))
    told_to_delta = store.delta_options()
    key = json.loads(told_to_delta.pop("GOOGLE_SERVICE_ACCOUNT_KEY"))
    assert (key["gcs_base_url"], key["disable_oauth"]) == ("http://127.0.0.1:4443", True)
    assert told_to_delta == {"ALLOW_HTTP": "true"}
    assert store.filesystem()[0].type_name == "gcs"
    properties = store.iceberg_properties()
    assert properties["gcs.service.host"] == "http://127.0.0.1:4443"
    ours = load_file_io(properties, store.place).fs_by_scheme("gs", "lake")
    assert ours == google_filesystem("http://127.0.0.1:4443")
    assert ours != google_filesystem("http://127.0.0.1:4444")


def test_an_option_counts_more_than_the_environment_and_that_more_than_a_profile(tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text(
        "[default]\naws_access_key_id = of-file\naws_secret_access_key = s\n"
        "[shop]\naws_access_key_id = of-shop\naws_secret_access_key = t\n"
    )
    (tmp_path / ".aws/config").write_text("[default]\nregion = eu-north-1\n")
    home = {"HOME": str(tmp_path)}
    assert store_options("s3", {}, home).values["AWS_ACCESS_KEY_ID"] == "of-file"
    assert store_options("s3", {}, home).values["AWS_REGION"] == "eu-north-1"
    around = {**home, **KEYS, "AWS_DEFAULT_REGION": "eu-west-1"}
    assert store_options("s3", {}, around).values == {**KEYS, "AWS_REGION": "eu-west-1"}
    asked = store_options("s3", {"aws_profile": "shop"}, around)
    assert asked.values["AWS_ACCESS_KEY_ID"] == "of-shop"
    given = {"aws_access_key_id": "mine", "aws_secret_access_key": "u"}
    assert store_options("s3", given, {**around, "AWS_SESSION_TOKEN": "of others"}).values == {
        "AWS_ACCESS_KEY_ID": "mine",
        "AWS_SECRET_ACCESS_KEY": "u",
        "AWS_REGION": "eu-west-1",
    }


def test_a_profile_without_keys_is_left_to_the_libraries_or_refused_if_it_was_asked_for(tmp_path):
    around = {"HOME": str(tmp_path), "AWS_PROFILE": "role"}
    assert store_options("s3", {}, around).values == {}
    with pytest.raises(InvalidOption, match="the profile role has no keys"):
        store_options("s3", {"AWS_PROFILE": "role"}, {"HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("scheme", "name", "words"),
    [
        ("s3", "aws_secret_acess_key", "did you mean AWS_SECRET_ACCESS_KEY"),
        ("gs", "AWS_REGION", "gs:// has no store option"),
        ("file", "AWS_REGION", "a local table has no store option"),
    ],
)
def test_an_unknown_option_is_named_without_its_value(scheme, name, words):
    with pytest.raises(InvalidOption, match=words) as refused:
        store_options(scheme, {name: "very-secret"}, {})
    assert "very-secret" not in str(refused.value)


def test_secrets_are_in_no_repr_and_in_no_message_of_a_library():
    catalog = CatalogTable("rest", "shop.orders", (("token", "very-secret"),))
    options = store_options("s3", {}, {**KEYS, **NOWHERE})
    spec = TableSpec("s3://lake/orders", "iceberg", (), options, catalog)
    assert "very-secret" not in repr(spec)
    assert "key-id" not in repr(spec)
    assert pickle.loads(pickle.dumps(spec)) == spec
    words = r"OSError: no key \*\*\* for \*\*\*"
    with pytest.raises(TidelogError, match=words), told(spec.store, "cannot write to"):
        raise OSError("no key very-secret for key-id")


def test_what_delta_says_of_causes_is_one_line_without_colours():
    words = "not written: no bucket: 404; check the bucket"
    with pytest.raises(TidelogError, match=words), told(Store("gs://lake/a"), "cannot write to"):
        raise OSError("not written \x1b[31m↳\x1b[0m no bucket\n  \x1b[31m↳\x1b[0m 404")
