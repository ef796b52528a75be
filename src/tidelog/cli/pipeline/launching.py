"""What commands that run a pipeline share: their options, a session, a line per batch."""

import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tidelog.cli.durations import DURATION
from tidelog.cli.failure import ERROR, OK, USAGE, CommandError
from tidelog.cli.pipeline.table_options import given_store_options
from tidelog.cli.spark_options import check_form, check_url, parse_conf
from tidelog.spark.failure import InvalidOption, TidelogError, words_of
from tidelog.spark.pipelines.batches import Batch, line
from tidelog.spark.pipelines.checkpoint import StoredCheckpoint
from tidelog.spark.pipelines.events import RESTARTED
from tidelog.spark.pipelines.lag_group import LagGroup, usual_group
from tidelog.spark.pipelines.metrics import Address, Figures, served
from tidelog.spark.pipelines.names import UsualName
from tidelog.spark.pipelines.running import Pace, Run, follow, nothing, noting_failure
from tidelog.spark.pipelines.state import HOME, PipelineState
from tidelog.spark.security_options import Access
from tidelog.spark.session import LOCAL, is_submitted
from tidelog.spark.tables.store_options import store_options
from tidelog.spark.tables.stores import Store, is_local, located, scheme_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NO_GROUP = "none"
STORED = "s3://bucket/checkpoints/orders, gs://… or abfss://…"
STARTS_AGAIN = 3
"""How often a query is started again for one and the same error."""
NAME_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,200}")


class Launch(NamedTuple):
    """How a pipeline is to be run, whatever it does."""

    name: str | None
    home: Path
    pace: Pace
    spark_url: str
    conf: Mapping[str, str]
    group: str | None = None
    """Whose offsets say how far it is; None: one that is named like the pipeline."""
    metrics: Address | None = None
    linger_ms: int = 0
    """How long a failure can be asked for."""
    checkpoint: Store | None = None
    """Where Spark's checkpoint is to lie; None: in `home`."""

    def state(self, usual_name: str) -> PipelineState:
        name = self.name or usual_name
        check_name(name)
        if re.match(r"[a-z0-9]+:/", str(self.home)):  # what a path leaves of `s3://`
            raise CommandError(
                f"wrong value for --state-dir: {self.home}",
                why="the lock, the log and the figures of a pipeline are files of a directory",
                advice=f"for the checkpoint alone say --checkpoint {STORED}",
                code=USAGE,
            )
        checkpoint = None if self.checkpoint is None else StoredCheckpoint(self.checkpoint)
        return PipelineState(self.home / name, checkpoint)


def check_name(name: str) -> None:
    if not NAME_PATTERN.fullmatch(name) or name in (".", ".."):
        raise CommandError(
            f"wrong value for --name: {name}",
            why="it names a directory: letters, digits, dots, dashes and underscores",
            advice="--name orders-archive",
            code=USAGE,
        )


def check_launch(given: Mapping[str, Any]) -> None:
    """What can be judged of these options without asking anybody."""
    if given["name"] is not None:
        check_name(given["name"])
    checkpoint_place(given.get("checkpoint"), given)
    parse_conf(given["conf"])
    check_form(given["spark_url"])


def checkpoint_place(text: str | None, given: Mapping[str, Any]) -> Store | None:
    """Its login is in the environment, or among the options of the table, if both are in stores of
    one kind."""
    if text is None:
        return None
    try:
        place = located(text)
        if is_local(place):
            raise InvalidOption("it is a directory", "--state-dir is for directories")
        wanted = {}
        if "store_option" in given and scheme_of(located(given["to"])) == scheme_of(place):
            wanted = given_store_options(given)
        return Store(place, store_options(scheme_of(place), wanted))
    except InvalidOption as error:
        raise CommandError(
            f"wrong value for --checkpoint: {text}",
            why=error.what,
            advice=f"--checkpoint {STORED}",
            code=USAGE,
        ) from None


class Beside(NamedTuple):
    """What a pipeline does beside its batches, in the process that runs it."""

    between: Callable[[], None] = nothing
    """A few times a second."""
    finish: Callable[[], None] = nothing
    """When the last batch is done."""


class Job(NamedTuple):
    """One pipeline with its arguments."""

    name: UsualName
    arguments: Mapping[str, Any]
    """What a checkpoint belongs to: it is not gone on with if one of them differs."""
    target: str
    """Where rows go, for people."""
    source: Access
    """Where they come from, and where a group says how far it is."""
    start: Callable[["SparkSession", PipelineState, Launch], "StreamingQuery"]
    again: Callable[[TidelogError], bool] = lambda error: False
    """Whether a start anew would help against an error."""
    check: Callable[[PipelineState], None] = lambda state: None
    """What can be refused before Spark is started, beside what the state itself knows."""
    beside: Callable[[PipelineState], Beside] = lambda state: Beside()

    @property
    def kind(self) -> str:
        return self.name.kind


def runs_pipeline(function: Any) -> Any:
    """When batches begin and who is told of them, beside the options of `runs_spark`, all
    together as `launch`."""

    @functools.wraps(function)
    def wrapped(launch: Launch, once: bool, every_ms: int, **rest: Any) -> Any:
        port, host = rest.pop("metrics_port"), rest.pop("metrics_host")
        launch = launch._replace(
            pace=Pace(once, every_ms),
            group=rest.pop("group"),
            metrics=None if port is None else Address(host, port),
            linger_ms=rest.pop("linger_ms"),
            checkpoint=checkpoint_place(rest.pop("checkpoint"), rest),
        )
        return function(launch=launch, **rest)

    wrapped = runs_spark(wrapped)
    for option in reversed(PIPELINE_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


PIPELINE_OPTIONS = (
    click.option(
        "--checkpoint",
        metavar="PLACE",
        help=f"Where Spark's checkpoint lies, if not in --state-dir: {STORED}.",
    ),
    click.option("--once", is_flag=True, help="Do what is there now, then end."),
    click.option(
        "--every",
        "every_ms",
        type=DURATION,
        default="1s",
        show_default=True,
        help="How often a batch begins.",
    ),
    click.option(
        "--group",
        metavar="NAME",
        help="Whose committed offsets say how far it is, for lag tools; made of its name if not "
        f"given; {NO_GROUP}: nobody's.",
    ),
    click.option(
        "--metrics-port",
        type=click.IntRange(0, 65_535),
        metavar="PORT",
        help="Serve metrics for Prometheus; 0: any port, which status tells.",
    ),
    click.option(
        "--metrics-host", default="127.0.0.1", show_default=True, help="Where to serve them."
    ),
    click.option(
        "--metrics-linger",
        "linger_ms",
        type=DURATION,
        default="15s",
        show_default=True,
        help="How long a failure waits to be scraped, once, before the process ends.",
    ),
)


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
    check_spark(launch)
    with spoken(), launch.state(job.name.within(launch.home)) as state:
        state.check(job.kind, job.arguments)
        figures = Figures(state.name, job.kind, state.known)
        with served(figures, launch.metrics, launch.linger_ms / 1000) as url:
            interrupted = run_job(state, job, launch, Told(figures, url, output))
    if interrupted:
        raise KeyboardInterrupt
    return OK


class Told(NamedTuple):
    """Who is told of batches, beside what lies in the directory of the pipeline."""

    figures: Figures
    metrics_url: str | None
    output: str


def run_job(state: PipelineState, job: Job, launch: Launch, told: Told) -> bool:
    """Whether somebody asked it to end."""
    group = lag_group(state, job, launch)
    begun = {"group": group.group if group else None, "metrics": told.metrics_url}
    state.begin(job.kind, job.arguments, spark=launch.spark_url, **begun)
    if told.metrics_url is not None:
        click.echo(f"metrics at {told.metrics_url}", err=True)
    with noting_failure(state):
        job.check(state)
        if group is not None:
            group.committed(state.committed_offsets())
        with session(launch, state) as spark:
            state.runs_on(spark.sparkContext.master or launch.spark_url)
            run = _followed(spark, state, job, launch, Watch(state, job, told, group))
    if told.output == "text" and not run.batches and not run.interrupted:
        click.echo(f"nothing new; {state.name} has read all there is", err=True)
    return run.interrupted


def lag_group(state: PipelineState, job: Job, launch: Launch) -> LagGroup | None:
    name = launch.group or usual_group(state.name)
    if name == NO_GROUP:
        return None
    return LagGroup(job.source, name, lambda words: click.echo(f"{state.name}: {words}", err=True))


class Watch:
    """Tells everybody of every batch."""

    __slots__ = ("_beside", "_group", "_job", "_state", "_told")

    def __init__(self, state: PipelineState, job: Job, told: Told, group: LagGroup | None) -> None:
        self._state = state
        self._job = job
        self._told = told
        self._group = group
        self._beside = job.beside(state)

    def batch(self, batch: Batch) -> None:
        if self._told.output == "json":
            click.echo(json.dumps({"name": self._state.name, **batch.as_document()}))
        else:
            click.echo(line(batch, self._job.target))
        self._told.figures.batch(batch)
        if self._group is not None:
            self._group.committed(batch.end)

    def between(self) -> None:
        if self._group is not None:
            self._group.retry()
        self._beside.between()

    def finish(self) -> None:
        if self._group is not None:
            self._group.finish()
        self._beside.finish()

    def restarted(self, error: TidelogError) -> None:
        self._state.count("restarts", 1)
        self._state.events.add(RESTARTED, {"name": self._state.name, "error": error.what})


def _followed(
    spark: "SparkSession", state: PipelineState, job: Job, launch: Launch, watch: Watch
) -> Run:
    """Started anew where that helps. What comes back again and again does not go away; once or
    twice it may, because brokers hear of a new topic one after the other."""
    seen: Counter[str] = Counter()
    while True:
        try:
            query = job.start(spark, state, launch)
            run = follow(query, state, watch.batch, watch.between)
        except TidelogError as error:
            seen[error.what] += 1
            if seen[error.what] > STARTS_AGAIN or not job.again(error):
                raise
            watch.restarted(error)
            click.echo(f"{error.what}: starting the query again", err=True)
        else:
            watch.finish()
            return run


def check_spark(launch: Launch) -> None:
    """Before anything is written: nobody waits a minute for a cluster that is not there."""
    from tidelog.spark.session import running_session

    if running_session() is None and not is_submitted():
        check_url(launch.spark_url)


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
    if is_submitted():
        click.echo("Spark as spark-submit has started it", err=True)
    else:
        click.echo(f"Spark on {launch.spark_url}; its log is {state.spark_log}", err=True)
    try:
        with says_into(state.spark_log):
            spark = open_session(state.name, spark_url=launch.spark_url, conf=launch.conf)
    except TidelogError:
        raise
    except Exception as reason:  # the border to a JVM that may fail in any way
        first = next(iter(str(reason).strip().splitlines()), type(reason).__name__)
        raise TidelogError(
            f"Spark did not start on {launch.spark_url}: {first}", f"look into {state.spark_log}"
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
