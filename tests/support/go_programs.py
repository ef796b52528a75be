"""Servers for tests that Go compiles, into the cache of this checkout."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

CACHE = Path(__file__).parents[2] / ".cache" / "go"
BUILD_TIMEOUT_S = 900.0


class NotCompiled(Exception):  # noqa: N818 - it says what is missing
    """Why a program cannot be had here."""


class GoProgram(NamedTuple):
    name: str
    package: str
    """What `go install` is asked for."""
    version: str
    module: Path | None = None
    """The directory of its module, if that is ours."""

    @property
    def binary(self) -> Path:
        return CACHE / f"{self.name}-{self.version}"


def published(name: str, package: str, version: str) -> GoProgram:
    return GoProgram(name, f"{package}@{version}", version)


def ours(name: str, module: Path) -> GoProgram:
    """Its version is what it is made of."""
    made_of = hashlib.sha256()
    for each in ("main.go", "go.mod", "go.sum"):
        made_of.update((module / each).read_bytes())
    return GoProgram(name, ".", made_of.hexdigest()[:12], module)


def compiled(program: GoProgram) -> Path:
    """Where the program is; compiled if it is not there yet."""
    if program.binary.exists():
        return program.binary
    if shutil.which("go") is None:
        raise NotCompiled(
            f"there is no go to compile {program.name} with: install Go, then make programs"
        )
    directory = CACHE / f"made-{program.name}-{os.getpid()}"
    try:
        done = subprocess.run(
            ["go", "install", program.package],
            cwd=program.module,
            env={**os.environ, "GOBIN": str(directory), "GOFLAGS": "-buildvcs=false"},
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise NotCompiled(f"Go did not compile {program.name} in time") from late
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise NotCompiled(f"Go cannot compile {program.name}: {said[-1] if said else '?'}")
    (made,) = directory.iterdir()
    made.rename(program.binary)
    directory.rmdir()
    return program.binary
