"""A Spark session for our own commands, and what can be wrong with the Java it needs."""

import atexit
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.client.security import SECRET_NAME
from tidelog.spark import early_worker, quiet_daemon
from tidelog.spark.failure import TidelogError
from tidelog.spark.save_mode import append_without_mode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
LOCAL = "local[*]"
QUICK_PYTHON = """#!/bin/sh
set -f
IFS=:
kept=
for each in $PYTHONPATH; do
    case $each in
        {package}/*) ;;
        *) kept=$kept${{kept:+:}}$each ;;
    esac
done
export PYTHONPATH="$kept"
case "$1 $2" in
    "-m {streaming}") exec {python} {early_worker} "$2" ;;
    "-m {daemon}") shift 2; exec {python} {quiet_daemon} "$@" ;;
esac
exec {python} "$@"
"""
"""What lies in the installed package are its archives. Those of another Spark stay."""
STREAMING_WORKER = "pyspark.sql.streaming.python_streaming_source_runner"
DAEMON = "pyspark.daemon"
_VERSION = re.compile(r'version "(\d+)')

REDACTION = "spark.sql.redaction.options.regex"
"""Options whose names it matches are hidden in plans."""

QUIET: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
}
ON_THIS_MACHINE: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
SOCKET_NAME_LENGTH = len("/.01234567-89ab-cdef-0123-456789abcdef.sock")
LONGEST_SOCKET_PATH = 100
"""Systems allow a little more."""


def check_java() -> None:
    """TidelogError if there is no Java that Spark can use; says which one was found."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = f"install Java {OLDEST_JAVA} or later and set JAVA_HOME"
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {home}" if home else "there is no java on the PATH"
        raise TidelogError(f"Spark needs Java, and {where}", advice)
    answer = subprocess.run(  # noqa: S603 - the very program that Spark would start
        [java, "-version"], capture_output=True, text=True, check=False, timeout=30
    )
    found = _VERSION.search(answer.stderr + answer.stdout)
    if found is None:
        raise TidelogError(f"{java} does not say which version it is", advice)
    if int(found[1]) < OLDEST_JAVA:
        raise TidelogError(f"Spark needs Java {OLDEST_JAVA}, and {java} is Java {found[1]}", advice)


def open_session(
    name: str, *, spark_url: str = LOCAL, conf: Mapping[str, str] | None = None
) -> "SparkSession":
    """A session whose workers run this very interpreter, so that they know `format("tidelog")`."""
    check_java()
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra
    except ImportError:
        advice = "pip install 'tidelog[spark]'"
        raise TidelogError("PySpark is not installed", advice) from None
    settings = dict(QUIET)
    if not is_submitted() and spark_url.startswith("local"):
        settings.update(ON_THIS_MACHINE)
        settings.update(sockets_in(_own_directory()))
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        use_python(os.environ.get("PYSPARK_PYTHON") or _own_quick_python())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings.update(conf or {})
    builder = SparkSession.builder.appName(name)
    if not is_submitted():
        builder = builder.master(spark_url)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    hide_secrets(session)
    append_without_mode(session)
    return session


def is_submitted() -> bool:
    """Whether `spark-submit` has started this process: then it has said where Spark runs."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def use_python(program: str | Path) -> None:
    """What Spark runs as Python in the next session of this process. `PYSPARK_DRIVER_PYTHON` goes
    before `PYSPARK_PYTHON` where Spark looks for formats, and may be `jupyter`."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = str(program)


def hide_secrets(spark: "SparkSession") -> None:
    """In plans. Spark hides passwords by itself, also those in `sasl.jaas.config`, and shows a
    private key that is given as text (`ssl.keystore.key`), and a login in the address of a
    registry."""
    hidden = spark.conf.get(REDACTION, None)
    ours = f"{SECRET_NAME}|^registry$"
    if hidden is None or ours not in hidden:
        spark.conf.set(REDACTION, f"{hidden}|{ours}" if hidden else f"(?i){ours}")


def quick_python(program: Path) -> Path:
    """Write a program that is this interpreter for Spark, and give it to `use_python`.

    Spark puts PySpark as an archive before the installed one, and Python compiles what is in an
    archive each time: most of a second for every streaming query, which has a process of its own
    on the driver. The same PySpark as it is installed starts in a third of that. And that process
    connects to Spark before it loads anything (`early_worker`), so that it is there in time on a
    machine that has much else to do.
    """
    found = find_spec("pyspark")
    assert found is not None, "PySpark is an extra that whoever asks for this has"
    assert found.origin is not None, found
    python, package = shlex.quote(sys.executable), shlex.quote(str(Path(found.origin).parent))
    text = QUICK_PYTHON.format(
        python=python,
        package=package,
        streaming=STREAMING_WORKER,
        early_worker=shlex.quote(early_worker.__file__),
        daemon=DAEMON,
        quiet_daemon=shlex.quote(quiet_daemon.__file__),
    )
    program.write_text(text)
    program.chmod(0o700)
    return program.absolute()  # Spark would look for a mere name on the PATH


def sockets_in(directory: Path) -> Mapping[str, str]:
    """Settings by which rows go between Java and Python through sockets of this machine and not
    through TCP. Spark leaves their files behind. Before 4.1 they have no effect."""
    if len(os.fsencode(directory)) + SOCKET_NAME_LENGTH > LONGEST_SOCKET_PATH:
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(directory),
    }


@cache
def _own_quick_python() -> str:
    return str(quick_python(_own_directory() / "python"))


@cache
def _own_directory() -> Path:
    """For the sessions of this process, and gone with it."""
    directory = Path(tempfile.mkdtemp(prefix="tidelog-python-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def running_session() -> "SparkSession | None":
    """The one that this process has already, if any."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    return SparkSession.getActiveSession()
