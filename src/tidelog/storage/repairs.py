"""Repairs: a file that should have been intact was not, and something was done about it.

Whoever repairs a file notes it in the list of its log directory. The shell tells the operator, one
line per file, and empties the list. What a crash does in the ordinary course (an index of the
last segment that is made anew, a temporary file) is no repair; a torn end of a log is one.
"""

import logging
from typing import NamedTuple

from tidelog.storage.errors import CorruptFile

_LOGGER = logging.getLogger("tidelog.storage")

INDEX_MADE_ANEW = "made anew from its segment, no record is lost"
PRODUCERS_REPLAYED = "producers are learned from an older snapshot and the batches behind it"


class Repair(NamedTuple):
    fault: CorruptFile
    """The file, the place in it and what was wrong."""
    done: str
    """What was done, and what has to be fetched again."""

    def __str__(self) -> str:
        return f"{self.fault}; {self.done}"


Repairs = list[Repair]


def tell(directory: str, repairs: Repairs) -> None:
    """One warning per file of this directory. The list is empty afterwards."""
    for repair in one_per_file(repairs):
        _LOGGER.warning("repaired in %s: %s", directory, repair)
    repairs.clear()


def one_per_file(repairs: Repairs) -> list[Repair]:
    """The first of each file: what follows was found on the way."""
    first: dict[str, Repair] = {}
    for repair in repairs:
        first.setdefault(repair.fault.path, repair)
    return list(first.values())
