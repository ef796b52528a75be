"""`tidelog secure add-user`: somebody who can log in, and may do what was asked for."""

import os
import re
import shutil
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from tidelog.cli.acl.options import resource_of, row_of
from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import print_json
from tidelog.cli.secure.places import HOME, cannot_write, home_of_cluster
from tidelog.client import Client
from tidelog.client.access_admin import AccessAdmin, NewPassword
from tidelog.core.security.acls import WILDCARD, Acl, Operation, Permission
from tidelog.core.security.scram import DEFAULT_ITERATIONS, ScramMechanism
from tidelog.secure.client_files import MECHANISM, Login
from tidelog.secure.home import SecureHome

NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]*")
"""It names a directory, and stands in files of four formats."""
SALT_BYTES: Final = 24
RULES: Final = (
    ("write", "topic", (Operation.WRITE,)),
    ("read", "topic", (Operation.READ,)),
    ("group", "group", (Operation.READ,)),
    ("transactional_id", "transactional_id", (Operation.WRITE,)),
)
"""Which option allows what on which resource. Each of them allows to describe it, too."""


class Added(NamedTuple):
    files: list[Path]
    acls: list[Acl]


@click.command(name="add-user")
@click.argument("name")
@click.option("--write", multiple=True, metavar="TOPIC", help="May write it; 'a-*' for a prefix.")
@click.option("--read", multiple=True, metavar="TOPIC", help="May read it, likewise.")
@click.option("--group", multiple=True, metavar="GROUP", help="May read in it, likewise.")
@click.option("--transactional-id", multiple=True, metavar="ID", help="May use it, likewise.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"Where ca.pem lies and the files go; the local cluster's, or {HOME}, if not given.",
)
@asks_cluster
@output_option
@shared_options
def command(
    *, asking: Asking, name: str, directory: Path | None, output: str, **given: tuple[str, ...]
) -> None:
    """Give a new user a password, rules and login files for Java, librdkafka, Python and Spark.

    \b
    Examples:
      tidelog secure add-user billing --read orders --group billing
      tidelog secure add-user loader --write 'raw-*' --transactional-id 'loader-*'
      tidelog secure add-user scraper --command-config users/admin/client.properties

    The password is made here, is only in the files, and can be read by their owner alone.
    """
    if NAME.fullmatch(name) is None:
        raise CommandError(
            f'"{name}" cannot be the name of a user here',
            why="it names a directory: letters, digits, dots, dashes, @ and underscores",
            advice="tidelog secure add-user billing",
            code=USAGE,
        )
    home = home_of_cluster(asking, directory)
    located = asking.located()
    added = add(home, located, name, wanted_acls(name, given))
    if output == "json":
        rules = [row_of(each) for each in added.acls]
        print_json({"user": name, "files": [str(each) for each in added.files], "rules": rules})
        return
    report(name, added)


def wanted_acls(name: str, given: dict[str, Any]) -> list[Acl]:
    blank: dict[str, Any] = {"topic": None, "group": None, "transactional_id": None}
    acls = []
    for option, kind, operations in RULES:
        for text in given[option]:
            resource = resource_of({**blank, "cluster": False, kind: text})
            assert resource is not None, text
            place = (resource.kind, resource.name, resource.pattern, f"User:{name}", WILDCARD)
            acls += [Acl(*place, each, Permission.ALLOW) for each in operations]
    return acls


def add(home: SecureHome, asking: Asking, name: str, acls: list[Acl]) -> Added:
    """Files first: a password that nobody could keep would be lost."""
    if home.login_file(name).exists():
        raise already(name, f"{home.login_file(name).parent} has login files of that name")
    try:
        login = home.make_login(name, asking.bootstrap or "")
    except OSError as reason:
        raise cannot_write(home.directory, reason) from None
    place = home.login_file(name).parent
    try:
        asking.run(lambda client: tell_cluster(client, login, acls))
    except BaseException:
        shutil.rmtree(place)
        raise
    return Added(sorted(place.iterdir()), acls)


async def tell_cluster(client: Client, login: Login, acls: list[Acl]) -> None:
    """Rules first: a cluster that has none refuses them, and nobody is left half made."""
    admin = AccessAdmin(client)
    if any(each.user == login.user for each in await admin.users()):
        raise already(login.user, "it has a password")
    if acls:
        await admin.add_acls(acls)
    mechanism = ScramMechanism.of_sasl_name(MECHANISM)
    assert mechanism is not None, MECHANISM
    salt = os.urandom(SALT_BYTES)
    await admin.set_password(
        NewPassword(login.user, mechanism, login.password, salt, DEFAULT_ITERATIONS)
    )


def already(name: str, why: str) -> CommandError:
    return CommandError(
        f"there is a user {name} already",
        why=why,
        advice=f"tidelog user add {name} for another password, tidelog acl add for more rules",
    )


def report(name: str, added: Added) -> None:
    click.echo(f"{name} can log in with {MECHANISM}, and may")
    for row in map(row_of, added.acls):
        click.echo(f"  {row['operation']} {row['resource']} {row['name']}")
    if not added.acls:
        click.echo("  do nothing yet: tidelog acl add --user " + name)
    click.echo("Its login, a secret:")
    for path in added.files:
        click.echo(f"  {path}")
