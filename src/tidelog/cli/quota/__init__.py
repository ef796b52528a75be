"""`tidelog quota`: how much clients may do."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "list": Lazy("tidelog.cli.quota.quotas", "List quotas."),
    "set": Lazy("tidelog.cli.quota.quotas", "Set or remove limits.", "set_quotas"),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Quotas of users, client ids and addresses.

    \b
    Examples:
      tidelog quota set --user alice producer_byte_rate=1048576
      tidelog quota set --client-id loader --remove consumer_byte_rate
      tidelog quota list
    """
