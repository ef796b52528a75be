"""`tidelog pipeline run`"""

import os
from pathlib import Path

import click

from tidelog.cli.lazy import shared_options
from tidelog.cli.pipeline.definition import read_definition


@click.command(name="run", context_settings={"ignore_unknown_options": True})
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.argument("more", nargs=-1, type=click.UNPROCESSED, metavar="[OPTION]…")
@click.option("--check", is_flag=True, help="Only judge the file: no Spark, no cluster is asked.")
@click.option("--once", is_flag=True, help="Do what is there now, then end.")
@shared_options
@click.pass_context
def command(
    context: click.Context, *, file: Path, more: tuple[str, ...], check: bool, once: bool
) -> None:
    """Run a pipeline that a file describes. Its keys are the options of the command of its kind.

    \b
    Examples:
      tidelog pipeline run orders.toml
      tidelog pipeline run orders.toml --check
      tidelog pipeline run orders.toml --once

    \b
    orders.toml:
      kind = "archive"
      topics = ["orders", "payments"]
      to = "lake/sales"
      format = "delta"
      partition-by = "topic,date"
      bootstrap = "broker:9092"
      metrics-port = 9400
      [conf]
      "spark.driver.memory" = "2g"

    ${NAME} in a text is the variable NAME of the environment. Options of that command may follow
    the file, and win over it. Paths are those of the directory that it is run in.
    """
    definition = read_definition(file)
    words = [*(("--once",) if once else ()), *more]
    given = before_topics(definition.words(os.environ.get), words)
    inner = definition.context(given, context.parent)
    if check:
        definition.check(inner)
        click.echo(f"{file}: {definition.kind}, nothing is wrong with it")
        return
    with inner:
        definition.command.invoke(inner)


def before_topics(words: list[str], more: list[str]) -> list[str]:
    """Options after those of the file, so that they win, and before what is no option."""
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], *more, *words[at:]]
