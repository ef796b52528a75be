"""`tidelog lab`: replication told step by step."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from tidelog.cli import lab_port
from tidelog.cli.failure import OK, USAGE, VIOLATION, CommandError
from tidelog.cli.lazy import Lazy, LazyGroup, output_option, shared_options
from tidelog.cli.local.home import place_options
from tidelog.cli.output import print_json, table

COMMANDS = {
    "list": Lazy("tidelog.cli.lab", "List the stories, in reading order.", "list_command"),
    "run": Lazy("tidelog.cli.lab", "Play one story.", "run_command"),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Replication told step by step, on the real state machines.

    \b
    Examples:
      tidelog lab list
      tidelog lab run reconcile --step
    """


@click.command(name="list")
@output_option
@shared_options
def list_command(output: str) -> None:
    """List the stories.

    \b
    Example:
      tidelog lab list
    """
    stories = list(lab_port.load_lab().stories())
    if output == "json":
        print_json([{"name": story.name, "title": story.title} for story in stories])
    else:
        table(["NAME", "STORY"], [[story.name, story.title] for story in stories])


@click.command(name="run")
@click.argument("name_of_story", metavar="NAME")
@click.option("--step", is_flag=True, help="Wait before each step, with its question.")
@click.option(
    "--on",
    type=click.Choice(["sim", "cluster"]),
    default="sim",
    show_default=True,
    help="The simulator, or the cluster that `tidelog up --lab` started.",
)
@place_options
@output_option
@shared_options
@click.pass_context
def run_command(context: click.Context, /, **given: Any) -> None:
    """Play the story NAME and check that it comes out as told.

    \b
    Examples:
      tidelog lab run reconcile --step
      tidelog lab run reconcile --on cluster

    Ends with exit code 5 if it does not.
    """
    name, step, output = given["name_of_story"], given["step"], given["output"]
    if step and (output == "json" or not sys.stdin.isatty()):
        raise CommandError(
            "cannot wait between steps",
            why="--step needs a terminal and text output",
            advice=f"tidelog lab run {name}",
            code=USAGE,
        )
    lab = lab_port.load_lab()
    story = lab_port.find_story(lab, name)
    lines: list[str] = []
    tell = lines.append if output == "json" else click.echo
    asks = ask if step else None
    if given["on"] == "cluster":
        from tidelog.cli.lab_cluster import run_on_cluster

        broken = run_on_cluster(name, given["data_dir"], given["name"], tell=tell, ask=asks)
    else:
        broken = lab.run(name, tell=tell, ask=asks)
    if output == "json":
        print_json({"name": name, "title": story.title, "lines": lines, "broken": broken})
    else:
        print_broken(broken)
    context.exit(VIOLATION if broken else OK)


def ask(question: str) -> bool:
    """Show a question and wait for enter; q ends the story."""
    click.echo(f"{question}   enter reveal · q quit", err=True)
    return click.getchar() not in ("q", "Q", "\x03")


def print_broken(broken: Sequence[str]) -> None:
    for sentence in broken:
        click.echo(f"not as told: {sentence}")
