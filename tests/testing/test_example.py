"""The example project, in an empty environment that has nothing of ours but the wheel."""

import os
import shutil
import subprocess
import sys
import venv

import pytest

from support.tidy.source import ROOT

pytestmark = pytest.mark.long
GUARD_S = 900


def run(*command, **options):
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        timeout=GUARD_S,
        env=clean,
        **options,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_passes_with_the_wheel_alone(tmp_path):
    wheels, home, project = tmp_path / "wheels", tmp_path / "venv", tmp_path / "project"
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", wheels)
    run(sys.executable, "-m", "pip", "wheel", *options, ROOT)
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    (wheel,) = wheels.glob("tidelog-*.whl")
    run(python, "-m", "pip", "install", f"{wheel}[testing]", "confluent-kafka==2.16.1")
    shutil.copytree(ROOT / "examples" / "testing-a-service", project)
    told = run(python, "-m", "pytest", "-q", cwd=project)
    assert "7 passed" in told
    listed = run(python, "-m", "pytest", "--markers", cwd=project)
    assert "@pytest.mark.tidelog(brokers=3" in listed
