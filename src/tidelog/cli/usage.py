"""Click's complaints about a command line, in our four fields."""

from collections.abc import Sequence
from difflib import get_close_matches

import click

from tidelog.cli.failure import ERROR, USAGE, CommandError
from tidelog.survey.refusal import NotPossible


def as_command_error(reason: Exception) -> CommandError:
    """What, why and what to try for anything that may end a command."""
    if isinstance(reason, CommandError):
        return reason
    if isinstance(reason, NotPossible):
        code = USAGE if reason.is_usage else ERROR
        return CommandError(reason.what, why=reason.why, advice=reason.advice, code=code)
    if isinstance(reason, click.UsageError):
        what, why = _usage(reason)
        path = reason.ctx.command_path if reason.ctx is not None else "tidelog"
        return CommandError(what, why=why, advice=f"{path} --help", code=USAGE)
    return CommandError(
        f"{type(reason).__name__}: {reason}",
        why="this is a defect of tidelog, not of what you asked for",
        advice="the same command with --debug, and report what it prints",
    )


def _usage(reason: click.UsageError) -> tuple[str, str]:
    """(what, why)"""
    if isinstance(reason, click.NoSuchOption):
        near = " or ".join(sorted(_near(reason.option_name, reason.possibilities or ())))
        why = f"did you mean {near}?" if near else "this command has no such option"
        return f"no option {reason.option_name}", why
    name = _parameter(reason)
    if isinstance(reason, click.MissingParameter):
        return f"{name} is missing", "the command needs it"
    if isinstance(reason, click.BadParameter):
        return f"wrong value for {name}", reason.message.rstrip(".")
    usage = reason.ctx.get_usage() if reason.ctx is not None else "tidelog COMMAND"
    return reason.format_message().rstrip("."), " ".join(usage.split())


def _near(name: str, possibilities: Sequence[str]) -> list[str]:
    """Click finds much alike; the nearest will do."""
    return get_close_matches(name, possibilities, n=2, cutoff=0.7)


def _parameter(reason: click.UsageError) -> str:
    parameter = reason.param if isinstance(reason, click.BadParameter) else None
    if isinstance(parameter, click.Option):
        return parameter.opts[-1]
    if parameter is not None:
        return parameter.make_metavar(reason.ctx) if reason.ctx else str(parameter.name)
    return "the command"
