"""A Spark session for our own commands, and what can be wrong with the Java it needs."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.spark.failure import TidelogError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
LOCAL = "local[*]"
_VERSION = re.compile(r'version "(\d+)')

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
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = dict(QUIET)
    if spark_url.startswith("local"):
        settings.update(ON_THIS_MACHINE)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings.update(conf or {})
    builder = SparkSession.builder.appName(name).master(spark_url)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def running_session() -> "SparkSession | None":
    """The one that this process has already, if any."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    return SparkSession.getActiveSession()
