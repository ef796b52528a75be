"""`tidelog user list`, `tidelog user add` and `tidelog user remove`"""

import os
from pathlib import Path
from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options, table_option
from tidelog.cli.output import print_json
from tidelog.cli.tables import Column, show
from tidelog.client import Client
from tidelog.client.access_admin import AccessAdmin, NewPassword, UserPassword
from tidelog.core.security.scram import (
    DEFAULT_ITERATIONS,
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramMechanism,
)

COLUMNS = (
    Column("USER", "user"),
    Column("MECHANISM", "mechanism"),
    Column("ITERATIONS", "iterations"),
)
SALT_BYTES = 24
mechanism_option = click.option(
    "--mechanism",
    type=click.Choice([each.sasl_name for each in ScramMechanism]),
    default=ScramMechanism.SCRAM_SHA_512.sasl_name,
    show_default=True,
)


@click.command(name="list")
@asks_cluster
@table_option
@shared_options
def command(*, asking: Asking, output: str) -> None:
    """List users that have a password. Nobody is told which.

    \b
    Examples:
      tidelog user list
      tidelog user list -o json
    """

    async def look(client: Client) -> list[UserPassword]:
        return await AccessAdmin(client).users()

    rows: list[dict[str, Any]] = [each._asdict() for each in sorted(asking.run(look))]
    if not rows and output in ("text", "wide"):
        click.echo("no users; add one: tidelog user add alice", err=True)
    show(output, rows, COLUMNS, rows)


@click.command(name="add")
@click.argument("name")
@click.option(
    "--password-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Its first line is the password. Without it you are asked.",
)
@mechanism_option
@click.option(
    "--iterations",
    type=click.IntRange(MIN_ITERATIONS, MAX_ITERATIONS),
    default=DEFAULT_ITERATIONS,
    show_default=True,
)
@asks_cluster
@output_option
@shared_options
def add(
    *,
    asking: Asking,
    name: str,
    password_file: Path | None,
    mechanism: str,
    iterations: int,
    output: str,
) -> None:
    """Give the user NAME a password, or another one. The cluster keeps salted keys of it alone.

    \b
    Examples:
      tidelog user add alice
      tidelog user add alice --password-file secret.txt --mechanism SCRAM-SHA-256
    """
    chosen = ScramMechanism.of_sasl_name(mechanism)
    assert chosen is not None, mechanism
    secret = password_of(password_file)
    new = NewPassword(name, chosen, secret, os.urandom(SALT_BYTES), iterations)

    async def give(client: Client) -> None:
        await AccessAdmin(client).set_password(new)

    asking.run(give)
    if output == "json":
        print_json({"user": name, "mechanism": mechanism, "iterations": iterations})
        return
    click.echo(f"{name} can log in with {mechanism}")


def password_of(file: Path | None) -> str:
    """Never from an argument: those are in the history of the shell and in lists of processes."""
    if file is None:
        return str(click.prompt("password", hide_input=True, confirmation_prompt=True, err=True))
    try:
        lines = file.read_text("utf-8").splitlines()
    except OSError as reason:
        raise CommandError(
            f"{file} cannot be read",
            why=(reason.strerror or str(reason)).lower(),
            advice="a file whose first line is the password",
            code=USAGE,
        ) from None
    if not lines or not lines[0]:
        raise CommandError(
            f"{file} has no password",
            why="its first line is empty",
            advice="a file whose first line is the password",
            code=USAGE,
        )
    return lines[0]


@click.command(name="remove")
@click.argument("name")
@mechanism_option
@asks_cluster
@output_option
@shared_options
def remove(*, asking: Asking, name: str, mechanism: str, output: str) -> None:
    """Take the password of the user NAME away. Connections that are logged in stay.

    \b
    Examples:
      tidelog user remove alice
      tidelog user remove alice --mechanism SCRAM-SHA-256
    """
    chosen = ScramMechanism.of_sasl_name(mechanism)
    assert chosen is not None, mechanism

    async def take_away(client: Client) -> None:
        await AccessAdmin(client).remove_password(name, chosen)

    asking.run(take_away)
    if output == "json":
        print_json({"user": name, "mechanism": mechanism, "removed": True})
        return
    click.echo(f"{name} cannot log in with {mechanism} any more")
