"""`tidelog secure`: certificates, users and what protects a cluster."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "init": Lazy("tidelog.cli.secure.init", "Make certificates and users for a secured cluster."),
    "add-user": Lazy(
        "tidelog.cli.secure.add_user", "Add a user with access rules and login files."
    ),
    "check": Lazy("tidelog.cli.secure.check", "Test what a stranger can do on each listener."),
    "rotate": Lazy("tidelog.cli.secure.rotate", "Replace keys and certificates of nodes."),
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
