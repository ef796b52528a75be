"""`tidelog config`: what can be set, what is set, and whether it makes sense."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "explain": Lazy(
        "tidelog.cli.config.explain", "Explain one key: its value, source and meaning."
    ),
    "list": Lazy("tidelog.cli.config.keys", "List every key that Tidelog knows."),
    "check": Lazy("tidelog.cli.config.check", "Check a configuration file."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Explain, list and check the configuration of a node.

    \b
    Examples:
      tidelog config explain broker.session.timeout.ms
      tidelog config list --status implemented
      tidelog config check server.properties
    """
