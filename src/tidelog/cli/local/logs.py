"""`tidelog logs`: what the nodes of the local cluster said."""

import time
from pathlib import Path

import click

from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import shared_options
from tidelog.cli.local.home import known_node, load_nodes, place_options
from tidelog.cluster import layout
from tidelog.cluster.nodes import LocalNodes

POLL_SECONDS = 0.1
LINES = 20


@click.command(name="logs")
@click.argument("which", nargs=-1, metavar="[broker] [N]…")
@click.option("-f", "--follow", is_flag=True, help="Go on with what they say from now on.")
@click.option("-n", "--lines", type=click.IntRange(min=0), default=LINES, show_default=True)
@place_options
@shared_options
def command(
    which: tuple[str, ...], follow: bool, lines: int, data_dir: Path, name: str | None
) -> None:
    """Show the last lines of the logs of all nodes, or of those named.

    \b
    Examples:
      tidelog logs broker 2 -n 100
      tidelog logs -f
    """
    nodes = load_nodes(data_dir, name)
    chosen = [known_node(nodes, each) for each in numbers(which)] or nodes.node_ids
    ends = {}
    for node_id in chosen:
        path = layout.log_file(nodes.directory, node_id)
        ends[node_id] = path.stat().st_size if path.exists() else 0
        for line in nodes.last_lines(node_id, lines) if lines else []:
            tell(node_id, line, single=len(chosen) == 1)
    while follow:
        time.sleep(POLL_SECONDS)
        for node_id in chosen:
            ends[node_id] = follow_one(nodes, node_id, ends[node_id], single=len(chosen) == 1)


def numbers(which: tuple[str, ...]) -> list[int]:
    words = [each for each in which if each not in ("broker", "node")]
    for word in words:
        if not (word.isascii() and word.isdigit()):
            raise CommandError(
                f'"{word}" is no node',
                why="a node is a number",
                advice="tidelog logs broker 1",
                code=USAGE,
            )
    return [int(word) for word in words]


def follow_one(nodes: LocalNodes, node_id: int, position: int, *, single: bool) -> int:
    """Whole lines after a position; where the next ones begin."""
    path = layout.log_file(nodes.directory, node_id)
    if not path.exists():
        return 0
    with path.open("rb") as file:
        file.seek(position)
        fresh = file.read()
    whole = fresh.rfind(b"\n") + 1
    for line in fresh[:whole].decode("utf-8", "replace").splitlines():
        tell(node_id, line, single=single)
    return position + whole


def tell(node_id: int, line: str, *, single: bool) -> None:
    click.echo(line if single else f"{node_id} │ {line}")
