"""Histories as files: what is written is read, and what is none says so."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from support.histories import History
from tidelog.audit.history import file
from tidelog.audit.history.rows import BadHistory, value_number
from tidelog.cli.main import cli


def tidelog(*arguments):
    return CliRunner().invoke(cli, [str(each) for each in arguments])


def clean() -> History:
    return History().sent(1, 0).assigned().polled((0, 1)).healed().drained((0, 1))


def test_a_history_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "history.parquet"
    file.write(path, clean().rows)
    assert file.read(path) == clean().rows
    file.write(path, [])
    assert file.read(path) == []


def test_a_history_may_be_a_directory_of_files(tmp_path):
    for number, row in enumerate(clean().rows):
        file.write(tmp_path / f"part-{number}.parquet", [row])
    assert sorted(file.read(tmp_path)) == sorted(clean().rows)


def test_a_read_back_is_a_table_or_the_last_read_of_a_history(tmp_path):
    path = tmp_path / "found.parquet"
    columns = {"topic": ["orders"], "partition": [0], "offset": [7], "value": [1]}
    pq.write_table(pa.table(columns), path)
    (row,) = file.read_back(path)
    assert (row.op, row.topic, row.offset, row.value) == ("read-back", "orders", 7, 1)
    file.write(path, clean().rows)
    assert [row.op for row in file.read_back(path)] == ["read-back"]
    file.write(path, History().sent(1, 0).rows)
    with pytest.raises(BadHistory, match="without a read-back"):
        file.read_back(path)


def test_a_value_is_known_by_a_number_that_fits_everywhere():
    assert value_number(b"order") == value_number(memoryview(b"order"))
    assert value_number(b"") == value_number(None)
    assert 0 <= value_number(b"order") < 2**60


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"client": ["w"]}, "has no column operation; a history has client, operation, step"),
        ({name: [None] for name in file.schema().names}, "the column client has 1 nulls"),
        (
            {name: ["x"] for name in file.schema().names},
            "the column operation is string, not int64",
        ),
    ],
)
def test_a_file_with_other_columns_says_which(tmp_path, columns, words):
    path = tmp_path / "history.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(BadHistory, match=words):
        file.read(path)
    told = tidelog("audit", "history", path)
    assert told.exit_code == 1
    assert words in told.stderr
    assert "Traceback" not in told.stderr


def test_what_is_not_parquet_is_told_in_one_line(tmp_path):
    path = tmp_path / "history.parquet"
    path.write_text("{}")
    told = tidelog("audit", "history", path)
    assert told.exit_code == 1
    assert f"{path} is not Parquet" in told.stderr
    missing = tidelog("audit", "history", tmp_path / "nowhere")
    assert f"there is no {tmp_path / 'nowhere'}" in missing.stderr


def test_a_clean_history_and_a_broken_one_by_their_exit_codes(tmp_path):
    path = tmp_path / "history.parquet"
    file.write(path, clean().rows)
    assert tidelog("audit", "history", path).exit_code == 0
    file.write(path, clean().sent(2, 1).rows)
    assert tidelog("audit", "history", path).exit_code == 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["history", "h", "-b", "x:1", "--read-back", "f"], "a cluster together with --read-back"),
        (["history", "h", "--master", "here"], '"here" is no Spark cluster'),
        (["history", "h", "--master", "local", "--conf", "x"], "wrong value for --conf: x"),
        (["run", "--chaos", "kil"], 'did you mean "kill"?'),
        (
            ["run", "--chaos", "kill", "-b", "x:1"],
            "--chaos together with a cluster that is there already",
        ),
        (["run", "--history", "no/such/place"], "no/such/place cannot be written"),
        (["run", "--for", "soon"], "wrong value for --for"),
    ],
)
def test_wrong_use_is_refused_before_anything_is_started(arguments, words):
    refused = tidelog("audit", *arguments)
    assert refused.exit_code == 2
    assert words in refused.stderr


@pytest.mark.parametrize("wrong", [["--seed", "1"], ["--minutes", "1"]])
def test_what_cannot_be_spread_over_spark_is_refused(wrong):
    refused = tidelog("sim", "run", "--master", "local", *wrong)
    assert refused.exit_code == 2
    assert f"--master together with {wrong[0]}" in refused.stderr


def test_a_spark_cluster_that_is_not_there_is_told_at_once():
    refused = tidelog("sim", "run", "--seeds", "1", "--master", "spark://127.0.0.1:1")
    assert refused.exit_code == 3
    assert "spark://127.0.0.1:1 cannot be reached" in refused.stderr


def test_a_machine_without_java_is_told_what_it_lacks(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    refused = tidelog("sim", "run", "--seeds", "1", "--master", "local[1]")
    assert refused.exit_code == 1
    assert "Spark needs Java" in refused.stderr
    assert "install Java 17" in refused.stderr
