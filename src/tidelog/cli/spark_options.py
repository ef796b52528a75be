"""`--master` and `--conf`: where a command runs that can also run on Spark."""

import functools
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.failure import ERROR, UNREACHABLE, USAGE, CommandError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_WITHIN_SECONDS = 5
_NUMBER = r"(\d+|\*)"
_KNOWN_URLS = re.compile(
    rf"local(\[{_NUMBER}(,\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|yarn|k8s://.+"
)
_STANDALONE = re.compile(r"spark://([^\s:/,]+:\d{1,5}(?:,[^\s:/,]+:\d{1,5})*)")
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
                f'"{text}" is no setting of Spark',
                why="a setting is a key, = and a value",
                advice="--conf spark.executor.memory=2g",
                code=USAGE,
            )
        settings[key.strip()] = value.strip()
    return settings


@contextmanager
def spark_session(name: str, spark_url: str, conf: dict[str, str]) -> Iterator["SparkSession"]:
    """A quiet session that ends with the block; what is wrong with the URL, Java or Spark is
    one error."""
    from tidelog.spark.failure import TidelogError, words_of
    from tidelog.spark.session import open_session

    check_url(spark_url)
    try:
        session = open_session(name, spark_url=spark_url, conf=conf)
    except TidelogError as reason:
        why, advice = reason.what, reason.advice
        raise CommandError("Spark cannot be started", why=why, advice=advice) from None
    except Exception as reason:  # whatever the JVM says, its first line has to do
        raise CommandError(
            "Spark cannot be started",
            why=first_line(reason),
            advice=f"--master {EXAMPLES}; --debug shows all of it",
        ) from reason
    try:
        session.sparkContext.setLogLevel("OFF")
        yield session
    except CommandError:
        raise
    except Exception as reason:
        words = words_of(reason)
        if words is None and not type(reason).__module__.startswith(("pyspark", "py4j")):
            raise
        raise CommandError(
            "Spark gave up",
            why=words or first_line(reason),
            advice="--debug shows all that Spark said",
            code=ERROR,
        ) from reason
    finally:
        session.stop()


def check_url(spark_url: str) -> None:
    """Spark itself would need a minute, and a screen, to say that nobody is there."""
    standalone = _STANDALONE.fullmatch(spark_url)
    if standalone is None:
        if _KNOWN_URLS.fullmatch(spark_url) is None:
            raise CommandError(
                f'"{spark_url}" is no Spark cluster',
                why=f"known: {EXAMPLES}",
                advice="--master 'local[*]'",
                code=USAGE,
            )
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


def first_line(reason: BaseException) -> str:
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(reason).__name__
