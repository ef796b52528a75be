"""examples/ride-lakehouse, the whole story, small. It has a cluster and two JVMs of its own."""

import json
import os
import signal
import subprocess
import sys

import pytest

from support.tidy.source import ROOT

pytestmark = pytest.mark.long
GUARD_S = 900
RUN = ROOT / "examples/ride-lakehouse/run.py"
RATE, SECONDS = 1_000, 15


@pytest.fixture
def started(tmp_path):
    """The program, in a directory and with a temporary one of its own."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    running = []

    def start(*words):
        process = subprocess.Popen(
            [sys.executable, str(RUN), *map(str, words)],
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=GUARD_S)
    assert list(temporary.iterdir()) == [], "something was left behind"


def test_a_broker_and_both_drivers_are_killed_and_every_cent_is_there(started, tmp_path):
    process = started("--rate", RATE, "--seconds", SECONDS, "--report", "seen")
    said, errors = process.communicate(timeout=GUARD_S)
    assert process.returncode == 0, said + errors
    found = json.loads((tmp_path / "seen/rides.json").read_text("utf-8"))
    verdict = found["verdict"]
    assert found["ok"] is True
    assert verdict["events"] == found["rows"] == RATE * SECONDS + 3
    assert not any(verdict[name] for name in ("lost", "doubled", "strangers"))
    assert (verdict["wrong_money"], verdict["wrong_windows"]) == (0, 0)
    assert verdict["windows"] > 100
    assert (verdict["letters"], verdict["wrong_letters"]) == (5, 0)
    assert found["left_out"]["rides"] == 10
    assert 0 < found["with_fee"] < found["rows"] / 2
    assert all(batch > 0 for batch in found["batches_after_the_kill"].values())
    assert (tmp_path / "seen/rides.png").read_bytes().startswith(b"\x89PNG")
    for line in ("SIGKILL to broker", "SIGKILL to both Spark drivers", "every cent right"):
        assert line in said
    assert errors == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_story_leaves_nothing_behind(started, number):
    process = started("--rate", RATE, "--seconds", SECONDS)
    for line in process.stdout:
        if "starts two jobs" in line:
            break
    process.send_signal(number)
    said, errors = process.communicate(timeout=GUARD_S)
    assert process.returncode == 130, said + errors
    assert "interrupted; nothing is left running" in errors
    assert "Traceback" not in errors
