"""`tidelog config`: what can be set, what is set, and whether it makes sense."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "explain": Lazy("tidelog.cli.config.explain", "One key: its value, its source, its meaning."),
    "list": Lazy("tidelog.cli.config.keys", "Every key that Tidelog knows."),
    "check": Lazy("tidelog.cli.config.check", "All that is wrong with a file."),
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
