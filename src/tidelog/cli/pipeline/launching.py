"""What commands that run a pipeline share: their options, a session, a line per batch."""

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tidelog.cli.durations import DURATION
from tidelog.cli.failure import ERROR, OK, USAGE, CommandError
from tidelog.cli.spark_options import check_url, parse_conf
from tidelog.spark.failure import InvalidOption, TidelogError, words_of
from tidelog.spark.pipelines.batches import Batch, line
from tidelog.spark.pipelines.running import Pace, Run, Tell, follow, noting_failure
from tidelog.spark.pipelines.state import HOME, PipelineState
from tidelog.spark.schema_words import GROWN
from tidelog.spark.session import LOCAL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,200}")


class Launch(NamedTuple):
    """How a pipeline is to be run, whatever it does."""

    name: str | None
    home: Path
    pace: Pace
    spark_url: str
    conf: Mapping[str, str]

    def state(self, usual_name: str) -> PipelineState:
        name = self.name or usual_name
        if not NAME_PATTERN.fullmatch(name) or name in (".", ".."):
            raise CommandError(
                f"wrong value for --name: {name}",
                why="it names a directory: letters, digits, dots, dashes and underscores",
                advice="--name orders-archive",
                code=USAGE,
            )
        if re.match(r"[a-z0-9]+:/", str(self.home)):  # what a path leaves of `s3://`
            raise CommandError(
                f"wrong value for --state-dir: {self.home}",
                why="the lock and Spark's checkpoint need a file system; Spark would need jars"
                " for an object store",
                advice="a directory that outlives the driver: a volume, or NFS",
                code=USAGE,
            )
        return PipelineState(self.home / name)


class Job(NamedTuple):
    """One pipeline with its arguments."""

    kind: str
    usual_name: str
    arguments: Mapping[str, Any]
    """What a checkpoint belongs to: it is not gone on with if one of them differs."""
    target: str
    """Where rows go, for people."""
    start: Callable[["SparkSession", PipelineState, Launch], "StreamingQuery"]
    again: Callable[[TidelogError], bool] = lambda error: False
    """Whether a start anew would help against an error."""


def runs_pipeline(function: Any) -> Any:
    """`--once` and `--every` beside those of `runs_spark`, all together as `launch`."""

    @functools.wraps(function)
    def wrapped(launch: Launch, once: bool, every_ms: int, **rest: Any) -> Any:
        return function(launch=launch._replace(pace=Pace(once, every_ms)), **rest)

    every = click.option(
        "--every",
        "every_ms",
        type=DURATION,
        default="1s",
        show_default=True,
        help="How often a batch begins.",
    )
    once = click.option("--once", is_flag=True, help="Do what is there now, then end.")
    return once(every(runs_spark(wrapped)))


def runs_spark(function: Any) -> Any:
    """`--name`, `--state-dir`, `--master` and `--conf`, together as `launch`."""

    @functools.wraps(function)
    def wrapped(
        name: str | None, home: Path, spark_url: str, conf: tuple[str, ...], **rest: Any
    ) -> Any:
        launch = Launch(name, home, Pace(once=True), spark_url, parse_conf(conf))
        return function(launch=launch, **rest)

    for option in reversed(SPARK_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


SPARK_OPTIONS = (
    click.option("--name", metavar="NAME", help="Of its checkpoint; made of what it does if not."),
    click.option(
        "--state-dir",
        "home",
        type=click.Path(file_okay=False, path_type=Path),
        default=HOME,
        show_default=True,
        help="Where checkpoints lie.",
    ),
    click.option(
        "--master",
        "spark_url",
        metavar="URL",
        default=LOCAL,
        show_default=True,
        help="Which Spark: local[N], spark://host:7077, yarn, k8s://…",
    ),
    click.option(
        "--conf",
        multiple=True,
        metavar="KEY=VALUE",
        help="Any setting of Spark; may be given again and again.",
    ),
)


def launch_job(launch: Launch, job: Job, output: str) -> int:
    """Run it to its end, with a session of its own. The exit code."""
    with spoken(), launch.state(job.usual_name) as state, session(launch, state) as spark:
        interrupted = run_job(spark, state, job, launch, output)
    if interrupted:
        raise KeyboardInterrupt
    return OK


def run_job(
    spark: "SparkSession", state: PipelineState, job: Job, launch: Launch, output: str
) -> bool:
    """The same on a session that is there. Whether somebody asked it to end."""
    state.begin(job.kind, job.arguments, spark=launch.spark_url)

    def tell(batch: Batch) -> None:
        if output == "json":
            click.echo(json.dumps({"name": state.name, **batch.as_document()}))
        else:
            click.echo(line(batch, job.target))

    with noting_failure(state):
        run = _followed(spark, state, job, launch, tell)
    if output == "text" and not run.batches and not run.interrupted:
        click.echo(f"nothing new; {state.name} has read all there is", err=True)
    return run.interrupted


def _followed(
    spark: "SparkSession", state: PipelineState, job: Job, launch: Launch, tell: Tell
) -> Run:
    """Started anew where that helps; what comes back after that does not go away."""
    before = None
    while True:
        try:
            return follow(job.start(spark, state, launch), state, tell)
        except TidelogError as error:
            if not job.again(error) or error.what == before:
                raise
            before = error.what
            done = "adding them" if GROWN in error.what else "going on with what is there now"
            click.echo(f"{error.what}: {done}", err=True)


@contextmanager
def session(launch: Launch, state: PipelineState) -> Iterator["SparkSession"]:
    """Started quietly: what the JVM says goes into a file beside the checkpoint. A session that
    this process has already is used as it is, and left alone."""
    from tidelog.spark.quiet import says_into
    from tidelog.spark.session import open_session, running_session

    there = running_session()
    if there is not None:
        yield there
        return
    check_url(launch.spark_url)
    click.echo(f"Spark on {launch.spark_url}; its log is {state.spark_log}", err=True)
    try:
        with says_into(state.spark_log):
            spark = open_session(state.name, spark_url=launch.spark_url, conf=launch.conf)
    except TidelogError:
        raise
    except Exception as reason:  # the border to a JVM that may fail in any way
        first = next(iter(str(reason).strip().splitlines()), type(reason).__name__)
        raise CommandError(
            f"Spark did not start on {launch.spark_url}",
            why=first,
            advice=f"look into {state.spark_log}",
        ) from None
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def spoken() -> Iterator[None]:
    """Errors of the connector, also those inside of Spark's, as errors of a command."""
    try:
        yield
    except TidelogError as error:
        raise command_error(error) from None
    except (CommandError, click.ClickException, KeyboardInterrupt):
        raise
    except Exception as reason:
        if words_of(reason) is None and not is_sparks(reason):
            raise
        from tidelog.spark.pipelines.running import failed

        raise command_error(failed(reason)) from None


def command_error(error: TidelogError) -> CommandError:
    wrong_use = isinstance(error, InvalidOption) or "Java" in error.what or "PySpark" in error.what
    code = USAGE if wrong_use else ERROR
    return CommandError("not done", why=error.what, advice=error.advice, code=code)


def is_sparks(reason: Exception) -> bool:
    return type(reason).__module__.startswith(("pyspark.", "py4j."))
