"""`tidelog bench`: figures of a real cluster on this machine."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "compare": Lazy("tidelog.cli.bench.compare", "Compare Tidelog with Apache Kafka, row by row."),
    "table": Lazy("tidelog.cli.bench.table", "Show a saved comparison as a table."),
    "quick": Lazy("tidelog.cli.bench.quick", "Measure Tidelog beside the machine's limits."),
    "verify": Lazy("tidelog.cli.bench.verify", "Write at full speed, then verify every record."),
    "failover": Lazy(
        "tidelog.cli.bench.failover", "Kill leaders under load, and count lost records."
    ),
    "silence": Lazy(
        "tidelog.cli.bench.silence", "Measure how long brokers stay silent under admin load."
    ),
    "growth": Lazy(
        "tidelog.cli.bench.growth", "Measure what one more partition or connection costs."
    ),
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
