"""Groups of commands that are imported only when one of them is used.

`tidelog --version` and completion must answer at once; the simulator alone would take longer
to import than either takes to run. So a group holds names and one-line descriptions, and the
module of a command is loaded when that command is called.
"""

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import click

from tidelog.cli.failure import USAGE, unknown_name


class Lazy(NamedTuple):
    module: str
    summary: str
    attribute: str = "command"


class LazyGroup(click.Group):
    def __init__(self, *args: Any, lazy: Mapping[str, Lazy] | None = None, **extra: Any) -> None:
        super().__init__(*args, **extra)
        self._lazy = dict(lazy or {})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """A group without a command is wrong usage, answered with the list of commands."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(USAGE)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self._lazy.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(entry.module)
        return cast(click.Command, getattr(module, entry.attribute))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the summaries: help must not import what it lists."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self._lazy.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name not in self._lazy:
            advice = f"{ctx.command_path} --help"
            raise unknown_name("command", name, list(self._lazy), advice=advice)
        return super().resolve_command(ctx, args)


def shared_options(function: Any) -> Any:
    """`--debug` and `--no-color`, accepted everywhere; `Session` has read them already."""
    for flag, meaning in (
        ("--debug", "Show the traceback of an error."),
        ("--no-color", "No colour, as with NO_COLOR."),
    ):
        function = click.option(flag, is_flag=True, expose_value=False, help=meaning)(function)
    return function


def table_option(function: Any) -> Any:
    """`-o`, for commands whose result is a table."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "wide", "json", "tsv"]),
        default="text",
        show_default=True,
        help="How to print the result.",
    )(function)


def output_option(function: Any) -> Any:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="How to print the result.",
    )(function)
