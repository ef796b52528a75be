"""`tidelog group`: consumer groups of a cluster."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "list": Lazy("tidelog.cli.group.list_groups", "List groups with their lag."),
    "describe": Lazy("tidelog.cli.group.describe", "Show members, offsets and lag per partition."),
    "seek": Lazy("tidelog.cli.group.seek", "Move committed offsets (plan first, then --yes)."),
    "delete": Lazy("tidelog.cli.group.delete", "Delete groups and their committed offsets."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Consumer groups: who reads what, how far behind, and moving them.

    \b
    Examples:
      tidelog group list
      tidelog group describe billing --watch
      tidelog group seek billing --to -1h --topic orders --yes
      tidelog group delete billing --yes
    """
