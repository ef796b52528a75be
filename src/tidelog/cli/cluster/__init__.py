"""`tidelog cluster`: the cluster as a whole."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "describe": Lazy("tidelog.cli.cluster.describe", "Show brokers, controller, quorum and disks."),
    "health": Lazy("tidelog.cli.cluster.health", "Show what is wrong, worst first."),
    "apis": Lazy("tidelog.cli.cluster.apis", "List the APIs and versions that brokers serve."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Brokers, health and what they can do.

    \b
    Examples:
      tidelog cluster describe
      tidelog cluster health --wait --timeout 30s
      tidelog cluster apis -b kafka-1:9092
    """
