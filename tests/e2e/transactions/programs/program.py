"""What the programs of these stories share: what they are told, and what they tell.

A worker copies one topic to another, exactly once. It is started with the addresses of the
brokers, both topics, the group, its transactional id and the partitions it keeps to where its
library cannot share them. Each line it prints is one event as JSON; each line of its input is an
order:

- `hold`: leave the next transaction open, say so, and do nothing more;
- `close`: end after this transaction.

Every so often it writes something else than it should, and aborts.
"""

import json
import sys
import threading
from typing import Any, NamedTuple

ABORT_EVERY = 5
"""Of so many transactions one is aborted."""
MOST_RECORDS = 50
TIMEOUT_S = 30.0


def say(event: str, **details: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **details}) + "\n")
    sys.stdout.flush()


class Job(NamedTuple):
    bootstrap: str
    input: str
    output: str
    group: str
    name: str
    partitions: list[int]


def told() -> Job:
    *words, partitions = sys.argv[1:]
    return Job(*words, partitions=[int(each) for each in partitions.split(",")])


def done(value: bytes) -> bytes:
    """What stands for this input in the output."""
    return b"done " + value


def never(value: bytes) -> bytes:
    """What nobody may see who reads what is committed."""
    return b"never " + value


class Orders:
    """What came in on a thread of its own. The end of the input is the order to close."""

    def __init__(self) -> None:
        self.hold = threading.Event()
        self.close = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            getattr(self, line.strip()).set()
        self.close.set()


def hold() -> None:
    """With the transaction open, until somebody kills us."""
    say("holding")
    threading.Event().wait()
