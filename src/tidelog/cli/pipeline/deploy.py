"""`tidelog pipeline deploy`"""

import sys
from pathlib import Path

import click

from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import shared_options
from tidelog.cli.pipeline.definition import Definition, read_definition
from tidelog.cli.pipeline.submissions import PLATFORMS, STANDALONE, Submission
from tidelog.cli.spark_options import check_form, parse_conf
from tidelog.spark.pipelines.state import HOME

PLACES = ("to", "state-dir", "command-config", "from-config", "to-config", "plot")
"""Keys that are paths, of kinds where they are."""


@click.command(name="deploy")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option(
    "--on", "platform", type=click.Choice(PLATFORMS), required=True, help="What kind of cluster."
)
@click.option("--master", "spark_url", metavar="URL", help="In place of that of the file.")
@click.option(
    "--environment",
    metavar="ARCHIVE",
    help="A packed virtual environment that Spark takes along (standalone, yarn).",
)
@click.option(
    "--image", default="tidelog-pipelines", show_default=True, help="Of containers (kubernetes)."
)
@click.option("--executors", type=click.IntRange(min=1), default=2, show_default=True)
@shared_options
@click.pass_context
def command(
    context: click.Context,
    *,
    file: Path,
    platform: str,
    spark_url: str | None,
    environment: str | None,
    image: str,
    executors: int,
) -> None:
    """Print what to submit so that a Spark cluster runs the pipeline of a file. Submits nothing.

    \b
    Examples:
      tidelog pipeline deploy orders.toml --on standalone --master spark://host:7077
      tidelog pipeline deploy orders.toml --on yarn --environment environment.tar.gz
      tidelog pipeline deploy orders.toml --on kubernetes --image registry/tidelog:1 > orders.yaml

    The output says in comments what has to be there before: the Python environment, and the
    directories that all machines must see. Variables that the file refers to are named, never
    their values.
    """
    definition = read_definition(file)
    inner = definition.context(definition.words(lambda name: f"${{{name}}}"), context.parent)
    definition.check(inner)
    given = inner.params
    url = address_of(platform, spark_url or given["spark_url"])
    if platform != STANDALONE:
        check_places(definition, platform)
    name = given["name"] or file.stem
    submission = Submission(
        definition,
        name,
        url,
        {**parse_conf(given["conf"])},
        environment,
        image,
        executors,
        sys.executable,
    )
    click.echo(submission.text(platform), nl=False)


def address_of(platform: str, url: str) -> str:
    """Where to submit to; Kubernetes' operator knows by itself."""
    if platform == "yarn":
        return "yarn"
    if platform == STANDALONE:
        check_form(url)
        if not url.startswith("spark://"):
            raise CommandError(
                "nobody says where the cluster is",
                why=f"the master is {url}",
                advice='--master spark://host:7077, or master = "…" in the file',
                code=USAGE,
            )
    return url


def check_places(definition: Definition, platform: str) -> None:
    """The driver runs on some machine, in some directory."""
    for key in PLACES:
        value = definition.values.get(key, str(HOME) if key == "state-dir" else None)
        if definition.kind == "mirror" and key == "to":
            continue
        if isinstance(value, str) and not (value.startswith("/") or "://" in value):
            where = definition.wrong(key, "").what.partition(": ")[0]
            raise CommandError(
                f"{where}: {key} is {value}",
                why=f"the driver runs somewhere in {platform}, where a path has to begin with /",
                advice=f'{key} = "/shared/{Path(value).name}"',
                code=USAGE,
            )
