"""Which local cluster a command means."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from tidelog.cli.failure import ERROR, UNREACHABLE, CommandError, unknown_name
from tidelog.client import BrokerView
from tidelog.cluster import state as states
from tidelog.cluster.layout import admin_properties
from tidelog.cluster.node_http import NodeHttp, http_of
from tidelog.cluster.nodes import LocalNodes
from tidelog.cluster.state import DEFAULT_NAME, HOME, BadStateFile, ClusterState


def place_options(function: Any) -> Any:
    """`--name` and `--data-dir`: the same for every command about a local cluster."""
    function = click.option(
        "--data-dir",
        type=click.Path(file_okay=False, path_type=Path),
        default=HOME,
        show_default=True,
        help="Where local clusters lie.",
    )(function)
    return click.option("--name", metavar="NAME", help="Which of them, if there are several.")(
        function
    )


def down_command(data_dir: Path, name: str) -> str:
    """What stops this cluster when it is typed in the working directory."""
    words = ["tidelog down"]
    if data_dir != Path(HOME):
        words.append(f"--data-dir {shlex.quote(str(data_dir))}")
    if name != DEFAULT_NAME:
        words.append(f"--name {shlex.quote(name)}")
    return " ".join(words)


def load_nodes(data_dir: Path, name: str | None) -> LocalNodes:
    """The cluster of this name, or the only one, or the only one that runs."""
    known = states.clusters_under(data_dir)
    if name is not None and name not in known:
        if known:
            raise unknown_name("cluster", name, list(known), advice="tidelog ps")
        raise no_cluster(data_dir)
    chosen = name or _only(data_dir, known)
    return LocalNodes(known[chosen], read_state(known[chosen]))


def read_state(directory: Path) -> ClusterState:
    try:
        state = states.load(directory)
    except BadStateFile as reason:
        raise CommandError(
            "the state of the cluster cannot be read",
            why=str(reason),
            advice=f"remove {directory} if its data is not needed",
        ) from None
    assert state is not None, directory
    return state


class RunningCluster(NamedTuple):
    """A cluster of the working directory, and how to reach it."""

    bootstrap_servers: str
    properties: Mapping[str, str]
    """Of its administrator, if it is secured."""
    directory: Path

    def __repr__(self) -> str:
        """Passwords never reach a log."""
        return f"RunningCluster({self.bootstrap_servers})"


def running_cluster(data_dir: Path = Path(HOME)) -> RunningCluster | None:
    """The one of the working directory."""
    known = states.clusters_under(data_dir)
    running = {
        name: state for name, path in known.items() if (state := read_state(path)).is_running
    }
    if len(running) > 1:
        first = next(iter(running.values()))
        raise CommandError(
            f"{len(running)} clusters run here",
            why=f"{', '.join(running)}: which of them is not clear",
            advice=f"-b {first.bootstrap_servers}",
        )
    for name, state in running.items():
        path = known[name]
        return RunningCluster(state.bootstrap_servers, admin_properties(path, state), path)
    return None


def local_http(broker: BrokerView | None, data_dir: Path = Path(HOME)) -> NodeHttp | None:
    """Where this broker speaks HTTP, and how to ask it there, if it runs in a cluster of the
    working directory: no other cluster says so."""
    if broker is None:
        return None
    for directory in states.clusters_under(data_dir).values():
        state = states.load(directory)
        node = state.nodes.get(broker.id) if state is not None else None
        if (
            state is not None
            and node is not None
            and node.port == broker.port
            and node.state == "running"
        ):
            return http_of(LocalNodes(directory, state), node.id)
    return None


def known_node(nodes: LocalNodes, node_id: int) -> int:
    if node_id not in nodes.state.nodes:
        known = [str(each) for each in nodes.node_ids]
        raise unknown_name("node", str(node_id), known, advice="tidelog ps")
    return node_id


def no_cluster(data_dir: Path) -> CommandError:
    return CommandError(
        "there is no cluster here",
        why=f"nothing was started in {data_dir}",
        advice="tidelog up --brokers 3 --detach",
        code=UNREACHABLE,
    )


def _only(data_dir: Path, known: dict[str, Path]) -> str:
    if not known:
        raise no_cluster(data_dir)
    if len(known) == 1:
        return next(iter(known))
    running = [name for name, path in known.items() if read_state(path).is_running]
    if len(running) == 1:
        return running[0]
    if DEFAULT_NAME in (running or known):
        return DEFAULT_NAME
    raise CommandError(
        f"{len(known)} clusters lie here",
        why=", ".join(running or known),
        advice=f"--name {(running or list(known))[0]}",
        code=ERROR,
    )
