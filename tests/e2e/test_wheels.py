"""A wheel for every Python that we promise: built with its kernels, installed there, and used."""

import subprocess
import sys

import pytest

from support.tidy.source import ROOT

pytestmark = pytest.mark.long


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_a_wheel_is_compiled_and_serves_on(version: str) -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "scripts/build_wheels.py", version],
        capture_output=True,
        text=True,
        check=False,
        timeout=1_200,
    )
    assert made.returncode == 0, made.stderr
    assert made.stdout.endswith("compiled and tried\n")
