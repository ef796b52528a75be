"""Iceberg's own REST catalog for tests, as a process: jars from Maven and a little Java."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.server_process import announced, skip_or_fail

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
    """Its URI, while it runs."""
    missing = fetched()
    if missing is not None:
        skip_or_fail(missing)
    command = ["java", "-Xmx256m", "-cp", f"{JARS}/*", HERE / "RestCatalog.java"]
    with announced(command) as address:
        yield f"http://{address}"
