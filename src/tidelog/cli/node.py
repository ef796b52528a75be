"""`tidelog node`: one node of a production cluster."""

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import click

from tidelog.cli.failure import UNREACHABLE, USAGE, CommandError
from tidelog.cli.lazy import Lazy, LazyGroup, shared_options

if TYPE_CHECKING:
    from tidelog.config.node_config import NodeConfig  # at run time only when a node starts

COMMANDS = {"start": Lazy("tidelog.cli.node", "Run a node until SIGTERM or Ctrl-C.", "start")}
LIFELINE_GRACE_SECONDS = 10


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """One node, from its server.properties.

    \b
    Examples:
      tidelog format --config server.properties --cluster-id orders-prod
      tidelog node start --config server.properties
    """


@click.command(name="start")
@click.option("--config", "file", metavar="FILE", required=True, help="A server.properties.")
@click.option("--profile", metavar="NAME", help="A set of values, such as brisk.")
@click.option(
    "-X", "overrides", metavar="KEY=VALUE", multiple=True, help="Counts more than all else."
)
@click.option("--lifeline", type=int, hidden=True, help="Ends with whoever holds the other end.")
@shared_options
@click.pass_context
def start(
    context: click.Context,
    *,
    file: str,
    profile: str | None,
    overrides: tuple[str, ...],
    lifeline: int | None,
) -> None:
    """Run one node until SIGTERM or Ctrl-C; it hands its leaderships over before it ends.

    \b
    Examples:
      tidelog node start --config server.properties
      tidelog node start --config server.properties -X broker.rack=b
    """
    if lifeline is not None:
        hold_lifeline(lifeline)
    config = load_config(file, profile, overrides)
    from tidelog.cli import node_process
    from tidelog.config.exposure import exposed_listeners, warning_of
    from tidelog.node import CannotStart

    for listener in exposed_listeners(config):
        click.echo(f"WARNING: {warning_of(listener)}", err=True)
    try:
        code = node_process.run(config, lambda http_port: say_ready(config.node_id, http_port))
    except CannotStart as reason:
        raise CommandError(
            f"node {config.node_id} cannot start",
            why=str(reason),
            advice=reason.advice.replace("FILE", file),
            code=UNREACHABLE,
        ) from None
    context.exit(code)


def say_ready(node_id: int, http_port: int | None) -> None:
    http = "" if http_port is None else f", HTTP on port {http_port}"
    click.echo(f"node {node_id} is ready{http}", err=True)


def load_config(file: str, profile: str | None, overrides: tuple[str, ...]) -> "NodeConfig":
    from tidelog.cli.config.inputs import gather_inputs
    from tidelog.config.node_config import load_node_config
    from tidelog.config.properties import PropertiesError

    try:
        loaded = load_node_config(gather_inputs(file, profile, overrides))
    except PropertiesError as reason:
        raise CommandError(
            f"{file} cannot be read",
            why=str(reason),
            advice=f"tidelog config check {file}",
            code=USAGE,
        ) from None
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    if loaded.config is None:
        for problem in loaded.problems:
            click.echo(f"error: {problem}", err=True)
        raise CommandError(
            f"{file} does not describe a node",
            why=f"{len(loaded.problems)} of its settings cannot be used",
            advice=f"tidelog config check {file}",
            code=USAGE,
        )
    return loaded.config


def hold_lifeline(descriptor: int) -> None:
    """End when whoever started us ends: then the pipe has no writer any more."""

    def wait() -> None:
        while os.read(descriptor, 1):
            continue
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(LIFELINE_GRACE_SECONDS)
        os._exit(1)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()
