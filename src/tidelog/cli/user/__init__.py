"""`tidelog user`: users with passwords."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "list": Lazy("tidelog.cli.user.users", "List users that have a password."),
    "add": Lazy("tidelog.cli.user.users", "Add a user, or change a password.", "add"),
    "remove": Lazy("tidelog.cli.user.users", "Remove a user's password.", "remove"),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Users with SCRAM credentials.

    \b
    Examples:
      tidelog user add alice
      tidelog user add alice --password-file secret.txt
      tidelog user list
      tidelog user remove alice
    """
