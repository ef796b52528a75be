"""A Spark of the demo's own: it says nothing on the terminal, and nothing of it is left."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.spark.failure import TidelogError, words_of
from tidelog.spark.quiet import says_into
from tidelog.spark.session import open_session, quick_python, use_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP_WITHIN_SECONDS = 20
PROGRESS_KEPT = 2_000
QUICK_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
"""Two minutes are too short for the optimizing compiler to earn its keep."""


@contextmanager
def spark_in(home: Path) -> Iterator["SparkSession"]:
    """A session whose files and words stay in this directory. Its JVM is gone at the end, so
    errors of Spark's are told before: without it they have no words."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
    from pyspark.errors import PySparkException

    temporary = home / "spark"
    temporary.mkdir()
    conf = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"{QUICK_START} -Djava.io.tmpdir={temporary}",
        "spark.python.authenticate.socketTimeout": "60s",  # machines that do much else
        "spark.local.dir": str(temporary),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.numRecentProgressUpdates": str(PROGRESS_KEPT),
        "spark.sql.warehouse.dir": str(temporary / "warehouse"),
    }
    use_python(quick_python(home / "python"))
    with says_into(home / "spark.log"):
        session = open_session("tidelog demo", conf=conf)
    try:
        yield session
    except (PySparkException, Py4JError) as error:
        raise told(error) from None
    finally:
        _end(session)


def _end(session: "SparkSession") -> None:
    """Also the JVM, which would live as long as we do."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    session.stop()
    process = getattr(gateway, "proc", None)
    if gateway is not None and process is not None:
        gateway.shutdown()
        process.stdin.close()
        try:
            process.wait(STOP_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        SparkContext._gateway = SparkContext._jvm = None


def told(error: BaseException) -> TidelogError:
    """Our own words in an error of Spark's, or the first line of its own."""
    words = words_of(error) or f"Spark says: {first_line(error)}; see its log"
    what, _, advice = words.rpartition("; ")
    return TidelogError(what or words, advice)


def first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))


def log_tail(home: Path, lines: int = 8) -> list[str]:
    path = home / "spark.log"
    return path.read_text("utf-8", "replace").splitlines()[-lines:] if path.exists() else []
