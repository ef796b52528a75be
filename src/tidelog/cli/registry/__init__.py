"""`tidelog registry`: a schema registry on a topic."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "start": Lazy("tidelog.cli.registry.start", "Serve schemas over HTTP."),
    "add-user": Lazy("tidelog.cli.registry.add_user", "Add a user, or change a password."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Schemas of records, for the serializers of Kafka clients.

    \b
    Examples:
      tidelog registry start
      tidelog registry start -b host:9092 --port 8081
      tidelog registry add-user users.txt ann

    It needs: pip install 'tidelog[registry]'
    """
