"""Iceberg's own REST catalog for tests, as a process: jars from Maven and a little Java."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
JARS = HERE.parents[2] / ".cache" / "iceberg-rest"
FETCH_TIMEOUT_S = 300


def fetched() -> str | None:
    """None if the jars are there now, else why they cannot be had."""
    if JARS.exists():
        return None
    if shutil.which("mvn") is None:
        return "there is no mvn to fetch Iceberg's REST catalog with: install Maven"
    partial = JARS.with_name(f"iceberg-rest-{os.getpid()}")
    command = ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
    done = subprocess.run(
        [*command, f"-DoutputDirectory={partial}"],
        capture_output=True,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        said = (done.stdout or done.stderr).strip().splitlines()
        return f"Maven cannot fetch Iceberg's REST catalog: {said[0] if said else '?'}"
    if not JARS.exists():
        partial.rename(JARS)
    return None


@contextmanager
def running_or_skipped() -> Iterator[str]:
    """Its URI, while it runs. In CI nothing may be skipped."""
    missing = fetched()
    if missing is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    command = ["java", "-Xmx256m", "-cp", f"{JARS}/*", str(HERE / "RestCatalog.java")]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        words = server.stdout.readline().split()
        assert words[:1] == ["port"], f"Iceberg's REST catalog said {words}"
        yield f"http://127.0.0.1:{words[1]}"
    finally:
        server.terminate()
        server.wait(20)
        assert server.stdout is not None
        server.stdout.close()
