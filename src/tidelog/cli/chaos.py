"""`tidelog chaos`: break the local cluster on purpose, and mend it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tidelog.cli.asking import command_config_option
from tidelog.cli.durations import DURATION
from tidelog.cli.failure import ERROR, UNREACHABLE, USAGE, CommandError
from tidelog.cli.lazy import Lazy, LazyGroup, output_option, shared_options, table_option
from tidelog.cli.local.home import known_node, load_nodes, place_options
from tidelog.cli.output import print_json
from tidelog.cli.tables import Column, show
from tidelog.cluster import faults
from tidelog.cluster.faults import ControlFailed
from tidelog.cluster.nodes import LocalNodes, NodeFailed
from tidelog.cluster.readiness import wait_ready

MODULE = "tidelog.cli.chaos"
COMMANDS = {
    "kill": Lazy(MODULE, "Kill nodes (SIGKILL).", "kill"),
    "restart": Lazy(MODULE, "Stop nodes if they run, and start them again.", "restart"),
    "pause": Lazy(MODULE, "Pause nodes (SIGSTOP).", "pause"),
    "resume": Lazy(MODULE, "Resume paused nodes (SIGCONT).", "resume"),
    "partition": Lazy(MODULE, "Cut the network between groups of nodes.", "partition"),
    "slow": Lazy(MODULE, "Delay traffic to and from a node.", "slow"),
    "disk": Lazy(MODULE, "Make the disks of a node look full.", "disk"),
    "heal": Lazy(MODULE, "Remove all cuts and delays.", "heal"),
    "status": Lazy(MODULE, "Show what is broken now.", "status"),
}
COLUMNS = (
    Column("NODE", "node"),
    Column("STATE", "state"),
    Column("CUT-FROM", "blocked"),
    Column("LATENCY", "latency"),
    Column("DISKS", "disks"),
)
STOP_WITHIN_MS = 15_000


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Break the local cluster on purpose.

    \b
    Examples:
      tidelog chaos kill 1
      tidelog chaos partition 1 2,3
      tidelog chaos slow 2 --latency 80ms
      tidelog chaos heal
    """


def on_nodes(function: Any) -> Any:
    """One or more nodes of the local cluster."""
    function = click.argument("which", nargs=-1, required=True, type=int, metavar="N…")(function)
    return output_option(place_options(shared_options(function)))


@click.command(name="kill")
@on_nodes
def kill(which: tuple[int, ...], data_dir: Path, name: str | None, output: str) -> None:
    """End nodes at once, as a crash would (SIGKILL).

    \b
    Example:
      tidelog chaos kill 1
    """
    signalled(load_nodes(data_dir, name), which, LocalNodes.kill, "killed", output)


@click.command(name="pause")
@on_nodes
def pause(which: tuple[int, ...], data_dir: Path, name: str | None, output: str) -> None:
    """Stop nodes from running without ending them (SIGSTOP).

    \b
    Example:
      tidelog chaos pause 2
    """
    signalled(load_nodes(data_dir, name), which, LocalNodes.pause, "paused", output)


@click.command(name="resume")
@on_nodes
def resume(which: tuple[int, ...], data_dir: Path, name: str | None, output: str) -> None:
    """Let paused nodes go on (SIGCONT).

    \b
    Example:
      tidelog chaos resume 2
    """
    signalled(load_nodes(data_dir, name), which, LocalNodes.resume, "resumed", output)


def signalled(
    nodes: LocalNodes,
    which: tuple[int, ...],
    act: Callable[[LocalNodes, int], bool],
    done: str,
    output: str,
) -> None:
    for node_id in which:
        known_node(nodes, node_id)
    for node_id in which:
        if not act(nodes, node_id):
            raise CommandError(
                f"node {node_id} does not run",
                why="there is no such process any more",
                advice=f"tidelog chaos restart {node_id}",
            )
        if output != "json":
            click.echo(f"broker {node_id} {done}")
    nodes.save()
    if output == "json":
        print_json({"nodes": list(which), "done": done})


@click.command(name="restart")
@click.option("--hard", is_flag=True, help="Kill it first, in place of a clean stop.")
@click.option("--timeout", "timeout_ms", type=DURATION, default="30s", show_default=True)
@command_config_option
@on_nodes
def restart(
    *,
    which: tuple[int, ...],
    hard: bool,
    timeout_ms: int,
    login: dict[str, str],
    data_dir: Path,
    name: str | None,
    output: str,
) -> None:
    """Start nodes again, after stopping those that run.

    \b
    Examples:
      tidelog chaos restart 1
      tidelog chaos restart 2 --hard
    """
    nodes = load_nodes(data_dir, name)
    for node_id in which:
        known_node(nodes, node_id)
    if hard:
        for node_id in which:
            nodes.kill(node_id)
    nodes.stop(which, timeout_ms=STOP_WITHIN_MS)
    nodes.start(which, attached=False)
    try:
        asyncio.run(wait_ready(nodes, timeout_ms=timeout_ms, expected=which))
        broken = [each for each in which if has_faults(nodes, each)]
        told(lambda: faults.tell(nodes, broken, login))
    except NodeFailed as failure:
        for line in failure.last_lines:
            click.echo(f"  node {failure.node_id} │ {line}", err=True)
        raise CommandError(
            str(failure),
            why=failure.why,
            advice=f"tidelog logs broker {failure.node_id}",
            code=UNREACHABLE,
        ) from None
    if output == "json":
        print_json({"nodes": list(which), "done": "restarted"})
        return
    for node_id in which:
        click.echo(f"broker {node_id} is back")


@click.command(name="partition")
@click.argument("groups", nargs=-1, required=True, metavar="N,N… N,N…")
@command_config_option
@place_options
@output_option
@shared_options
def partition(
    *,
    groups: tuple[str, ...],
    login: dict[str, str],
    data_dir: Path,
    name: str | None,
    output: str,
) -> None:
    """Cut the wires between groups of nodes; a single group is cut from all others.

    \b
    Examples:
      tidelog chaos partition 1 2,3
      tidelog chaos partition 1
    """
    nodes = load_nodes(data_dir, name)
    parsed = [parse_group(nodes, text) for text in groups]
    if len(parsed) == 1:
        parsed.append([each for each in nodes.node_ids if each not in parsed[0]])
    named = [each for group in parsed for each in group]
    if len(named) != len(dict.fromkeys(named)):
        raise CommandError(
            "a node is in two groups", why="groups share nothing", advice="1 2,3", code=USAGE
        )
    told(lambda: faults.cut(nodes, parsed, login))
    words = " | ".join(",".join(map(str, group)) for group in parsed)
    print_or_echo(output, {"groups": parsed}, f"cut: {words}; mend it: tidelog chaos heal")


@click.command(name="slow")
@click.argument("which", type=int, metavar="N")
@click.option("--latency", "latency_ms", type=DURATION, required=True, help="0ms takes it back.")
@command_config_option
@place_options
@output_option
@shared_options
def slow(
    *,
    which: int,
    latency_ms: int,
    login: dict[str, str],
    data_dir: Path,
    name: str | None,
    output: str,
) -> None:
    """Delay everything between a node and the others.

    \b
    Example:
      tidelog chaos slow 2 --latency 80ms
    """
    nodes = load_nodes(data_dir, name)
    known_node(nodes, which)
    told(lambda: faults.slow(nodes, which, latency_ms, login))
    document = {"node": which, "latency_ms": latency_ms}
    print_or_echo(output, document, f"broker {which}: {latency_ms} ms to and from everybody")


@click.command(name="disk")
@click.argument("which", type=int, metavar="N")
@click.option("--full/--free", "full", required=True, help="Make them look full, or take it back.")
@command_config_option
@place_options
@output_option
@shared_options
def disk(
    *,
    which: int,
    full: bool,
    login: dict[str, str],
    data_dir: Path,
    name: str | None,
    output: str,
) -> None:
    """Make the disks of a node look full to it: it does what it does on a full disk.

    \b
    Examples:
      tidelog chaos disk 2 --full
      tidelog chaos disk 2 --free
    """
    nodes = load_nodes(data_dir, name)
    known_node(nodes, which)
    told(lambda: faults.fill_disk(nodes, which, login, full=full))
    words = "look full" if full else "have room again"
    print_or_echo(output, {"node": which, "full": full}, f"broker {which}: its disks {words}")


@click.command(name="heal")
@command_config_option
@place_options
@output_option
@shared_options
def heal(*, login: dict[str, str], data_dir: Path, name: str | None, output: str) -> None:
    """Take every cut and delay back.

    \b
    Example:
      tidelog chaos heal
    """
    nodes = load_nodes(data_dir, name)
    told(lambda: faults.heal(nodes, login))
    print_or_echo(output, {"healed": nodes.node_ids}, "healed: everybody hears everybody")


@click.command(name="status")
@place_options
@table_option
@shared_options
def status(data_dir: Path, name: str | None, output: str) -> None:
    """Show which nodes run, and what is between them.

    \b
    Example:
      tidelog chaos status
    """
    nodes = load_nodes(data_dir, name)
    rows = [
        {
            "node": node.id,
            "state": node.state,
            "blocked": node.blocked,
            "latency_ms": node.latency_ms,
            "disks": "full" if node.full_disks else None,
            "latency": [f"{far}: {delay} ms" for far, delay in node.latency_ms.items()],
        }
        for node in nodes.state.nodes.values()
    ]
    show(output, rows, COLUMNS, rows)


def parse_group(nodes: LocalNodes, text: str) -> list[int]:
    words = [each.strip() for each in text.split(",") if each.strip()]
    for word in words:
        if not (word.isascii() and word.isdigit()):
            raise CommandError(
                f'"{text}" is no group of nodes',
                why="a group is numbers with commas",
                advice="tidelog chaos partition 1 2,3",
                code=USAGE,
            )
    return [known_node(nodes, int(word)) for word in words]


def has_faults(nodes: LocalNodes, node_id: int) -> bool:
    node = nodes.node(node_id)
    return bool(node.blocked or node.latency_ms or node.full_disks)


def told(act: Callable[[], None]) -> None:
    try:
        act()
    except ControlFailed as reason:
        raise CommandError(
            "a node did not take it",
            why=str(reason),
            advice=f"tidelog logs broker {reason.node_id}",
            code=ERROR,
        ) from None


def print_or_echo(output: str, document: dict[str, Any], sentence: str) -> None:
    if output == "json":
        print_json(document)
    else:
        click.echo(sentence)
