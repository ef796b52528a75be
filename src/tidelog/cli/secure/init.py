"""`tidelog secure init`: an authority, keys, an administrator and a directory per machine."""

import re
from pathlib import Path
from typing import Final

import click

from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import plural, print_json
from tidelog.cli.secure.places import cannot_write, home_option
from tidelog.secure.home import SecureHome
from tidelog.secure.machines import (
    CONFIG_NAME,
    USERS_NAME,
    Machine,
    Order,
    Places,
    Ports,
    repeated,
    write_machines,
)
from tidelog.secure.node_settings import ADMIN_USER

NODE: Final = re.compile(r"([0-9]{1,9})=([A-Za-z0-9][A-Za-z0-9.:-]*)")


@click.command(name="init")
@click.option(
    "--node",
    "nodes",
    multiple=True,
    required=True,
    metavar="ID=HOST",
    help="A machine of the cluster, by the name that clients use. One option for each.",
)
@click.option("--cluster", default="tidelog", show_default=True, help="What to call the cluster.")
@click.option("--port", type=click.IntRange(1, 65533), default=9092, show_default=True)
@click.option(
    "--install-dir",
    type=click.Path(path_type=Path),
    default="/etc/tidelog",
    show_default=True,
    help="Where each machine will have its directory.",
)
@click.option(
    "--log-dir",
    type=click.Path(path_type=Path),
    default="/var/lib/tidelog",
    show_default=True,
    help="Where each machine keeps its data.",
)
@home_option
@output_option
@shared_options
def command(
    *,
    nodes: tuple[str, ...],
    cluster: str,
    port: int,
    install_dir: Path,
    log_dir: Path,
    directory: Path,
    output: str,
) -> None:
    """Make a certificate authority, a key for each node, an administrator with a password, and a
    directory with a whole server.properties for each machine.

    Clients log in over TLS with SCRAM-SHA-512. Nodes prove who they are with certificates.
    Whatever no ACL allows is refused.

    \b
    Examples:
      tidelog secure init --node 1=tide-1.example.org --node 2=tide-2.example.org \\
        --node 3=tide-3.example.org
    """
    order = Order(
        cluster,
        parse_nodes(nodes),
        Ports(port, port + 1, port + 2),
        Places(install_dir, log_dir),
    )
    home = SecureHome(directory)
    refuse_second(home)
    try:
        written = write_machines(home, order)
    except OSError as reason:
        raise cannot_write(directory, reason) from None
    if output == "json":
        print_json(as_document(home, order, written))
        return
    report(home, order, written)


def parse_nodes(texts: tuple[str, ...]) -> tuple[Machine, ...]:
    machines = []
    for text in texts:
        match = NODE.fullmatch(text)
        if match is None:
            raise CommandError(
                f"wrong value for --node: {text}",
                why="there is no ID=HOST",
                advice="--node 1=tide-1.example.org",
                code=USAGE,
            )
        machines.append(Machine(int(match[1]), match[2]))
    twice = repeated(machines)
    if twice is not None:
        raise CommandError(
            f"{twice} is given twice",
            why="every node has an id and a host of its own",
            advice="--node 1=tide-1.example.org --node 2=tide-2.example.org",
            code=USAGE,
        )
    return tuple(machines)


def refuse_second(home: SecureHome) -> None:
    if home.exists:
        raise CommandError(
            f"{home.directory} has an authority already",
            why="with a new one, nodes and clients would not trust each other any more",
            advice="tidelog secure rotate for new certificates, or another --dir",
        )


def as_document(home: SecureHome, order: Order, written: list[Path]) -> dict[str, object]:
    return {
        "directory": str(home.directory),
        "authority": str(home.authority_file),
        "bootstrap_servers": order.bootstrap_servers,
        "admin": str(home.login_file(ADMIN_USER)),
        "machines": [
            {"node": machine.node_id, "host": machine.host, "directory": str(path)}
            for machine, path in zip(order.machines, written, strict=True)
        ],
    }


def report(home: SecureHome, order: Order, written: list[Path]) -> None:
    install = order.places.install
    click.echo(f"{home.directory} holds the authority of {order.name}. Keep ca-key.pem offline:")
    click.echo("whoever has it can make nodes and users.\n")
    click.echo(f"On each of {plural(len(written), 'machine')}:")
    for machine, path in zip(order.machines, written, strict=True):
        click.echo(f"  copy {path}/ to {install} on {machine.host}")
    click.echo(
        f"  tidelog format --config {install / CONFIG_NAME} --cluster-id {order.name}"
        f" --add-scram @{install / USERS_NAME}\n"
        f"  tidelog node start --config {install / CONFIG_NAME}\n"
    )
    login = home.login_file(ADMIN_USER)
    click.echo(f"Then, as {ADMIN_USER}:")
    click.echo(f"  tidelog cluster describe --command-config {login}")
