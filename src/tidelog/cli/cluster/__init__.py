"""`tidelog cluster`: the cluster as a whole."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "describe": Lazy("tidelog.cli.cluster.describe", "Brokers, controller, quorum, disks."),
    "health": Lazy("tidelog.cli.cluster.health", "What is wrong, if anything."),
    "apis": Lazy("tidelog.cli.cluster.apis", "What the brokers can do, in which versions."),
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
