"""`tidelog config`: what it prints, and with which exit code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidelog.cli.main import cli
from tidelog.config.broker_keys import KEYS

ROOT = Path(__file__).parents[2]

GOOD = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:9093
log.dirs=/var/lib/tidelog
log.retention.hours=24
num.io.threads=16
"""

BAD = """\
process.roles=broker,controller
node.id=7
listeners=PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@a:9093,2@b:9093
log.dirs=/var/lib/tidelog
broker.heartbeat.interval.ms=often
broker.sesion.timeout.ms=500
delegation.token.secret.key=geheim
"""

BAD_TOLD = """\
error: server.properties:7: broker.heartbeat.interval.ms=often
  why: it must be a whole number of ms, at least 1
  try: broker.heartbeat.interval.ms=2000, which is the default
error: server.properties:3: listeners=PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093
  why: nobody can connect to 0.0.0.0, so it cannot be advertised
  try: advertised.listeners=PLAINTEXT://localhost:9092
error: server.properties:5: controller.quorum.voters=1@a:9093,2@b:9093
  why: node.id=7 is a controller and not among the voters 1, 2
  try: add 7@host:port, or another node.id
warning: server.properties:8: broker.sesion.timeout.ms=500
  why: no such key; it has no effect
  try: broker.session.timeout.ms, if that was meant
warning: server.properties:9: delegation.token.secret.key=[hidden]
  why: Tidelog does not support this; it is ignored
  try: tidelog config explain delegation.token.secret.key
server.properties: 3 problems · 2 warnings
"""

RETENTION_TOLD = """\
log.retention.ms = 86400000 (1 d)
  source     server.properties:7, as log.retention.hours
  default    604800000 (7 d)
  type       duration: a whole number of ms, at least -1
  live       yes
  status     implemented: Tidelog obeys it
  meaning    How long records are kept; -1 forever.
  topics     can have their own, called retention.ms
  also       log.retention.minutes, log.retention.hours, if it is not set itself
"""


@pytest.fixture
def tidelog(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("server.properties").write_text(GOOD)
    Path("bad").mkdir()

    def invoke(*arguments, **environment):
        return CliRunner().invoke(cli, ["config", *arguments], env=environment)

    return invoke


@pytest.mark.parametrize(
    ("command", "first_example"),
    [
        (["--help"], "tidelog config explain broker.session.timeout.ms"),
        (["explain", "--help"], "tidelog config explain broker.session.timeout.ms"),
        (["list", "--help"], "tidelog config list"),
        (["check", "--help"], "tidelog config check server.properties"),
    ],
)
def test_every_help_shows_an_example_before_the_options(tidelog, command, first_example):
    result = tidelog(*command)
    assert result.exit_code == 0
    assert first_example in result.stdout.partition("Options:")[0]


# ---- explain ----


def test_a_key_is_explained_with_its_value_and_where_it_comes_from(tidelog):
    result = tidelog("explain", "log.retention.ms", "--config", "server.properties")
    assert (result.exit_code, result.stdout) == (0, RETENTION_TOLD)


def test_what_does_not_count_is_told_too(tidelog):
    result = tidelog(
        *("explain", "log.retention.ms", "--config", "server.properties"),
        *("-X", "log.retention.ms=2h"),
        TIDELOG_LOG_RETENTION_MINUTES="5",
    )
    assert result.stdout.splitlines()[:2] == ["log.retention.ms = 7200000 (2 h)", "  source     -X"]
    assert "  overruled  log.retention.minutes=5, environment TIDELOG_LOG" in result.stdout
    assert "  overruled  log.retention.hours=24, server.properties:7" in result.stdout


def test_a_program_gets_the_same_as_json(tidelog):
    result = tidelog("explain", "broker.session.timeout.ms", "--profile", "brisk", "-o", "json")
    assert json.loads(result.stdout) == {
        "key": "broker.session.timeout.ms",
        "value": 4000,
        "source": {"layer": "profile", "where": "brisk", "name": "broker.session.timeout.ms"},
        "overruled": [],
        "default": 9000,
        "type": "duration",
        "unit": "ms",
        "allowed": "a whole number of ms, at least 1",
        "at_least": 1,
        "at_most": 2**63 - 1,
        "choices": [],
        "live": False,
        "status": "implemented",
        "meaning": "A broker that is silent for this long is fenced.",
        "topic_name": None,
        "synonyms": [],
        "origin": "kafka",
    }


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["brokr.rack"],
            'error: config explain brokr.rack: no key "brokr.rack"\n'
            '  why: did you mean "broker.rack"?\n'
            "  try: tidelog config explain broker.rack\n",
        ),
        (
            ["retention.ms"],
            'error: config explain retention.ms: no key "retention.ms"\n'
            "  why: it is a setting of topics; log.retention.ms is its default for all of them\n"
            "  try: tidelog config explain log.retention.ms\n",
        ),
        (
            ["qqqq"],
            'error: config explain qqqq: no key "qqqq"\n'
            "  why: no known key is spelled much like it\n"
            "  try: tidelog config list\n",
        ),
        (
            ["node.id", "--config", "gone.properties"],
            "error: config explain node.id: cannot read gone.properties\n"
            "  why: no such file or directory\n"
            "  try: the path of a server.properties\n",
        ),
        (
            ["node.id", "-X", "node.id=me"],
            "error: config explain node.id: -X: node.id=me\n"
            "  why: it must be a whole number, from 0 to 2147483647\n"
            "  try: tidelog config explain node.id\n",
        ),
        (
            ["node.id", "--profile", "brisc"],
            'error: config explain node.id: no profile "brisc"\n'
            '  why: did you mean "brisk"?\n'
            "  try: --profile brisk\n",
        ),
    ],
)
def test_what_cannot_be_explained_is_wrong_usage(tidelog, arguments, told):
    result = tidelog("explain", *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", told)


def test_an_unreadable_file_names_its_line(tidelog):
    Path("server.properties").write_text("node.id=1\nbroker.rack=\\u00g0\n")
    result = tidelog("explain", "node.id", "--config", "server.properties", "-o", "json")
    assert result.exit_code == 2
    assert json.loads(result.stderr) == {
        "command": "config explain node.id",
        "error": "cannot read server.properties",
        "why": "line 2: \\u00g0 is not \\u and four hexadecimal digits",
        "try": "tidelog config check server.properties",
    }


@pytest.mark.parametrize("name", ["ssl.key.password", "sasl.jaas.config"])
def test_a_secret_stays_hidden(tidelog, name):
    for output in ("text", "json"):
        result = tidelog(
            *("explain", name, "-o", output, "-X", f"{name}=geheim"),
            **{"TIDELOG_" + name.upper().replace(".", "_"): "geheim"},
        )
        assert result.exit_code == 0
        assert "[hidden]" in result.stdout
        assert "geheim" not in result.stdout


def test_the_names_of_keys_are_completed(tidelog):
    asked = {"_TIDELOG_COMPLETE": "bash_complete", "COMP_CWORD": "3"}
    asked["COMP_WORDS"] = "tidelog config explain broker.r"
    assert CliRunner().invoke(cli, env=asked).stdout == "plain,broker.rack\n"


# ---- list ----


def test_every_key_is_listed_and_can_be_chosen_by_status(tidelog):
    header, *rows = tidelog("list").stdout.splitlines()
    assert header.split() == ["KEY", "DEFAULT", "STATUS"]
    assert [row.split()[0] for row in rows] == list(KEYS)
    seen = []
    for status in ("implemented", "no-effect", "unsupported"):
        listed = json.loads(tidelog("list", "--status", status, "-o", "json").stdout)
        assert {entry["status"] for entry in listed} == {status}
        seen += [entry["key"] for entry in listed]
    assert sorted(seen) == sorted(KEYS)


def test_the_document_is_what_the_command_prints(tidelog):
    printed = tidelog("list", "-o", "markdown").stdout
    advice = "run: tidelog config list -o markdown > docs/configuration.md"
    assert (ROOT / "docs/configuration.md").read_text("utf-8") == printed, advice


# ---- check ----


def test_a_sound_file_is_called_sound(tidelog):
    result = tidelog("check", "server.properties")
    assert (result.exit_code, result.stdout) == (
        0,
        "without effect in Tidelog: num.io.threads\n"
        "server.properties: sound · node 1, broker and controller · acknowledged is fsync\n",
    )


def test_everything_that_is_wrong_is_said_at_once(tidelog):
    Path("server.properties").write_text(BAD)
    result = tidelog("check", "server.properties")
    assert (result.exit_code, result.stdout, result.stderr) == (2, BAD_TOLD, "")


def test_the_verdict_as_json(tidelog):
    Path("server.properties").write_text(BAD)
    result = tidelog("check", "server.properties", "-o", "json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["sound"], found["without_effect"]) == (2, False, [])
    assert found["problems"][0] == {
        "key": "broker.heartbeat.interval.ms",
        "value": "often",
        "source": "server.properties:7",
        "why": "it must be a whole number of ms, at least 1",
        "try": "broker.heartbeat.interval.ms=2000, which is the default",
    }
    assert found["warnings"][1]["value"] == "[hidden]"


def test_a_check_sees_the_other_layers_as_the_node_would(tidelog):
    result = tidelog("check", "server.properties", "-X", "node.id=2")
    assert result.exit_code == 2
    assert "controller and not among the voters 1" in result.stdout
    result = tidelog("check", "server.properties", TIDELOG_NUM_PARTITIONS="none")
    assert "error: environment TIDELOG_NUM_PARTITIONS: num.partitions=none" in result.stdout


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "node.id=\\u1\n=2\n",
            "error: server.properties:1: line\n"
            "  why: \\u1 is not \\u and four hexadecimal digits\n"
            "  try: key=value, and \\\\ for a backslash\n"
            "error: server.properties:2: line\n"
            "  why: there is no key before the separator\n"
            "  try: key=value, and \\\\ for a backslash\n"
            "server.properties: 2 problems\n",
        ),
    ],
)
def test_lines_that_cannot_be_read_are_problems_too(tidelog, text, told):
    Path("server.properties").write_text(text)
    result = tidelog("check", "server.properties")
    assert (result.exit_code, result.stdout) == (2, told)


@pytest.mark.parametrize(
    ("file", "why"), [("gone", "no such file or directory"), ("bad", "is a directory")]
)
def test_a_file_that_is_not_there_is_wrong_usage(tidelog, file, why):
    result = tidelog("check", file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"why: {why}\n" in result.stderr


def test_bytes_that_are_no_text_are_read_as_java_reads_them(tidelog):
    Path("server.properties").write_bytes(GOOD.encode() + b"broker.rack=\xe9\n")
    result = tidelog("explain", "broker.rack", "--config", "server.properties")
    assert result.stdout.startswith("broker.rack = é\n")


def test_other_commands_do_not_pay_for_this_one():
    program = (
        "import sys; from tidelog.cli.main import cli;"
        "cli.main(['--help'], standalone_mode=False);"
        "sys.exit(any(m.startswith('tidelog.config') for m in sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr
