"""`tidelog down`: stop the local cluster."""

import shutil
from pathlib import Path

import click

from tidelog.cli.durations import DURATION
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.local.home import load_nodes, place_options
from tidelog.cli.output import plural, print_json
from tidelog.cluster import console_process


@click.command(name="down")
@click.option(
    "--timeout",
    "timeout_ms",
    type=DURATION,
    default="15s",
    show_default=True,
    help="Nodes that take longer are killed.",
)
@click.option("--delete-data", is_flag=True, help="Remove its directory as well.")
@place_options
@output_option
@shared_options
def command(
    timeout_ms: int, delete_data: bool, data_dir: Path, name: str | None, output: str
) -> None:
    """Stop the local cluster: leaderships are handed over, logs are synced and closed.

    \b
    Examples:
      tidelog down
      tidelog down --delete-data
    """
    nodes = load_nodes(data_dir, name)
    console_process.stop(nodes)
    stopped = nodes.stop(nodes.node_ids, timeout_ms=timeout_ms)
    removed = delete_data or nodes.state.ephemeral
    if removed:
        shutil.rmtree(nodes.directory, ignore_errors=True)
    late = [each.node_id for each in stopped if not each.in_time]
    if output == "json":
        print_json(
            {
                "name": nodes.state.name,
                "stopped": [each.node_id for each in stopped],
                "killed": late,
                "data_removed": removed,
            }
        )
        return
    if not stopped:
        click.echo(f"{nodes.state.name} was not running")
    else:
        click.echo(f"{nodes.state.name}: {plural(len(stopped), 'node')} stopped")
    for node_id in late:
        click.echo(f"node {node_id} had to be killed: it did not stop in time", err=True)
    if removed:
        click.echo(f"{nodes.directory} removed")
