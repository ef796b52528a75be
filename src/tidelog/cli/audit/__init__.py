"""`tidelog audit`: what a cluster kept, judged from outside."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "replicas": Lazy("tidelog.cli.audit.replicas", "Compare the files of all replicas."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Judge from outside what a cluster kept.

    \b
    Examples:
      tidelog audit replicas
      tidelog audit replicas --dir 1=node-1/data --dir 2=node-2/data --topic orders
    """
