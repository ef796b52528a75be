"""How Spark's daemon of workers starts, run as a program: `quiet_daemon.py MODULE`.

Spark closes the connection to a worker as soon as it has all that it wants, and the worker then
finds nobody to tell that it is done. Over TCP it does not notice; over a socket of the machine it
would print a traceback for every such task. Spark tells by itself when a task has failed.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

ENDED = 1
"""This worker is not used again: its connection is gone."""


def quiet(worker: Callable[..., int]) -> Callable[..., int]:
    """Ends without a word when nobody is at the other end any more."""

    def quiet_worker(*connection: Any) -> int:
        try:
            return worker(*connection)
        except BrokenPipeError:
            return ENDED

    return quiet_worker


def main() -> None:
    sys.path[0] = os.getcwd()  # as with `python -m`; our own directory has names of others
    from pyspark import daemon  # noqa: PLC0415 - found on that path

    daemon.worker = quiet(daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    main()
