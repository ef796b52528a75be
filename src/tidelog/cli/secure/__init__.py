"""`tidelog secure`: certificates, users and what protects a cluster."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "init": Lazy("tidelog.cli.secure.init", "Make all that a secured cluster needs."),
    "add-user": Lazy("tidelog.cli.secure.add_user", "A new user with rules and login files."),
    "check": Lazy("tidelog.cli.secure.check", "What a stranger could do right now."),
    "rotate": Lazy("tidelog.cli.secure.rotate", "New keys and certificates for the nodes."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """TLS, users and ACLs without days of work.

    \b
    Examples:
      tidelog up --secure
      tidelog secure init --node 1=tide-1.example.org --node 2=tide-2.example.org
      tidelog secure add-user billing --read orders --group billing
      tidelog secure check
      tidelog secure rotate
    """
