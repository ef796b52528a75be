"""`tidelog user`: users with passwords."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "list": Lazy("tidelog.cli.user.users", "Who has a password."),
    "add": Lazy("tidelog.cli.user.users", "Give somebody a password.", "add"),
    "remove": Lazy("tidelog.cli.user.users", "Take it away.", "remove"),
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
