"""`tidelog bench quick` and `tidelog bench verify`, as small as they go. No figure is judged."""

import json
from pathlib import Path

from click.testing import CliRunner

from tidelog.bench.quick.rows import ROWS
from tidelog.cli.failure import OK, USAGE
from tidelog.cli.main import cli


def test_quick_measures_every_row_and_the_limit_of_those_that_have_one(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    words = ["bench", "quick", "--scale", "tiny", "--rounds", "1", "--json", str(path)]
    first = CliRunner().invoke(cli, [*words, "--secure"])
    assert first.exit_code == OK, first.stderr
    document = json.loads(path.read_text("utf-8"))
    assert list(document["values"]) == [row.key for row in ROWS]
    assert list(document["secured"]) == [row.key for row in ROWS]
    assert {row.key for row in ROWS if row.limit_key} == set(document["limits"])
    heading, *lines = first.stdout.splitlines()
    assert heading.endswith("secured  × plain")
    assert len(lines) == len(ROWS)


def test_quick_refuses_what_is_not_an_earlier_run_before_anything_starts(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("{}", "utf-8")
    ran = CliRunner().invoke(cli, ["bench", "quick", "--against", str(path)])
    assert ran.exit_code == USAGE
    assert "other.json is not an earlier run" in ran.stderr
    nowhere = str(tmp_path / "nowhere" / "run.json")
    ran = CliRunner().invoke(cli, ["bench", "quick", "--json", nowhere])
    assert ran.exit_code == USAGE
    assert "cannot be written" in ran.stderr


def test_every_record_of_several_producers_is_read_back() -> None:
    words = ["bench", "verify", "--producers", "3", "--records", "601", "--record-bytes", "100"]
    ran = CliRunner().invoke(cli, [*words, "-o", "json"])
    assert ran.exit_code == OK, ran.stderr + ran.stdout
    document = json.loads(ran.stdout)
    assert document["clean"]
    assert document["acknowledged"] == document["read_back"] == 3 * 601
