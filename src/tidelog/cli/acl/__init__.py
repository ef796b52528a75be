"""`tidelog acl`: who may do what."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "list": Lazy("tidelog.cli.acl.list_acls", "List access rules."),
    "add": Lazy("tidelog.cli.acl.change", "Allow or deny operations to a user."),
    "remove": Lazy("tidelog.cli.acl.change", "Remove access rules.", "remove"),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Access rules (ACLs) of a cluster with an authorizer.

    \b
    Examples:
      tidelog acl add --user alice --allow read --topic orders
      tidelog acl add --user alice --deny write --topic 'secret-*'
      tidelog acl list --user alice
      tidelog acl remove --user alice --topic orders
    """
