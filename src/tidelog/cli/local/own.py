"""A cluster for one command: in a directory of its own, and gone with it."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from tidelog.cluster import layout
from tidelog.cluster.layout import Shape
from tidelog.cluster.nodes import LocalNodes

STOP_WITHIN_MS = 10_000


@contextmanager
def own_nodes(name: str, brokers: int, *, keep: bool = False) -> Iterator[LocalNodes]:
    """Nodes that are not started yet. Nothing of them is left, whatever happens inside."""
    directory = Path(tempfile.mkdtemp(prefix=f"tidelog-{name}-"))
    nodes = LocalNodes(directory, layout.create(directory, name, Shape(brokers)))
    try:
        yield nodes
        nodes.stop(nodes.node_ids, timeout_ms=STOP_WITHIN_MS)
    finally:
        for node_id in nodes.node_ids:
            nodes.kill(node_id)
        nodes.close()
        if keep:
            click.echo(f"kept: {directory}", err=True)
        else:
            shutil.rmtree(directory, ignore_errors=True)
