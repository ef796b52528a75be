"""`tidelog group`: consumer groups of a cluster."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "list": Lazy("tidelog.cli.group.list_groups", "All groups, and how far behind they are."),
    "describe": Lazy("tidelog.cli.group.describe", "Members, offsets and lag per partition."),
    "seek": Lazy("tidelog.cli.group.seek", "Move committed offsets: a plan, then --yes."),
    "delete": Lazy("tidelog.cli.group.delete", "Delete groups and what they committed."),
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
