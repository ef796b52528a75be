"""The limit program: compiled when it is first needed, run with the options of one case."""

import atexit
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

SOURCES = ("limit.c", "moving.c", "servers.c")
HEADERS = ("limit.h",)
COMPILERS = ("gcc", "cc", "clang")
FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror")
COMPILE_WITHIN_S = 60
RUN_WITHIN_S = 120


class CompilerMissing(Exception):  # noqa: N818 - it names what is so
    """There is no C compiler, so nobody knows the limit of this machine."""

    def __init__(self) -> None:
        super().__init__(
            f"no C compiler ({', '.join(COMPILERS)}) in PATH: the limit row cannot be measured; "
            "install gcc"
        )


class LimitFailed(Exception):  # noqa: N818 - it names what is so
    """The program could not be compiled, or did not do its work; in its own words."""


def run(words: Sequence[str], directory: Path) -> Mapping[str, float]:
    """The figures of one run. Its files are left in the directory, `leader.log` and two more."""
    command = [str(compiled()), *words, "--directory", str(directory)]
    figures: dict[str, float] = json.loads(_output_of(command, RUN_WITHIN_S))
    return figures


@cache
def compiled() -> Path:
    """The program, in a directory that goes when this process ends."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise CompilerMissing
    place = Path(tempfile.mkdtemp(prefix="tidelog-limit-program-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    package = files("tidelog.bench.limit")
    for name in (*SOURCES, *HEADERS):
        (place / name).write_bytes(package.joinpath(name).read_bytes())
    program = place / "limit"
    sources = [str(place / name) for name in SOURCES]
    _output_of([compiler, *FLAGS, *sources, "-o", str(program)], COMPILE_WITHIN_S)
    return program


def _output_of(command: Sequence[str], within_s: float) -> str:
    name = Path(command[0]).name
    try:
        done = subprocess.run(  # noqa: S603 - our own program, and its compiler
            command, capture_output=True, text=True, timeout=within_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise LimitFailed(f"{name} did not end within {within_s:g} s") from None
    if done.returncode != 0:
        said = done.stderr.strip() or f"{name} ended with exit code {done.returncode}"
        raise LimitFailed(said)
    return done.stdout
