"""Options that several `sim` commands take, and the checks they share."""

import os
from typing import Any

import click

from tidelog.cli.failure import CommandError, unknown_name
from tidelog.sim import mutation

mutant_option = click.option(
    "--mutant", metavar="NAME", help="With this rule broken on purpose (source checkout only)."
)


def jobs_option(function: Any) -> Any:
    return click.option(
        "--jobs",
        type=click.IntRange(min=1),
        default=available_cores,
        show_default="one per core",
        help="Processes to use.",
    )(function)


def available_cores() -> int:
    return len(os.sched_getaffinity(0))


def load_mutants() -> mutation.Mutants:
    try:
        return mutation.load()
    except mutation.MutantsAbsentError as reason:
        raise CommandError(
            "no mutants here", why=str(reason), advice="the same command in a source checkout"
        ) from None


def check_mutant(name: str | None) -> None:
    """Wrong usage when there is no such mutant."""
    if name is None:
        return
    known = [mutant.name for mutant in load_mutants().catalogue()]
    if name not in known:
        raise unknown_name("mutant", name, known, advice="tidelog sim mutants --help")
