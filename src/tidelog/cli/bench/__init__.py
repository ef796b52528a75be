"""`tidelog bench`: figures of a real cluster on this machine."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "compare": Lazy("tidelog.cli.bench.compare", "Tidelog beside Apache Kafka, row by row."),
    "failover": Lazy("tidelog.cli.bench.failover", "Kill leaders under load, and count."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Measure a real cluster on this machine, started for the purpose.

    \b
    Example:
      tidelog bench failover --kills 20
      tidelog bench compare --only produce --rounds 3
    """
