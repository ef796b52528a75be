"""Build a wheel for every Python we promise, and try each one on the Python it is for.

    python scripts/build_wheels.py              3.11 to 3.14, into dist
    python scripts/build_wheels.py 3.13 3.14    only these

An interpreter is taken from the PATH or from pyenv. Where there is none, it comes from Maven
Central, which has CPython as `org.bytedeco:cpython`. A wheel without compiled kernels is an error.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "cpython"
SOURCES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "NOTICE")
MAVEN_VERSIONS = {
    "3.11": "3.11.3-1.5.9",
    "3.12": "3.12.1-1.5.10",
    "3.13": "3.13.5-1.5.12",
    "3.14": "3.14.3-1.5.13",
}
NEEDED_BY_TESTS = ("pytest==9.2.0", "hypothesis==6.170.15", "pyarrow==26.0.1")
TESTS = (
    "tests/unit/test_batch_chains.py",
    "tests/unit/test_batch_tables.py",
    "tests/unit/test_arrow_hostile.py",
    "tests/unit/test_arrow_reading.py",
    "tests/unit/test_arrow_writing.py",
)


class Interpreter(NamedTuple):
    program: Path
    libraries: Path | None = None
    """Where its own shared libraries are, if the system does not know."""

    def environment(self, **more: str) -> dict[str, str]:
        own = {"LD_LIBRARY_PATH": str(self.libraries)} if self.libraries else {}
        return {**os.environ, **own, **more}


def main(versions: list[str]) -> int:
    unknown = sorted(set(versions) - set(MAVEN_VERSIONS))
    if unknown:
        raise SystemExit(f"no Python {', '.join(unknown)}: one of {', '.join(MAVEN_VERSIONS)}")
    for version in versions or list(MAVEN_VERSIONS):
        with tempfile.TemporaryDirectory(prefix=f"tidelog-wheel-{version}-") as directory:
            wheel = build_and_try(find_interpreter(version), Path(directory))
            (ROOT / "dist").mkdir(exist_ok=True)
            shutil.copy(wheel, ROOT / "dist")
            print(f"{version}: dist/{wheel.name}, compiled and tried", flush=True)
    return 0


def find_interpreter(version: str) -> Interpreter:
    found = shutil.which(f"python{version}")
    if found and _has_headers(Path(found)):
        return Interpreter(Path(found))
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for each in sorted(pyenv.glob(f"{version}.*/bin/python{version}")):
        return Interpreter(each)
    return _from_maven(version)


def _has_headers(program: Path) -> bool:
    code = "import sysconfig; print(sysconfig.get_path('include'))"
    asked = subprocess.run([program, "-c", code], capture_output=True, text=True, check=False)
    return asked.returncode == 0 and (Path(asked.stdout.strip()) / "Python.h").exists()


def _from_maven(version: str) -> Interpreter:
    home = CACHE / MAVEN_VERSIONS[version]
    inside = home / "org/bytedeco/cpython/linux-x86_64"
    if not inside.exists():
        home.mkdir(parents=True, exist_ok=True)
        artifact = f"org.bytedeco:cpython:{MAVEN_VERSIONS[version]}:jar:linux-x86_64"
        copy = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}"]
        subprocess.run([*copy, f"-DoutputDirectory={home}"], cwd=home, check=True)
        (jar,) = home.glob("*.jar")
        with zipfile.ZipFile(jar) as packed:
            packed.extractall(home)
        jar.unlink()
    program = inside / "bin" / f"python{version}"
    program.chmod(0o755)
    return Interpreter(program, inside)


def build_and_try(python: Interpreter, directory: Path) -> Path:
    """The wheel, in `directory`. Whatever fails ends the program with the command that did."""
    sources = directory / "sources"
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "not_compiled.txt")
    shutil.copytree(ROOT / "src", sources / "src", ignore=ignored)
    for name in SOURCES:
        shutil.copy(ROOT / name, sources / name)
    place = directory / "venv"
    _run(python, python.program, "-m", "venv", place)
    pip = (place / "bin/python", "-m", "pip", "--disable-pip-version-check", "-q")
    _run(python, *pip, "wheel", "--no-deps", "-w", directory, sources, TIDELOG_REQUIRE_NATIVE="1")
    (wheel,) = directory.glob("*.whl")
    _run(python, *pip, "install", wheel, *NEEDED_BY_TESTS)
    told = json.loads(_run(python, place / "bin/tidelog", "version", "-o", "json"))
    if told["kernels"] != "compiled":
        raise SystemExit(f"{wheel.name}: {told['why_not_compiled']}")
    _run(python, place / "bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS)
    try_a_node(python, place / "bin/tidelog", directory / "data")
    return wheel


def try_a_node(python: Interpreter, tidelog: Path, data: Path) -> None:
    """A record goes in and comes out again."""
    alone = ("--brokers", "1", "--port", "0", "--data-dir", data)
    started = json.loads(_run(python, tidelog, "up", "--detach", "-o", "json", *alone))
    there = ("-b", started["bootstrap_servers"])
    try:
        _run(python, tidelog, "topic", "create", "tried", *there)
        _run(python, tidelog, "produce", "tried", "--value", "a record", *there)
        read = _run(python, tidelog, "consume", "tried", "--from", "start", "-n", "1", *there)
    finally:
        _run(python, tidelog, "down", "--data-dir", data)
    if "a record" not in read:
        raise SystemExit(f"consumed {read!r} instead of the record that was written")


def _run(python: Interpreter, *words: object, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=ROOT,
        env=python.environment(**environment),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.stderr.write(done.stdout[-8_000:] + done.stderr[-8_000:])
        raise SystemExit(f"failed: {' '.join(str(word) for word in words)}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
