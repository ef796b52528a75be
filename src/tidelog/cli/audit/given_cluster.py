"""The cluster that an audit was told to look at, if it was told of one."""

import os
from typing import Any

import click

from tidelog.cli.asking import COMMAND_CONFIG, Asking, read_command_config
from tidelog.cli.durations import DURATION


def cluster_options(function: Any) -> Any:
    """`-b`, `--command-config` and `--timeout`: without the first two, no cluster is asked."""
    function = click.option(
        "--timeout", "timeout_ms", type=DURATION, default="15s", show_default=True, help="Of -b."
    )(function)
    function = click.option(
        "--command-config",
        metavar="FILE",
        help="Properties of a Kafka client: security.protocol, sasl.…, ssl.…, bootstrap.servers.",
    )(function)
    return click.option(
        "-b", "--bootstrap", metavar="HOST:PORT,…", help="The cluster that is there already."
    )(function)


def given_cluster(
    bootstrap: str | None, timeout_ms: int, command_config: str | None
) -> Asking | None:
    """The environment may say how to log in, and never which cluster: an audit writes to it."""
    properties = read_command_config(command_config or os.environ.get(COMMAND_CONFIG))
    named = properties.get("bootstrap.servers") if command_config else None
    address = bootstrap or named
    return None if address is None else Asking(address, timeout_ms, properties)
