"""What must be true of the history of all clients, once the run is over."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from tidelog.sim.nodes.clients.history import (
    ABORTED,
    COMMITTED,
    OPEN,
    GroupLog,
    History,
    ReaderLog,
    TopicPartition,
)

NOT_AT_ITS_OFFSET = "N1 acknowledged records are read at their offsets"
TWICE = "N2 a numbered record is there once"
ORDER = "N3 records of a writer keep their order"
OUT_OF_PLACE = "N7 what is read was written there"
NOT_ATOMIC = "N8 a transaction is read whole or not at all"
TWO_VALUES = "N9 an offset holds one value for every reader"
SKIPPED = "N10 a reader is given every record once, in order"
OFFSET_BACK = "N11 committed offsets of a group stay committed"
UNREAD = "N12 a group commits nothing that no member has read"
TWO_OWNERS = "N13 a partition has one owner in a generation"
NOT_ONCE = "N14 every input is processed exactly once"
GRANTED = "A3 nobody is given what he may not have"

Report = Callable[[str, str], None]


def judge_history(history: History, report: Report) -> int:
    """Compare what clients were told with what was found; how many records are lost."""
    lost = _judge_acknowledged(history, report)
    for what in history.granted:
        report(GRANTED, f"an outcast was granted {what}")
    _judge_found(history, report)
    _judge_order(history, report)
    _judge_transactions(history, report)
    found = _by_offset(history)
    for reader in history.readers:
        _judge_values(reader, found, report)
        _judge_reader(reader, found, report)
    for group in history.groups.values():
        _judge_group(group, found, report)
        if group.exactly_once:
            _judge_outputs(history, group, report)
    return lost


# -- writers


def _judge_acknowledged(history: History, report: Report) -> int:
    found = history.found
    lost = [value for value in history.acknowledged if value not in found]
    if lost:
        report(NOT_AT_ITS_OFFSET, f"{len(lost)} acknowledged records are gone: {lost[:5]}")
    for told in (history.acknowledged, history.written):
        for value, place in told.items():
            if value in found and place not in found[value]:
                report(
                    NOT_AT_ITS_OFFSET,
                    f"{value!r} acknowledged at {place}, found at {found[value]}",
                )
    return len(lost)


def _judge_found(history: History, report: Report) -> None:
    for value, places in history.found.items():
        sent = history.sent.get(value)
        if sent is None:
            report(OUT_OF_PLACE, f"nobody wrote {value!r}, found at {places}")
            continue
        for place in places:
            if place[:2] != (sent.topic, sent.partition):
                report(OUT_OF_PLACE, f"{value!r} of {sent} found at {place}")
        if sent.once and len(places) > 1:
            report(TWICE, f"{value!r} at {places}")


def _judge_order(history: History, report: Report) -> None:
    last: dict[tuple[str, str, int], tuple[int, int]] = {}
    for value, place in sorted(
        history.acknowledged.items(), key=lambda item: history.sent[item[0]][:2]
    ):
        sent = history.sent[value]
        lane = (sent.writer, place.topic, place.partition)
        previous = last.get(lane)
        if previous is not None and previous[1] >= place.offset:
            report(ORDER, f"{value!r} at {place.offset}, {previous[0]} before it at {previous[1]}")
        last[lane] = (sent.number, place.offset)


def _judge_transactions(history: History, report: Report) -> None:
    for transaction in history.transactions:
        there = [value for value in transaction.values if value in history.found]
        missing = [value for value in transaction.values if value not in history.found]
        if there and transaction.outcome in (OPEN, ABORTED):
            report(NOT_ATOMIC, f"{there[:3]} of {transaction.name} were never committed")
        elif missing and transaction.outcome == COMMITTED:
            report(NOT_ATOMIC, f"{missing[:3]} of {transaction.name} were committed and are gone")
        elif there and missing:
            report(NOT_ATOMIC, f"{transaction.name}: {there[:3]} are read, {missing[:3]} are not")


# -- readers

Found = dict[TopicPartition, list[tuple[int, bytes]]]
"""What is committed in the end, by offset."""


def _by_offset(history: History) -> Found:
    found: Found = {}
    for value, places in history.found.items():
        for topic, partition, offset in places:
            found.setdefault((topic, partition), []).append((offset, value))
    return {where: sorted(each) for where, each in found.items()}


def _judge_values(reader: ReaderLog, found: Found, report: Report) -> None:
    """Who read everything may also have seen what was aborted later, at an offset where nothing
    is committed."""
    for where, reads in reader.reads.items():
        at = dict(found.get(where, ()))
        for offset, value in reads:
            if offset in at and at[offset] != value:
                report(
                    TWO_VALUES,
                    f"{reader.name} read {value!r} at {where[0]}-{where[1]} offset {offset}, "
                    f"in the end it is {at[offset]!r}",
                )


def _judge_reader(reader: ReaderLog, found: Found, report: Report) -> None:
    for where, reads in reader.reads.items():
        name = f"{reader.name} in {where[0]}-{where[1]}"
        offsets = [offset for offset, _ in reads]
        if any(later <= earlier for earlier, later in pairwise(offsets)):
            report(SKIPPED, f"{name}: offsets go back: {offsets}")
        there = found.get(where, [])
        expected = there[: bisect_left(there, (reader.positions[where], b""))]
        seen = dict(reads)
        skipped = [offset for offset, _ in expected if offset not in seen]
        if skipped:
            report(SKIPPED, f"{name} was not given {skipped[:5]}")
        if reader.committed:
            ever = dict(expected)
            more = [offset for offset in offsets if offset not in ever]
            if more:
                report(SKIPPED, f"{name} was given {more[:5]}, where nothing is committed")


# -- groups


def _judge_group(group: GroupLog, found: Found, report: Report) -> None:
    for began in group.began:
        if began.offset < began.least:
            report(
                OFFSET_BACK,
                f"group {group.name} began {began.where} at {began.offset}, "
                f"{began.least} was committed",
            )
    for where, offset in group.committed.items():
        ended_at = group.ended_at.get(where, 0)
        if ended_at < offset:
            report(
                OFFSET_BACK, f"group {group.name} had committed {offset} of {where}, now {ended_at}"
            )
    for where, offset in group.ended_at.items():
        processed = group.processed.get(where, {})
        unread = [at for at, _ in found.get(where, ()) if at < offset and at not in processed]
        if unread:
            report(UNREAD, f"group {group.name} has committed {offset} of {where}: {unread[:5]}")
    for (generation, topic, index), members in group.owners.items():
        if len(members) > 1:
            report(
                TWO_OWNERS,
                f"group {group.name}, generation {generation}: {topic}-{index} is owned by "
                f"{list(members)}",
            )


def _judge_outputs(history: History, group: GroupLog, report: Report) -> None:
    """An output is named after its input, with the attempt behind it."""
    outputs: Counter[bytes] = Counter()
    for value in history.found:
        source, mark, attempt = value.partition(b"@")
        if mark and attempt.startswith(group.name.encode()):
            outputs[source] += 1
    for source, times in outputs.items():
        if times > 1:
            report(NOT_ONCE, f"{source!r} was processed {times} times by {group.name}")
    for value, places in history.found.items():
        for topic, partition, offset in places:
            if offset < group.ended_at.get((topic, partition), 0) and not outputs[value]:
                report(NOT_ONCE, f"{value!r} was never processed by {group.name}")
