"""How a last read that could not come to its end is told."""

from tidelog.audit.history.read_back import NotDrained
from tidelog.cli.failure import NOT_REACHED, CommandError


def undecided(reason: NotDrained) -> CommandError:
    return CommandError(
        "not everything can be read yet",
        why=f"{reason}: a transaction is open",
        advice="tidelog txn list, or a longer --timeout",
        code=NOT_REACHED,
    )
