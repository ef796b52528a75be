"""The package is built where no C compiler works, and says which kernel it then runs."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.tidy.source import ROOT
from tidelog.bench.limit.program import HEADERS, SOURCES

PARTS = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "NOTICE")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a build reads, without anything that was compiled before."""
    copy = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "src", copy / "src", ignore=ignored)
    for name in PARTS:
        shutil.copy(ROOT / name, copy / name)
    return copy


def test_without_a_compiler_the_python_twin_is_what_gets_installed(checkout: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel"],
        cwd=checkout,
        env={**os.environ, "CC": "false"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert built.returncode == 0, built.stderr
    assert "tidelog._native is not compiled, Python serves" in built.stdout + built.stderr
    (wheel,) = (checkout / "dist").glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    assert "tidelog/_native/contract.py" in names
    assert not [name for name in names if name.endswith((".so", ".pyx"))]
    assert not [name for name in names if name.startswith("tidelog/sim/mutants")]
    compiled_where_it_runs = {f"tidelog/bench/limit/{name}" for name in (*SOURCES, *HEADERS)}
    assert {name for name in names if name.endswith((".c", ".h"))} == compiled_where_it_runs
    code = "import tidelog.wire.kernel as k; print(k.__file__, k.implementation())"
    said = subprocess.run(
        [sys.executable, "-c", code],
        cwd=checkout.parent,
        env={**os.environ, "PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert said.stdout.strip().endswith(" python")
    assert str(wheel) in said.stdout
