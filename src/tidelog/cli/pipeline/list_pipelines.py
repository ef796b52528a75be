"""`tidelog pipeline list`"""

from pathlib import Path
from typing import Any

import click

from tidelog.cli.lazy import shared_options, table_option
from tidelog.cli.pipeline.status import COLUMNS, home_option, row_of
from tidelog.cli.tables import JSON, Column, show
from tidelog.spark.pipelines.state import known_pipelines

KINDS = (
    {"kind": "archive", "does": "topics into a Delta, Iceberg or Parquet table, exactly once"},
    {
        "kind": "upsert",
        "does": "what topics have led to as a Delta or Iceberg table, a row per key",
    },
    {"kind": "mirror", "does": "topics to another cluster, exactly once, with groups if wanted"},
    {"kind": "health", "does": "failovers, ISR, lag and balance from the events of a cluster"},
)
KIND_COLUMNS = (Column("KIND", "kind"), Column("WHAT IT DOES", "does"))


@click.command(name="list")
@home_option
@table_option
@shared_options
def command(home: Path, output: str) -> None:
    """List the kinds of pipelines there are, and those that ran here.

    \b
    Examples:
      tidelog pipeline list
      tidelog pipeline list -o json
    """
    known: list[dict[str, Any]] = known_pipelines(home)
    if output == JSON:
        show(output, {"kinds": KINDS, "pipelines": known}, COLUMNS, [])
        return
    if output != "tsv":
        show(output, KINDS, KIND_COLUMNS, KINDS)
        click.echo()
    show(output, known, COLUMNS, [row_of(each) for each in known])
    if not known:
        click.echo(f"none ran here yet: there is nothing in {home}", err=True)
