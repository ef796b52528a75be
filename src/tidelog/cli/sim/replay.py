"""`tidelog sim replay`: a plan from a file, run again."""

from pathlib import Path

import click

from tidelog.cli.failure import OK, USAGE, VIOLATION, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import print_json
from tidelog.cli.sim import report
from tidelog.cli.sim.options import check_mutant
from tidelog.sim.nodes import replay_file
from tidelog.sim.nodes.run import tell_node_plan
from tidelog.sim.results import SeedResult


@click.command(name="replay")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--everything", is_flag=True, help="Also appends and high watermarks in the story.")
@output_option
@shared_options
@click.pass_context
def command(context: click.Context, file: Path, everything: bool, output: str) -> None:
    """Run the plan in FILE again and tell its story.

    \b
    Example:
      tidelog sim replay seed-4711.replay.json

    Ends with exit code 5 if it still breaks a rule.
    """
    replay = read(file)
    check_mutant(replay.mutant)
    told = tell_node_plan(replay.plan, mutant=replay.mutant)
    if output == "json":
        document = report.story_json(told, everything=everything)
        print_json({**document, "same_digest": told.result.digest == replay.digest})
    else:
        report.print_story(told, again=f"tidelog sim replay {file}", everything=everything)
        click.echo(comparison(replay, told.result))
    context.exit(VIOLATION if told.result.violations else OK)


def read(file: Path) -> replay_file.Replay:
    try:
        return replay_file.read(file)
    except replay_file.ReplayFileError as reason:
        raise CommandError(
            "not a replay file", why=str(reason), advice="tidelog sim shrink SEED", code=USAGE
        ) from None
    except OSError as reason:
        raise CommandError(
            "cannot read the file",
            why=str(reason.strerror),
            advice="tidelog sim shrink SEED --out FILE",
            code=USAGE,
        ) from None


def comparison(replay: replay_file.Replay, result: SeedResult) -> str:
    """How this run compares with the one that was written down."""
    if result.digest == replay.digest:
        return "the same run, step by step, as the one in the file"
    before = replay.violation.rule if replay.violation else "nothing"
    now = result.rule or "nothing"
    return f"not the same run: written by {replay.version}, it broke {before}; now {now}"
