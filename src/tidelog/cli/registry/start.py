"""`tidelog registry start`"""

import asyncio
import datetime as dt
import importlib.util
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.failure import ERROR, UNREACHABLE, USAGE, CommandError
from tidelog.cli.lazy import shared_options
from tidelog.client import BadProperties, NotTrusted, parse_bootstrap

if TYPE_CHECKING:
    from tidelog.registry.server import RegistryConfig
    from tidelog.registry.users import Users

NEEDED = ("avro", "jsonschema", "google.protobuf", "grpc_tools")


@click.command(name="start")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8081, show_default=True, help="0: any."
)
@click.option("--topic", default="_schemas", show_default=True, help="Where schemas are kept.")
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of that topic when it is made; as many as the cluster likes if not given.",
)
@click.option(
    "--users",
    "users_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Who may log in, from `add-user`; nobody needs to if not given.",
)
@asks_cluster
@shared_options
def command(
    *,
    asking: Asking,
    host: str,
    port: int,
    topic: str,
    replicas: int | None,
    users_file: Path | None,
) -> None:
    """Serve schemas over HTTP until Ctrl-C or SIGTERM, as Confluent's Schema Registry does.

    \b
    Examples:
      tidelog registry start
      tidelog registry start -b host:9092 --port 8081
      tidelog registry start -b host:9092 --command-config login.properties

    Without --users, whoever reaches the port may change schemas; so it listens on this machine
    alone by default.
    """
    check_packages()
    from tidelog.registry.server import RegistryConfig, listening

    located = asking.located()
    bootstrap = checked_bootstrap(located)
    users = users_in(users_file)
    config = RegistryConfig(
        bootstrap, located.properties, topic, replicas or -1, located.timeout_ms, users
    )
    try:
        listener = listening(host, port)
    except OSError as reason:
        raise CommandError(
            f"cannot listen on {host}:{port}",
            why=reason.strerror or str(reason),
            advice="another --port, or --port 0 for any",
        ) from None
    with listener:
        serve(config, listener)


def serve(config: "RegistryConfig", listener: socket.socket) -> None:
    from tidelog.registry.server import RegistryProcess, WrongTopic

    at, number = listener.getsockname()[:2]
    shown = f"[{at}]" if ":" in at else at
    say(f"registry on http://{shown}:{number}, topic {config.topic}")
    if config.users is None and not ip_address(at).is_loopback:
        say("whoever reaches this port may change schemas; --users FILE wants a login")
    try:
        asyncio.run(RegistryProcess(config, say).run(listener))
    except WrongTopic as reason:
        raise CommandError(
            "this topic cannot hold schemas",
            why=str(reason),
            advice="another --topic, or change that one",
            code=ERROR,
        ) from None
    except NotTrusted as reason:
        raise CommandError(
            "the connection is not secure",
            why=str(reason),
            advice="ssl.ca.location in --command-config",
            code=UNREACHABLE,
        ) from None
    except BadProperties as reason:
        raise CommandError(
            "wrong properties", why=str(reason), advice="--command-config FILE", code=USAGE
        ) from None


def checked_bootstrap(located: Asking) -> str:
    try:
        parse_bootstrap(located.bootstrap or "")
    except ValueError as reason:
        raise CommandError(
            "wrong value for --bootstrap", why=str(reason), advice="-b host:9092", code=USAGE
        ) from None
    return located.bootstrap or ""


def users_in(path: Path | None) -> "Users | None":
    from tidelog.registry.users import Users, WrongUsers, read_users

    try:
        return None if path is None else Users(read_users(path))
    except WrongUsers as reason:
        raise CommandError(
            "wrong value for --users",
            why=str(reason),
            advice="tidelog registry add-user FILE NAME",
            code=USAGE,
        ) from None


def check_packages() -> None:
    missing = [each for each in NEEDED if not _is_there(each)]
    if missing:
        raise CommandError(
            "a registry needs more packages",
            why=f"missing: {', '.join(missing)}",
            advice="pip install 'tidelog[registry]'",
            code=USAGE,
        )


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def say(text: str) -> None:
    now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    click.echo(f"{now} {text}", err=True)
