"""`tidelog ps`: the nodes of local clusters."""

from pathlib import Path
from typing import Any

import click

from tidelog.cli.lazy import shared_options, table_option
from tidelog.cli.local.home import no_cluster, read_state
from tidelog.cli.tables import Column, show
from tidelog.cluster import state as states
from tidelog.cluster.state import HOME, ClusterState, NodeState

COLUMNS = (
    Column("CLUSTER", "cluster"),
    Column("NODE", "node"),
    Column("ROLES", "roles"),
    Column("ADDRESS", "address"),
    Column("HTTP", "http"),
    Column("PID", "pid"),
    Column("STATE", "state"),
    Column("RACK", "rack", wide=True),
)


@click.command(name="ps")
@click.option("--data-dir", type=click.Path(file_okay=False, path_type=Path), default=HOME)
@table_option
@shared_options
def command(data_dir: Path, output: str) -> None:
    """List the nodes of the clusters that were started in this directory.

    \b
    Examples:
      tidelog ps
      tidelog ps -o json
    """
    clusters = [read_state(path) for path in states.clusters_under(data_dir).values()]
    if not clusters:
        raise no_cluster(data_dir)
    rows = [row_of(state, node) for state in clusters for node in state.nodes.values()]
    show(output, rows, COLUMNS, rows)


def row_of(state: ClusterState, node: NodeState) -> dict[str, Any]:
    alive = node.state != "gone"
    return {
        "cluster": state.name,
        "node": node.id,
        "roles": list(node.roles),
        "address": f"{state.host}:{node.port}",
        "http": node.http_port,
        "pid": node.process.pid if alive and node.process else None,
        "state": node.state,
        "rack": node.rack,
    }
