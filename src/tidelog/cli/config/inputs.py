"""Where the commands get a node's settings from: a file, a profile, the environment, `-X`."""

import os
from pathlib import Path
from typing import Any

import click

from tidelog.cli.failure import USAGE, CommandError, unknown_name
from tidelog.config.layers import Inputs
from tidelog.config.profiles import PROFILES
from tidelog.config.properties import parse_properties


def layer_options(function: Any) -> Any:
    """`-X` and `--profile`."""
    function = click.option(
        "--profile", metavar="NAME", help=f"A set of values: {', '.join(PROFILES)}."
    )(function)
    return click.option(
        "-X", "overrides", metavar="KEY=VALUE", multiple=True, help="Counts more than all else."
    )(function)


def gather_inputs(file: str | None, profile: str | None, overrides: tuple[str, ...]) -> Inputs:
    """May raise PropertiesError: the file is there, but it is not a properties file."""
    if profile is not None and profile not in PROFILES:
        raise unknown_name("profile", profile, list(PROFILES), advice="--profile brisk")
    properties = None if file is None else parse_properties(read_text(file), file)
    return Inputs(properties, profile, dict(os.environ), overrides)


def read_text(file: str) -> str:
    try:
        data = Path(file).read_bytes()
    except OSError as reason:
        raise CommandError(
            f"cannot read {file}",
            why=(reason.strerror or str(reason)).lower(),
            advice="the path of a server.properties",
            code=USAGE,
        ) from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")  # what Java takes every properties file for
