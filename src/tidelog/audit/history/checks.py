"""Every check of a history that fits into memory. `on_spark` says the same in DataFrames."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tidelog.audit.history.cycles import Edge, OperationName, circles
from tidelog.audit.history.findings import (
    ABORTED_READ,
    DUPLICATE,
    INCONSISTENT_OFFSETS,
    INT_NONMONOTONIC_POLL,
    INT_NONMONOTONIC_SEND,
    INT_POLL_SKIP,
    LOST_WRITE,
    NONMONOTONIC_POLL,
    NONMONOTONIC_SEND,
    POLL_SKIP,
    PRECOMMITTED_READ,
    SHOWN_OF_EACH,
    UNSEEN,
    WRITE_READ_CYCLE,
    Finding,
    Findings,
    Totals,
    gathered,
)
from tidelog.audit.history.rows import (
    ASSIGN,
    FAIL,
    HEALED,
    INFO,
    LOG_START,
    OK,
    POLL,
    READ_BACK,
    SEND,
    SUBSCRIBE,
    Row,
    check_rows,
    is_read,
)

Place = tuple[str | None, int | None]
"""(topic, partition)"""
ValueAt = tuple[str | None, int | None, int | None]
"""(topic, partition, value)"""


def check(rows: Sequence[Row], *, shown: int = SHOWN_OF_EACH) -> Findings:
    """Everything that is wrong with a history, and the first few of each anomaly by name;
    BadHistory if it is none."""
    check_rows(rows)
    seen = Observed(rows)
    found: list[Finding] = []
    for look in (
        inconsistent_offsets,
        unread_writes,
        duplicates,
        aborted_reads,
        precommitted_reads,
        wrong_moves,
        nonmonotonic_sends,
        write_read_cycles,
    ):
        found.extend(look(seen))
    return gathered(totals(seen), found, shown)


class Observed:
    """The rows by client and in order, and what they tell of each partition."""

    __slots__ = ("_offsets", "furthest", "placed", "read", "rows", "starts", "writers")

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = sorted(rows, key=_in_order)
        self.writers: dict[ValueAt, Row] = {}
        self.placed: dict[Place, dict[int, list[int]]] = {}
        """By offset: the different values that were told or seen to lie there."""
        self.read: set[ValueAt] = set()
        self.furthest: dict[Place, int] = {}
        self.starts: dict[Place, int] = {}
        for row in self.rows:
            self._take(row)
        self._offsets: dict[Place, list[int]] = {}

    def _take(self, row: Row) -> None:
        place = (row.topic, row.partition)
        if row.op == SEND:
            self.writers[value_at(row)] = row
        elif row.op == LOG_START and row.offset is not None:
            self.starts[place] = max(row.offset, self.starts.get(place, 0))
        if is_placed(row):
            assert row.offset is not None, row
            assert row.value is not None, row
            values = self.placed.setdefault(place, {}).setdefault(row.offset, [])
            if row.value not in values:
                values.append(row.value)
        if is_read(row):
            assert row.offset is not None, row
            self.read.add(value_at(row))
            self.furthest[place] = max(row.offset, self.furthest.get(place, -1))

    def is_skipped(self, place: Place, before: int, after: int) -> bool:
        """Whether known records that were not deleted lie strictly between two positions."""
        offsets = self._offsets.get(place)
        if offsets is None:
            start = self.starts.get(place, 0)
            offsets = sorted(each for each in self.placed.get(place, ()) if each >= start)
            self._offsets[place] = offsets
        return bisect_left(offsets, after) > bisect_left(offsets, before + 1)

    def is_deleted(self, row: Row) -> bool:
        start = self.starts.get((row.topic, row.partition), 0)
        return row.offset is not None and row.offset < start


def _in_order(row: Row) -> tuple[str, int, int, int, str, int]:
    """Steps decide; the rest only keeps the order of equal ones the same everywhere."""
    offset = -1 if row.offset is None else row.offset
    value = -1 if row.value is None else row.value
    return row.client, row.operation, row.step, offset, row.op, value


def is_placed(row: Row) -> bool:
    """It tells for sure what lies at an offset: an acknowledged write, or a read."""
    return is_read(row) or (row.op == SEND and row.outcome == OK and row.offset is not None)


def value_at(row: Row) -> ValueAt:
    return row.topic, row.partition, row.value


def inconsistent_offsets(seen: Observed) -> Iterator[Finding]:
    """One offset of a partition was told or seen with two different values."""
    wrong = {
        (*place, offset): sorted(values)
        for place, by_offset in seen.placed.items()
        for offset, values in by_offset.items()
        if len(values) > 1
    }
    observers: dict[tuple[str | None, int | None, int], Row] = {}
    for row in seen.rows if wrong else ():
        if is_placed(row) and row.offset is not None:
            where = (row.topic, row.partition, row.offset)
            if where in wrong:
                observers.setdefault(where, row)
    for where, values in wrong.items():
        row = observers[where]
        yield Finding(
            INCONSISTENT_OFFSETS, *where, row.client, row.operation, values[0], values[-1]
        )


def unread_writes(seen: Observed) -> Iterator[Finding]:
    """Lost writes, which were read over, and unseen ones, which nobody came to.

    A write of unknown outcome counts as acknowledged once another write of its transaction was
    read: then the transaction did commit.
    """
    committed_after_all = {
        (row.client, row.operation)
        for row in seen.rows
        if row.op == SEND
        and row.outcome == INFO
        and row.transaction is not None
        and value_at(row) in seen.read
    }
    for row in seen.rows:
        if row.op != SEND or value_at(row) in seen.read or seen.is_deleted(row):
            continue
        surely = row.outcome == OK or (
            row.outcome == INFO and (row.client, row.operation) in committed_after_all
        )
        furthest = seen.furthest.get((row.topic, row.partition), -1)
        if surely and row.offset is not None and row.offset <= furthest:
            yield of_row(LOST_WRITE, row, furthest)
        elif row.outcome == OK:
            yield of_row(UNSEEN, row)


def duplicates(seen: Observed) -> Iterator[Finding]:
    """One value lies at two offsets of a partition."""
    first: dict[ValueAt, int] = {}
    for place, by_offset in seen.placed.items():
        for offset in sorted(by_offset):
            for value in by_offset[offset]:
                first.setdefault((*place, value), offset)
    told: set[tuple[ValueAt, int]] = set()
    for row in seen.rows:
        if not is_placed(row) or row.offset is None:
            continue
        where = value_at(row)
        if first[where] != row.offset and (where, row.offset) not in told:
            told.add((where, row.offset))
            yield of_row(DUPLICATE, row, first[where])


def aborted_reads(seen: Observed) -> Iterator[Finding]:
    """Somebody read a value whose writer surely failed or aborted."""
    told: set[ValueAt] = set()
    for row in seen.rows:
        if is_read(row) and value_at(row) not in told:
            writer = seen.writers.get(value_at(row))
            if writer is not None and writer.outcome == FAIL:
                told.add(value_at(row))
                yield of_row(ABORTED_READ, row)


def precommitted_reads(seen: Observed) -> Iterator[Finding]:
    """A transaction polled what it had written itself and not committed yet."""
    for row in seen.rows:
        if row.op == POLL and is_read(row) and row.transaction is not None:
            writer = seen.writers.get(value_at(row))
            if writer is not None and name_of(writer) == name_of(row) and writer.step < row.step:
                yield of_row(PRECOMMITTED_READ, row)


class Position(NamedTuple):
    offset: int
    operation: int


def wrong_moves(seen: Observed) -> Iterator[Finding]:
    """A consumer jumped forward over records that exist, or its position stayed or went back.

    An assignment excuses the next move. Under a subscription moves between operations are
    excused, since a rebalance may have happened; inside one poll they are not.
    """
    last: dict[Place, Position] = {}
    client, subscribed = "", False
    for row in seen.rows:
        if row.client != client:
            client, subscribed = row.client, False
            last.clear()
        if row.op in (ASSIGN, SUBSCRIBE):
            subscribed = row.op == SUBSCRIBE
            last.clear()
        elif row.op == POLL and is_read(row):
            assert row.offset is not None, row
            place = (row.topic, row.partition)
            before = last.get(place)
            last[place] = Position(row.offset, row.operation)
            if before is None:
                continue
            inside = before.operation == row.operation
            if subscribed and not inside:
                continue
            if row.offset <= before.offset:
                kind = INT_NONMONOTONIC_POLL if inside else NONMONOTONIC_POLL
                yield of_row(kind, row, before.offset)
            elif seen.is_skipped(place, before.offset, row.offset):
                yield of_row(INT_POLL_SKIP if inside else POLL_SKIP, row, before.offset)


def nonmonotonic_sends(seen: Observed) -> Iterator[Finding]:
    """Two writes of one client to one partition, in order, were told positions out of order."""
    last: dict[tuple[str, Place], Position] = {}
    for row in seen.rows:
        if row.op != SEND or row.outcome != OK or row.offset is None:
            continue
        key = (row.client, (row.topic, row.partition))
        before = last.get(key)
        last[key] = Position(row.offset, row.operation)
        if before is not None and row.offset <= before.offset:
            inside = before.operation == row.operation
            kind = INT_NONMONOTONIC_SEND if inside else NONMONOTONIC_SEND
            yield of_row(kind, row, before.offset)


def write_read_cycles(seen: Observed) -> Iterator[Finding]:
    """Transactions that read from each other in a circle: each would have to be before the rest.

    Only edges from the writer of a value to its reader count: the log does not isolate writers.
    """
    edges: set[Edge] = set()
    for row in seen.rows:
        if row.op == POLL and is_read(row) and row.transaction is not None:
            writer = seen.writers.get(value_at(row))
            if writer is not None and writer.transaction is not None:
                edges.add((name_of(writer), name_of(row)))
    yield from found_circles(edges)


def found_circles(edges: Iterable[Edge]) -> Iterator[Finding]:
    for members in circles(edges):
        client, operation = members[0]
        yield Finding(WRITE_READ_CYCLE, None, None, None, client, operation, None, len(members))


def totals(seen: Observed) -> Totals:
    sends = [row for row in seen.rows if row.op == SEND]
    first_polled: dict[ValueAt, int] = {}
    polled = 0
    for row in seen.rows:
        if row.op == POLL and is_read(row):
            polled += 1
            if row.complete_us is not None:
                before = first_polled.get(value_at(row), row.complete_us)
                first_polled[value_at(row)] = min(before, row.complete_us)
    lags = [
        first_polled[value_at(row)] - row.complete_us
        for row in sends
        if row.outcome == OK and row.complete_us is not None and value_at(row) in first_polled
    ]
    return Totals(
        sent=len(sends),
        acknowledged=sum(row.outcome == OK for row in sends),
        in_doubt=sum(row.outcome == INFO for row in sends),
        aborted=sum(row.outcome == FAIL for row in sends),
        polled=polled,
        read_back=sum(value_at(row) in seen.read for row in sends),
        foreign=sum(each not in seen.writers for each in seen.read),
        worst_lag_us=max([0, *lags]),
        drained=any(row.op == READ_BACK for row in seen.rows),
        stuck=_is_stuck(seen),
    )


def _is_stuck(seen: Observed) -> bool:
    healed = [row.invoke_us for row in seen.rows if row.op == HEALED]
    if not healed:
        return False
    final = [
        row.outcome for row in seen.rows if row.op in (SEND, POLL) and row.invoke_us >= min(healed)
    ]
    return bool(final) and OK not in final


def name_of(row: Row) -> OperationName:
    return row.client, row.operation


def of_row(anomaly: str, row: Row, other: int | None = None) -> Finding:
    """At the place of a row, by its client."""
    return Finding(
        anomaly,
        row.topic,
        row.partition,
        row.offset,
        row.client,
        row.operation,
        row.value,
        other,
    )
