"""What the whole story needs beside Tidelog itself. Imports nothing of it."""

import importlib.util

from tidelog.cli.failure import USAGE, CommandError
from tidelog.spark.failure import TidelogError
from tidelog.spark.session import check_java

PACKAGES = ("pyspark", "pyarrow", "pandas", "deltalake", "matplotlib")


def check_spark() -> None:
    """Before anything is started: CommandError if Spark cannot run here."""
    otherwise = "tidelog demo --without-spark"
    missing = [each for each in PACKAGES if importlib.util.find_spec(each) is None]
    if missing:
        raise CommandError(
            "the demo needs Spark",
            why=f"not installed: {', '.join(missing)}",
            advice=f"pip install 'tidelog[spark]'    or    {otherwise}",
            code=USAGE,
        )
    try:
        check_java()
    except TidelogError as error:
        raise CommandError(
            "the demo needs Spark",
            why=error.what,
            advice=f"{error.advice}    or    {otherwise}",
            code=USAGE,
        ) from None
