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
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "not_compiled.txt")
    shutil.copytree(ROOT / "src", copy / "src", ignore=ignored)
    for name in PARTS:
        shutil.copy(ROOT / name, copy / name)
    return copy


def build(checkout: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel"],
        cwd=checkout,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def tidelog_of(wheel: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command as it is in the wheel, which Python reads like a directory."""
    return subprocess.run(
        [sys.executable, "-m", "tidelog", *arguments],
        cwd=wheel.parent,
        env={**os.environ, "PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_without_a_compiler_the_python_twin_is_what_gets_installed(checkout: Path) -> None:
    built = build(checkout, CC="false")
    assert built.returncode == 0, built.stderr
    said = built.stdout + built.stderr
    assert "tidelog._native is not compiled, Python serves, several times slower: " in said
    assert "TIDELOG_REQUIRE_NATIVE=1 makes this an error" in said
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


def test_an_installation_without_kernels_says_why_in_its_version_and_as_a_node_starts(
    checkout: Path,
) -> None:
    """pip shows nothing of a build that succeeds, so the package itself has to remember."""
    header = checkout / "src/tidelog/_native/numbers.h"
    header.write_text("#error a header of CPython has this name too\n" + header.read_text())
    assert build(checkout).returncode == 0
    (wheel,) = (checkout / "dist").glob("*.whl")
    version = tidelog_of(wheel, "version")
    reason = "error: #error a header of CPython has this name too"
    assert "kernels  python: the build of this installation failed: " in version.stdout
    assert reason in version.stdout
    config = wheel.parent / "server.properties"
    config.write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@127.0.0.1:19093\n"
        f"log.dirs={wheel.parent / 'never-formatted'}\n"
    )
    started = tidelog_of(wheel, "node", "start", "--config", str(config))
    mentions = [line for line in started.stderr.splitlines() if reason in line]
    assert len(mentions) == 1, started.stderr
    assert " WARN  record batches are handled by Python, several times slower: " in mentions[0]


def test_a_build_that_requires_the_kernels_fails_without_them(checkout: Path) -> None:
    built = build(checkout, CC="false", TIDELOG_REQUIRE_NATIVE="1")
    assert built.returncode != 0
    assert not list((checkout / "dist").glob("*.whl"))
