"""`tidelog up`: a cluster of real processes, ready in a second or so."""

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from tidelog.cli import session
from tidelog.cli.durations import DURATION
from tidelog.cli.failure import OK, UNREACHABLE, USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.local.home import down_command, place_options, read_state
from tidelog.cli.output import print_json
from tidelog.cluster import console_process, layout
from tidelog.cluster import state as states
from tidelog.cluster.console_process import NoConsole
from tidelog.cluster.layout import DifferentCluster, Shape
from tidelog.cluster.nodes import LocalNodes, NodeFailed
from tidelog.cluster.readiness import Ready, wait_ready
from tidelog.cluster.state import DEFAULT_NAME, HOME, ClusterState
from tidelog.config.broker_keys import find_key, nearest_name
from tidelog.secure.node_settings import ADMIN_USER

EVENTS_TOPIC_KEY = "tidelog.events.topic.enable"
FIRST_PORT = 9092
STOP_WITHIN_MS = 15_000
WATCH_SECONDS = 0.2
CONSOLE_PORT = 8080


@click.command(name="up")
@click.option("--brokers", type=click.IntRange(1, 9), default=3, show_default=True)
@click.option(
    "--controllers", type=click.IntRange(1, 9), help="How many of them are controllers too."
)
@click.option("--racks", metavar="A,B,…", help="Racks, given to the brokers in turn.")
@click.option("-d", "--detach", is_flag=True, help="Leave it running; `tidelog down` stops it.")
@click.option(
    "--secure",
    is_flag=True,
    help="TLS, logins and ACLs, with an administrator whose login the other commands find.",
)
@click.option(
    "--ready-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Written, as json, when clients can connect.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_000),
    default=FIRST_PORT,
    show_default=True,
    help="Of the first broker, if it and the next are free; 0: any.",
)
@click.option(
    "--console/--no-console", "console", default=True, show_default=True, help="The web console."
)
@click.option(
    "--console-port",
    type=click.IntRange(0, 65_535),
    default=CONSOLE_PORT,
    show_default=True,
    help="Of the console, if it is free; 0: any.",
)
@click.option("--ephemeral", is_flag=True, help="The data goes when the cluster stops.")
@click.option("-X", "overrides", metavar="KEY=VALUE", multiple=True, help="Any broker property.")
@click.option("--timeout", "timeout_ms", type=DURATION, default="30s", show_default=True)
@place_options
@output_option
@shared_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Start a cluster on this machine, one process per node.

    \b
    Examples:
      tidelog up --brokers 3
      tidelog up --detach -X min.insync.replicas=1
      tidelog up --secure
      tidelog up --ephemeral --port 0 --ready-file ready.json

    It uses the brisk profile: failures are noticed sooner than with Kafka's defaults.
    """
    name = given["name"] or DEFAULT_NAME
    directory = given["data_dir"] / name
    begin = time.monotonic()
    nodes = prepare(directory, name, given)
    quiet = given["output"] == "json"
    with interrupts():
        try:
            launch(nodes, given, tell=None if quiet else tell_ready)
            if given["console"]:
                start_console(nodes, given, tell=None if quiet else tell_ready)
            report(nodes, given, seconds=time.monotonic() - begin)
            if not given["detach"]:
                stay(nodes)
        except BaseException:
            take_down(nodes)
            raise
    if not given["detach"]:
        take_down(nodes)
        click.echo("stopped", err=True)
    context.exit(OK)


def prepare(directory: Path, name: str, given: dict[str, Any]) -> LocalNodes:
    if (directory / states.FILE_NAME).exists():
        refuse_second(directory, read_state(directory))
    shape = Shape(
        brokers=given["brokers"],
        controllers=checked_controllers(given["controllers"], given["brokers"]),
        racks=tuple(filter(None, (given["racks"] or "").split(","))),
        config={EVENTS_TOPIC_KEY: "true", **parse_overrides(given["overrides"])},
        first_port=given["port"] or None,
        ephemeral=given["ephemeral"],
        secure=given["secure"],
    )
    try:
        state = layout.create(directory, name, shape)
        if shape.secure:
            from tidelog.cluster.securing import secure

            secure(directory, state)
        return LocalNodes(directory, state)
    except DifferentCluster as reason:
        raise CommandError(
            f"{directory} is another cluster",
            why=str(reason),
            advice=f"another --name, or rm -r {directory}",
        ) from None
    except OSError as reason:
        raise CommandError(
            f"cannot write {directory}",
            why=(reason.strerror or str(reason)).lower(),
            advice="another --data-dir",
        ) from None


def checked_controllers(controllers: int | None, brokers: int) -> int | None:
    if controllers is not None and controllers > brokers:
        raise CommandError(
            f"{controllers} controllers asked for",
            why=f"they are among the brokers, and there are {brokers}",
            advice=f"--controllers {brokers}",
            code=USAGE,
        )
    return controllers


def refuse_second(directory: Path, state: ClusterState) -> None:
    if state.is_running:
        running = ", ".join(str(node.id) for node in state.nodes.values() if node.state != "gone")
        raise CommandError(
            f"{state.name} runs already",
            why=f"its nodes {running} are alive, at {state.bootstrap_servers}",
            advice=f"tidelog ps    or    {down_command(directory.parent, state.name)}",
        )


def parse_overrides(overrides: tuple[str, ...]) -> dict[str, str]:
    values = {}
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise CommandError(
                f"wrong value for -X: {text}",
                why="there is no key=value",
                advice="-X min.insync.replicas=1",
                code=USAGE,
            )
        if find_key(key.strip()) is None:
            near = nearest_name(key.strip())
            raise CommandError(
                f"no setting {key.strip()}",
                why=f"did you mean {near}?" if near else "no such key",
                advice="tidelog config list",
                code=USAGE,
            )
        values[key.strip()] = value
    return values


def launch(nodes: LocalNodes, given: dict[str, Any], tell: Callable[[Ready], None] | None) -> None:
    nodes.start(nodes.node_ids, attached=not given["detach"])
    try:
        asyncio.run(
            wait_ready(nodes, timeout_ms=given["timeout_ms"], on_ready=tell or (lambda _: None))
        )
    except NodeFailed as failure:
        for line in failure.last_lines:
            click.echo(f"  node {failure.node_id} │ {line}", err=True)
        log = layout.log_file(nodes.directory, failure.node_id)
        raise CommandError(
            str(failure),
            why=failure.why,
            advice=f"the whole log: {log}",
            code=UNREACHABLE,
        ) from None


def start_console(
    nodes: LocalNodes, given: dict[str, Any], tell: Callable[[Ready], None] | None
) -> None:
    """A cluster without its console is a cluster all the same."""
    begin = time.monotonic()
    try:
        url = console_process.start(nodes, given["console_port"], attached=not given["detach"])
    except NoConsole as reason:
        click.echo(f"warning: the console did not start: {reason}", err=True)
        return
    if tell is not None:
        tell(Ready("console", url, time.monotonic() - begin))


def tell_ready(ready: Ready) -> None:
    tick = session.current().styled("✔", "green", stream=sys.stderr)
    click.echo(f" {tick} {ready.part:<19} {ready.detail:<32} {ready.seconds:4.1f} s", err=True)


def report(nodes: LocalNodes, given: dict[str, Any], *, seconds: float) -> None:
    document = as_document(nodes)
    if given["ready_file"] is not None:
        write_ready_file(given["ready_file"], document)
    if given["output"] == "json":
        print_json(document)
        return
    name = nodes.state.name
    down = f"`{down_command(given['data_dir'], name)}`"
    how = f"stop with {down}" if given["detach"] else f"stop with Ctrl-C or {down}"
    click.echo(f"{name} is ready in {seconds:.1f} s; data in {nodes.directory}; {how}")
    if nodes.state.secure:
        login = layout.secure_home(nodes.directory).login_file(ADMIN_USER)
        click.echo(f"log in with the files in {login.parent}; commands here do so by themselves")
    there = "" if given["data_dir"] == Path(HOME) else f" -b {nodes.state.bootstrap_servers}"
    click.echo(
        f"next: tidelog topic create orders -p 3{there}   ·   tidelog cluster describe{there}"
    )


def write_ready_file(path: Path, document: dict[str, Any]) -> None:
    """Whole or not at all: somebody waits for it to appear."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    os.replace(temporary, path)


def as_document(nodes: LocalNodes) -> dict[str, Any]:
    state = nodes.state
    return {
        "name": state.name,
        "cluster_id": state.cluster_id,
        "bootstrap_servers": state.bootstrap_servers,
        "console": None if state.console is None else state.console.url,
        "data_dir": str(nodes.directory.resolve()),
        "nodes": [
            {
                "id": node.id,
                "roles": list(node.roles),
                "address": f"{state.host}:{node.port}",
                "http_port": node.http_port,
                "pid": node.process.pid if node.process else None,
                "log": str(layout.log_file(nodes.directory, node.id).resolve()),
            }
            for node in state.nodes.values()
        ],
    }


def stay(nodes: LocalNodes) -> None:
    """Until somebody interrupts us or takes the cluster down from elsewhere."""
    while True:
        time.sleep(WATCH_SECONDS)
        known = states.load(nodes.directory)
        if known is None or not any(node.process for node in known.nodes.values()):
            return  # `tidelog down` has stopped them; one that was killed may come back
        nodes.state = known  # chaos commands have changed it: pids of restarted nodes


def take_down(nodes: LocalNodes) -> None:
    with suppress(FileNotFoundError):
        nodes.state = read_state(nodes.directory)
        console_process.stop(nodes)
        nodes.stop(nodes.node_ids, timeout_ms=STOP_WITHIN_MS)
    nodes.close()
    if nodes.state.ephemeral:
        shutil.rmtree(nodes.directory, ignore_errors=True)


@contextmanager
def interrupts() -> Iterator[None]:
    """SIGTERM ends it like Ctrl-C."""

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
