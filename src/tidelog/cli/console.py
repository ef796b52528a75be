"""`tidelog console`: the web console of a cluster."""

import os
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.failure import UNREACHABLE, USAGE, CommandError
from tidelog.cli.lazy import shared_options
from tidelog.cli.local.home import load_nodes, place_options
from tidelog.cli.node import hold_lifeline
from tidelog.cluster.layout import admin_properties

if TYPE_CHECKING:
    from tidelog.console.place import Place

FIRST_PORT = 8080


@click.command(name="console")
@click.option("--port", type=click.IntRange(0, 65_535), help="[default: 8080, or any if taken]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--token", help="Asked of everybody; made up if --host is not this machine alone.")
@click.option("--any-port", is_flag=True, hidden=True, help="Another one if --port is taken.")
@click.option("--announce", type=int, hidden=True, help="Where the address is written.")
@click.option("--lifeline", type=int, hidden=True, help="Ends with whoever holds the other end.")
@click.option("--open", "opens", is_flag=True, help="Open it in a browser.")
@asks_cluster
@place_options
@shared_options
def command(
    *,
    asking: Asking,
    port: int | None,
    host: str,
    token: str | None,
    opens: bool,
    any_port: bool,
    announce: int | None,
    lifeline: int | None,
    data_dir: Path,
    name: str | None,
) -> None:
    """Serve the web console until Ctrl-C.

    \b
    Examples:
      tidelog console --open
      tidelog console -b broker.example:9092 --command-config client.properties

    Of the cluster that runs in this directory it shows what happens as it happens, and can break
    it. Of any other Kafka, named with -b, it shows what can be asked for.
    """
    from tidelog.console.serving import Address, CannotListen, listen, serve

    if lifeline is not None:
        hold_lifeline(lifeline)
    place = find_place(asking, data_dir, name)
    try:
        wanted = FIRST_PORT if port is None else port
        listening = listen(Address(host, wanted, or_any_port=any_port or port is None))
    except (CannotListen, OSError) as reason:
        raise CommandError(
            "the console cannot listen", why=str(reason), advice="--port 0", code=USAGE
        ) from None

    def ready(url: str) -> None:
        click.echo(f"console of {place.name}: {url}")
        if announce is not None:
            os.write(announce, url.encode())
            os.close(announce)
        if opens:
            webbrowser.open(url)

    serve(place, listening, token, ready)


def find_place(asking: Asking, data_dir: Path, name: str | None) -> "Place":
    from tidelog.console.place import Place

    if asking.names_cluster and name is None:
        bootstrap = asking.names_cluster
        return Place(bootstrap, bootstrap, asking.properties, asking.timeout_ms)
    nodes = load_nodes(data_dir, name)
    if not nodes.state.is_running:
        raise CommandError(
            f"{nodes.state.name} does not run",
            why="its nodes are gone",
            advice="tidelog up --detach    or    -b host:port",
            code=UNREACHABLE,
        )
    properties = admin_properties(nodes.directory, nodes.state)
    where = nodes.state.bootstrap_servers
    return Place(nodes.state.name, where, properties, asking.timeout_ms, nodes)
