"""`--master` and `--conf`: where a command runs that can also run on Spark."""

import functools
import re
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli import session
from tidelog.cli.failure import UNREACHABLE, USAGE, CommandError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_WITHIN_SECONDS = 5
_NUMBER = r"(\d+|\*)"
_KNOWN_URLS = re.compile(
    rf"local(\[{_NUMBER}(,\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|yarn|k8s://.+"
)
_STANDALONE = re.compile(r"spark://([^\s:/,]+:\d{1,5}(?:,[^\s:/,]+:\d{1,5})*)")
_RAISED = re.compile(r"[A-Z]\w*(Error|Exception): ")
LINE_MAX = 300
EXAMPLES = "local[*], spark://host:7077, yarn or k8s://https://host:443"


def spark_options(function: Any) -> Any:
    """Given to the command as `spark_url`, None if it runs here, and `conf`."""

    @functools.wraps(function)
    def wrapped(*args: Any, conf: tuple[str, ...], **rest: Any) -> Any:
        return function(*args, conf=parse_conf(conf), **rest)

    wrapped = click.option(
        "--conf", metavar="KEY=VALUE", multiple=True, help="Any setting of Spark, with --master."
    )(wrapped)
    return click.option("--master", "spark_url", metavar="URL", help="Run on this Spark cluster.")(
        wrapped
    )


def parse_conf(texts: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise CommandError(
                f"wrong value for --conf: {text}",
                why="it is a setting of Spark, an equals sign and its value",
                advice="--conf spark.executor.memory=2g",
                code=USAGE,
            )
        settings[key.strip()] = value.strip()
    return settings


@contextmanager
def spark_session(name: str, spark_url: str, conf: dict[str, str]) -> Iterator["SparkSession"]:
    """A session that ends with the block, and says nothing without --debug. Whatever is wrong
    with the URL, with Java or within Spark is one error."""
    from tidelog.spark.failure import TidelogError, words_of

    check_url(spark_url)
    click.echo(f"Spark on {spark_url}", err=True)
    with tempfile.TemporaryDirectory(prefix="tidelog-spark-") as directory:
        try:
            spark = _opened(name, spark_url, conf, Path(directory) / "spark.log")
        except TidelogError as reason:
            why, advice = reason.what, reason.advice
            raise CommandError("Spark cannot be started", why=why, advice=advice) from None
        except Exception as reason:  # the border to a JVM that may fail in any way
            why, advice = essence(reason), "the same with --debug, and another --conf"
            raise CommandError("Spark cannot be started", why=why, advice=advice) from None
        try:
            yield spark
        except Exception as reason:
            words = words_of(reason)
            if words is None and not is_sparks(reason):
                raise
            why, advice = words or essence(reason), "the same with --debug shows what Spark said"
            raise CommandError("Spark gave up", why=why, advice=advice) from None
        finally:
            spark.stop()


def _opened(name: str, spark_url: str, conf: dict[str, str], log: Path) -> "SparkSession":
    from tidelog.spark.quiet import says_into
    from tidelog.spark.session import open_session

    if session.current().debug:
        return open_session(name, spark_url=spark_url, conf=conf)
    with says_into(log):
        return open_session(name, spark_url=spark_url, conf=conf)


def check_form(spark_url: str) -> None:
    if not (_STANDALONE.fullmatch(spark_url) or _KNOWN_URLS.fullmatch(spark_url)):
        raise CommandError(
            f'"{spark_url}" is no Spark cluster',
            why=f"known: {EXAMPLES}",
            advice="--master 'local[*]'",
            code=USAGE,
        )


def check_url(spark_url: str) -> None:
    """Spark itself would need a minute, and a screen, to say that nobody is there."""
    check_form(spark_url)
    standalone = _STANDALONE.fullmatch(spark_url)
    if standalone is None:
        return
    reasons = []
    for address in standalone[1].split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CONNECT_WITHIN_SECONDS).close()
        except (OSError, OverflowError) as reason:
            reasons.append(f"{address}: {reason}")
        else:
            return
    raise CommandError(
        f"{spark_url} cannot be reached",
        why="; ".join(reasons),
        advice="the address that Spark's own page shows, or --master 'local[*]'",
        code=UNREACHABLE,
    )


def is_sparks(reason: BaseException) -> bool:
    return type(reason).__module__.startswith(("pyspark", "py4j"))


def essence(reason: BaseException) -> str:
    """The one line that matters: what Python said in a worker, or how the error begins."""
    text = str(reason)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    chosen = raised[-1] if raised else (lines[0] if lines else type(reason).__name__)
    return chosen[:LINE_MAX]
