"""`tidelog txn`: transactions of a cluster."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "list": Lazy("tidelog.cli.txn.list_transactions", "List transactional ids, open ones first."),
    "describe": Lazy("tidelog.cli.txn.describe", "Show what a transaction holds, and its timeout."),
    "abort": Lazy("tidelog.cli.txn.abort", "Abort a hanging transaction (plan first, then --yes)."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Transactions: which are open, what they hold, and ending them.

    \b
    Examples:
      tidelog txn list --open
      tidelog txn describe billing-1
      tidelog txn abort billing-1 --yes
    """
