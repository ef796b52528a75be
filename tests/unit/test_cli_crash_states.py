"""The command line over crash states: counts, exit codes, and the mutants of storage."""

import json

import pytest
from click.testing import CliRunner, Result

from tidelog.cli.main import cli
from tidelog.sim import mutation

STORAGE_MUTANTS = ("M35", "M36", "M37", "M38", "M39", "M40", "M46")


def tidelog(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def test_sound_storage_recovers_and_the_states_are_counted() -> None:
    result = tidelog("sim", "crash-states", "failed sync", "format", "--limit", "20", "-o", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "states": 40,
        "bad": 0,
        "by_workload": {"failed sync": 20, "format": 20},
        "failures": [],
    }


def test_the_table_has_a_row_per_workload() -> None:
    result = tidelog("sim", "crash-states", "failed sync", "--limit", "5")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["WORKLOAD", "STATES", "BAD"],
        ["failed", "sync", "5", "0"],
        ["5", "states,", "0", "bad"],
    ]


def test_a_state_that_does_not_recover_is_a_violation() -> None:
    with mutation.applied("M39"):
        result = tidelog("sim", "crash-states", "failed sync")
    assert result.exit_code == 5
    assert "failed sync: power loss after" in result.stdout
    assert "was durable" in result.stdout


def test_an_unknown_workload_is_wrong_usage() -> None:
    result = tidelog("sim", "crash-states", "apend")
    assert result.exit_code == 2
    assert 'did you mean "append"?' in result.stderr


@pytest.mark.parametrize("name", STORAGE_MUTANTS)
def test_a_mutant_of_storage_is_killed_by_a_crash_state(name: str) -> None:
    result = tidelog("sim", "mutants", name, "-o", "json")
    assert result.exit_code == 0
    (verdict,) = json.loads(result.stdout)
    assert verdict["killed"] is True
    assert verdict["rule"].startswith("R19 recovery: ")
    assert verdict["seeds"] > 0
    assert f"{name} killed by R19 recovery" in result.stderr
    assert "crash state" in result.stderr
