"""`tidelog audit history`: acknowledged writes against what is readable."""

from pathlib import Path
from typing import Any, NamedTuple

import click

from tidelog.audit.history import file
from tidelog.audit.history.checks import check
from tidelog.audit.history.file import ArrowMissing
from tidelog.audit.history.findings import Findings
from tidelog.audit.history.read_back import NotDrained, read_back
from tidelog.audit.history.rows import BadHistory, Row
from tidelog.cli.asking import Asking
from tidelog.cli.audit.given_cluster import cluster_options, given_cluster
from tidelog.cli.audit.undecided import undecided
from tidelog.cli.audit.verdict import print_findings
from tidelog.cli.failure import ERROR, OK, USAGE, VIOLATION, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import print_json
from tidelog.cli.spark_options import spark_options


class HistoryOptions(NamedTuple):
    """The command's options, as click found them."""

    path: str
    """A file or a directory; with --master anything that Spark can read."""
    bootstrap: str | None
    read_back: str | None
    timeout_ms: int
    spark_url: str | None
    conf: dict[str, str]
    output: str
    command_config: str | None = None

    @property
    def cluster(self) -> Asking | None:
        """Where the topics are read back from."""
        return given_cluster(self.bootstrap, self.timeout_ms, self.command_config)


@click.command(name="history")
@click.argument("path", metavar="FILE")
@cluster_options
@click.option(
    "--read-back",
    "read_back",
    metavar="FILE",
    help="What was read back: Parquet with topic, partition, offset and value.",
)
@spark_options
@output_option
@shared_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Judge a history: acknowledged writes against what can be read.

    \b
    Examples:
      tidelog audit history history.parquet
      tidelog audit history history.parquet -b 127.0.0.1:9092
      tidelog audit history history.parquet --command-config client.properties
      tidelog audit history history.parquet --read-back found.parquet --master 'local[*]'

    Topics are read back from the cluster of -b or --command-config. Without it and without
    --read-back the reads in the history are all there is. With --master the same
    checks run on Spark. Exit code 5 if a promise was broken.
    """
    options = HistoryOptions(**given)
    cluster = options.cluster
    if cluster is not None and options.read_back:
        raise CommandError(
            "a cluster together with --read-back",
            why="the records are read back from brokers or from a file",
            advice=f"tidelog audit history {options.path} -b {cluster.bootstrap}",
            code=USAGE,
        )
    found = judged(options)
    if options.output == "json":
        print_json({"history": options.path, **found.as_document()})
    else:
        print_findings(found)
    context.exit(OK if found.holds else VIOLATION)


def judged(options: HistoryOptions) -> Findings:
    try:
        if options.spark_url is not None:
            from tidelog.cli.audit.history_on_spark import judged_on_spark

            return judged_on_spark(options)
        rows = file.read(Path(options.path))
        return check(rows + more_rows(options, rows))
    except BadHistory as reason:
        raise CommandError(
            "this is no history",
            why=str(reason),
            advice="tidelog audit run --history FILE makes one; docs/operations.md has the columns",
            code=ERROR,
        ) from None
    except ArrowMissing as reason:
        raise CommandError("the file cannot be read", why=str(reason), advice=file.ADVICE) from None


def more_rows(options: HistoryOptions, rows: list[Row]) -> list[Row]:
    """What the last read found, if the history is not to be believed alone."""
    if options.read_back is not None:
        return file.read_back(Path(options.read_back))
    cluster = options.cluster
    if cluster is None:
        return []
    topics = file.topics_of(rows)
    try:
        return cluster.run(lambda client: read_back(client, topics, stall_ms=options.timeout_ms))
    except NotDrained as reason:
        raise undecided(reason) from None
