"""`tidelog topic`: topics of a cluster."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "create": Lazy("tidelog.cli.topic.create", "Create a topic."),
    "list": Lazy("tidelog.cli.topic.list_topics", "List topics."),
    "describe": Lazy("tidelog.cli.topic.describe", "Show leaders, replicas and offsets."),
    "watch": Lazy("tidelog.cli.topic.watch", "Draw one partition as it moves."),
    "alter": Lazy("tidelog.cli.topic.alter", "Change topic settings."),
    "add-partitions": Lazy(
        "tidelog.cli.topic.alter", "Add partitions to a topic.", "add_partitions"
    ),
    "trim": Lazy("tidelog.cli.topic.remove", "Delete old records.", "trim_command"),
    "delete": Lazy("tidelog.cli.topic.remove", "Delete topics."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Create, describe, change and delete topics.

    \b
    Examples:
      tidelog topic create orders -p 3 -r 3 -c min.insync.replicas=2
      tidelog topic describe orders
      tidelog topic delete orders --yes
    """
