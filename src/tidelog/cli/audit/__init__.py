"""`tidelog audit`: was anything lost, written twice, moved or changed?"""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "run": Lazy("tidelog.cli.audit.run", "Load with faults on a cluster, and the verdict on it."),
    "history": Lazy("tidelog.cli.audit.history", "Judge what clients did and were told."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Judge a cluster from outside, by what clients were told and what can be read.

    \b
    Examples:
      tidelog audit run --for 60s --chaos kill,pause
      tidelog audit history history.parquet -b 127.0.0.1:9092
    """
