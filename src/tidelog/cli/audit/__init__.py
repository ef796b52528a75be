"""`tidelog audit`: was anything lost, written twice, moved or changed?"""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "replicas": Lazy("tidelog.cli.audit.replicas", "Compare the files of all replicas."),
    "run": Lazy("tidelog.cli.audit.run", "Run load and faults on a cluster, then judge it."),
    "history": Lazy("tidelog.cli.audit.history", "Judge a recorded history of clients."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Judge a cluster from outside, by its files and by what clients were told.

    \b
    Examples:
      tidelog audit replicas
      tidelog audit replicas --dir 1=node-1/data --dir 2=node-2/data --topic orders
      tidelog audit run --for 60s --chaos kill,pause
      tidelog audit history history.parquet -b 127.0.0.1:9092
    """
