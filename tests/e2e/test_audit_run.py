"""`tidelog audit run`: a cluster of its own, broken on purpose, and the verdict."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tidelog.audit.history import file
from tidelog.audit.history.rows import HEALED

WITHIN_SECONDS = 150


def started(*arguments, **variables):
    python_path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": python_path, **variables}
    return subprocess.Popen(
        [sys.executable, "-m", "tidelog", "audit", "run", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_a_killed_and_a_cut_off_leader_cost_nothing_that_was_promised(tmp_path):
    path = tmp_path / "history.parquet"
    arguments = ["--for", "8s", "--chaos", "kill,partition", "--history", str(path), "-o", "json"]
    with started(*arguments) as process:
        stdout, stderr = process.communicate(timeout=WITHIN_SECONDS)
    assert process.returncode == 0, stderr
    document = json.loads(stdout)
    assert document["ok"]
    assert document["faults"] >= 1
    assert "kill broker " in stderr
    assert document["acknowledged"] <= document["read_back"]
    assert document["aborted"] > 0
    assert not document["stuck"]
    assert any(row.op == HEALED for row in file.read(path))


def test_an_interrupted_run_leaves_nothing_behind(tmp_path):
    with started("--for", "10m", "--chaos", "pause", TMPDIR=str(tmp_path)) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if line.startswith("pause broker "))
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=WITHIN_SECONDS)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert list(tmp_path.iterdir()) == []
    assert not any(str(tmp_path) in line for line in command_lines())


def command_lines():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes().decode("utf-8", "replace")
