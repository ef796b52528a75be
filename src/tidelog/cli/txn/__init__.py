"""`tidelog txn`: transactions of a cluster."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "list": Lazy("tidelog.cli.txn.list_transactions", "All transactional ids, open ones first."),
    "describe": Lazy("tidelog.cli.txn.describe", "What one holds, and when it is aborted."),
    "abort": Lazy("tidelog.cli.txn.abort", "End one that nobody ends: a plan, then --yes."),
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
