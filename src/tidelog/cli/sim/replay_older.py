"""`tidelog sim replay` of a plan for the object or byte depth."""

from pathlib import Path

import click

from tidelog.cli.failure import OK, USAGE, VIOLATION, CommandError
from tidelog.cli.output import print_json
from tidelog.cli.sim import report
from tidelog.cli.sim.options import check_mutant
from tidelog.sim import replay_file
from tidelog.sim.results import SeedResult
from tidelog.sim.run import Run


def replay_older(file: Path, *, everything: bool, output: str) -> int:
    replay = read(file)
    check_mutant(replay.mutant)
    run = Run(replay.plan, whole_story=True)
    result = run.execute(mutant=replay.mutant)
    if output == "json":
        document = report.story_json(run, result, everything=everything)
        print_json({**document, "same_digest": result.digest == replay.digest})
    else:
        report.print_story(run, result, again=f"tidelog sim replay {file}", everything=everything)
        click.echo(comparison(replay, result))
    return VIOLATION if result.violations else OK


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
