"""`tidelog bench`: figures of a real cluster on this machine."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "compare": Lazy("tidelog.cli.bench.compare", "Tidelog beside Apache Kafka, row by row."),
    "table": Lazy("tidelog.cli.bench.table", "A comparison that was kept, as a table."),
    "quick": Lazy("tidelog.cli.bench.quick", "Our half beside the limit of the machine."),
    "verify": Lazy("tidelog.cli.bench.verify", "Full speed, and every record read back."),
    "failover": Lazy("tidelog.cli.bench.failover", "Kill leaders under load, and count."),
    "silence": Lazy("tidelog.cli.bench.silence", "How long brokers do not answer, and when."),
    "growth": Lazy("tidelog.cli.bench.growth", "What one more partition or connection costs."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Measure a real cluster on this machine, started for the purpose.

    \b
    Example:
      tidelog bench quick --json before.json
      tidelog bench verify
      tidelog bench failover --kills 20
      tidelog bench compare --only produce --rounds 3
    """
