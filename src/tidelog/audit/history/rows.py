"""The rows of a history.

An operation is one call of one client: a write of a few records, a poll, or a whole transaction.
It is as many rows as it has records, numbered by `step`; a client does one operation after the
other. Values are known by a number that is made of their bytes, and a history needs them to be
different: a value that was written twice could not be told from one that was delivered twice.
"""

import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple

SEND: Final = "send"
POLL: Final = "poll"
ASSIGN: Final = "assign"
"""The client chose its partitions or its position itself: it may go anywhere from here."""
SUBSCRIBE: Final = "subscribe"
"""A group chooses for the client: positions may jump between operations."""
READ_BACK: Final = "read-back"
"""Found by the last read of everything, when all faults were healed. No order is implied."""
LOG_START: Final = "log-start"
"""Offsets of the partition below this one were deleted on purpose."""
HEALED: Final = "healed"
"""From here on nothing is broken any more."""
OPS: Final = (SEND, POLL, ASSIGN, SUBSCRIBE, READ_BACK, LOG_START, HEALED)

OK: Final = "ok"
FAIL: Final = "fail"
"""It surely did not happen, and never will."""
INFO: Final = "info"
"""Nobody knows."""
OUTCOMES: Final = (OK, FAIL, INFO)

DIGITS: Final = 15
"""Of the hexadecimal digest: 60 bits are never negative, and Spark can make the same number."""


class Row(NamedTuple):
    client: str
    operation: int
    """Of this client, in the order it did them."""
    step: int
    """Within the operation."""
    op: str
    invoke_us: int
    """Any clock that does not jump, the same for all clients."""
    complete_us: int | None
    """None: it never came back."""
    topic: str | None
    """None where no record is concerned, as in a poll that failed."""
    partition: int | None
    offset: int | None
    """None: nobody told."""
    key: bytes | None
    value: int | None
    outcome: str
    """Of a write within a transaction: that of the transaction. FAIL: it was aborted."""
    transaction: str | None
    """The same for all rows of one transaction, and for no others."""


class BadHistory(Exception):  # noqa: N818 - it names what is so
    """A file or its rows are no history; the text says what is wrong with them."""


def value_number(value: bytes | memoryview | None) -> int:
    """The number by which a history knows a value."""
    return int(hashlib.sha256(value or b"").hexdigest()[:DIGITS], 16)


def is_read(row: Row) -> bool:
    """A record that somebody really saw."""
    return row.op in (POLL, READ_BACK) and row.outcome == OK and row.offset is not None


def check_rows(rows: Iterable[Row]) -> None:
    """BadHistory unless every row says what a row of its kind must, and values differ."""
    malformed = sum(not _is_whole(row) for row in rows)
    if malformed:
        raise BadHistory(words_of_malformed(malformed))
    sent: set[tuple[str | None, int | None, int | None]] = set()
    repeated = 0
    for row in rows:
        if row.op == SEND:
            where = (row.topic, row.partition, row.value)
            repeated += where in sent
            sent.add(where)
    if repeated:
        raise BadHistory(words_of_repeated(repeated))


def words_of_malformed(count: int) -> str:
    return (
        f"{count} of its rows are incomplete: op is one of {', '.join(OPS)}, outcome one of"
        f" {', '.join(OUTCOMES)}, a write has topic, partition and value, a record that was read"
        " also its offset"
    )


def words_of_repeated(count: int) -> str:
    return f"{count} values are written more than once: all values of a history must differ"


def _is_whole(row: Row) -> bool:
    if row.op not in OPS or row.outcome not in OUTCOMES:
        return False
    placed = row.topic is not None and row.partition is not None
    if row.op == SEND:
        return placed and row.value is not None
    if row.op in (POLL, READ_BACK) and row.topic is not None:
        return placed and row.offset is not None and row.value is not None
    if row.op == LOG_START:
        return placed and row.offset is not None
    return True
