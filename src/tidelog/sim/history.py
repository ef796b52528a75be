"""Client histories: what producers and consumers saw, judged without looking into the cluster.

The anomalies are those of reliability.md §1.2. A history is a list of operations in the order
in which they began; every value is written once. An operation's outcome is ok, fail (it surely
did not happen) or info (nobody knows). A partition's version order is its values by offset;
gaps do not count, because markers use offsets too.

Nothing here imports `core`: the checker must not share the mistakes it is looking for.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

OK = "ok"
FAIL = "fail"
INFO = "info"

Partition = Hashable


class Send(NamedTuple):
    """One record; its offset if the client was told."""

    partition: Partition
    value: int
    offset: int | None = None


class Read(NamedTuple):
    partition: Partition
    offset: int
    value: int


class Poll(NamedTuple):
    reads: tuple[Read, ...]


class Assign(NamedTuple):
    """The consumer chose partitions, or a position, itself."""


class Subscribe(NamedTuple):
    """The group chooses for the consumer: positions may jump between operations."""


Step = Send | Poll | Assign | Subscribe


class Operation(NamedTuple):
    """One call of one client; a transaction is one operation of several steps.

    `acks_all` and `idempotent` tell what the producer may expect: a loss or a repetition is an
    anomaly only for what was promised.
    """

    process: int
    outcome: str
    steps: tuple[Step, ...]
    began_ms: int = 0
    ended_ms: int = 0
    transactional: bool = False
    acks_all: bool = True
    idempotent: bool = True


class Anomaly(NamedTuple):
    kind: str
    text: str


History = Sequence[Operation]


class Observed:
    """A history with what it tells of each partition: what lies where, who wrote it, who saw
    it. Made once, asked by every check."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.values: dict[Partition, dict[int, list[int]]] = {}
        self.read: dict[Partition, dict[int, int]] = {}
        self._writers: dict[int, int] = {}
        for number, operation in enumerate(history):
            for sent in sends(operation):
                self._writers[sent.value] = number
                if sent.offset is not None and promised(operation):
                    self._place(sent.partition, sent.offset, sent.value)
            for seen in reads(operation):
                self._place(seen.partition, seen.offset, seen.value)
                self.read.setdefault(seen.partition, {}).setdefault(seen.value, seen.offset)
        self.offsets = {p: sorted(at) for p, at in self.values.items()}

    def _place(self, partition: Partition, offset: int, value: int) -> None:
        found = self.values.setdefault(partition, {}).setdefault(offset, [])
        if value not in found:
            found.append(value)

    def writer(self, value: int) -> tuple[int, Operation] | None:
        """The operation that wrote it, with its place in the history."""
        number = self._writers.get(value)
        return None if number is None else (number, self.history[number])

    def between(self, partition: Partition, after: int, before: int) -> list[int]:
        """Known offsets strictly between two positions."""
        offsets = self.offsets.get(partition, [])
        return offsets[bisect_left(offsets, after + 1) : bisect_left(offsets, before)]


def sends(operation: Operation) -> Iterator[Send]:
    for step in operation.steps:
        if isinstance(step, Send):
            yield step


def reads(operation: Operation) -> Iterator[Read]:
    """What it really saw. Only an operation that ended well has polled."""
    if operation.outcome == OK:
        for step in operation.steps:
            if isinstance(step, Poll):
                yield from step.reads


def promised(operation: Operation) -> bool:
    """Was the producer told that its records are safe?"""
    return operation.outcome == OK and operation.acks_all


# -- one anomaly each


def inconsistent_offsets(observed: Observed) -> list[Anomaly]:
    """One offset of a partition was seen with two different values."""
    return [
        Anomaly("inconsistent-offsets", f"{partition} offset {offset} holds {values}")
        for partition, at in observed.values.items()
        for offset, values in at.items()
        if len(values) > 1
    ]


def lost_writes(observed: Observed) -> list[Anomaly]:
    """Somebody read beyond an acknowledged value, and nobody ever read the value itself.

    A write of unknown outcome counts as acknowledged once another write of its transaction was
    read: then the transaction did commit.
    """
    found = []
    for operation in observed.history:
        surely = promised(operation) or _committed_after_all(operation, observed)
        for sent in sends(operation) if surely else ():
            seen = observed.read.get(sent.partition, {})
            furthest = max(seen.values(), default=-1)
            if sent.offset is not None and sent.offset <= furthest and sent.value not in seen:
                text = f"{sent.partition} offset {sent.offset}: {sent.value}, read to {furthest}"
                found.append(Anomaly("lost-write", text))
    return found


def _committed_after_all(operation: Operation, observed: Observed) -> bool:
    return (
        operation.outcome == INFO
        and operation.transactional
        and any(s.value in observed.read.get(s.partition, {}) for s in sends(operation))
    )


def unseen(observed: Observed) -> list[Anomaly]:
    """Acknowledged, and in no poll of the whole history. Only sound after a long last read."""
    return [
        Anomaly("unseen", f"{sent.partition} offset {sent.offset}: {sent.value}")
        for operation in observed.history
        if promised(operation)
        for sent in sends(operation)
        if sent.value not in observed.read.get(sent.partition, {})
    ]


def duplicates(observed: Observed) -> list[Anomaly]:
    """One value of an idempotent producer lies at two offsets of a partition."""
    found = []
    for partition, at in observed.values.items():
        first: dict[int, int] = {}
        for offset in observed.offsets[partition]:
            for value in at[offset]:
                writer = observed.writer(value)
                if first.setdefault(value, offset) != offset and (
                    writer is None or writer[1].idempotent
                ):
                    text = f"{partition}: {value} at offsets {first[value]} and {offset}"
                    found.append(Anomaly("duplicate", text))
    return found


def aborted_reads(observed: Observed) -> list[Anomaly]:
    """A poll returned a value whose writer surely failed or aborted."""
    return [
        Anomaly("aborted-read", f"{seen.partition} offset {seen.offset}: {seen.value}")
        for operation in observed.history
        for seen in reads(operation)
        if (writer := observed.writer(seen.value)) is not None and writer[1].outcome == FAIL
    ]


def precommitted_reads(observed: Observed) -> list[Anomaly]:
    """A transaction polled what it had written itself and not committed yet."""
    found = []
    for operation in observed.history:
        if operation.transactional and operation.outcome == OK:
            written: list[int] = []
            for step in operation.steps:
                if isinstance(step, Send):
                    written.append(step.value)
                elif isinstance(step, Poll):
                    found += [
                        Anomaly("precommitted-read", f"{each.partition}: {each.value}")
                        for each in step.reads
                        if each.value in written
                    ]
    return found


def poll_skips(observed: Observed) -> list[Anomaly]:
    """A consumer jumped forward over values that exist."""
    return [
        Anomaly(_kind("poll-skip", move), f"{move} over {skipped}")
        for move in moves(observed.history)
        if (skipped := observed.between(move.partition, move.before, move.after))
    ]


def nonmonotonic_polls(observed: Observed) -> list[Anomaly]:
    """A consumer's position stayed or went back."""
    return [
        Anomaly(_kind("nonmonotonic-poll", move), str(move))
        for move in moves(observed.history)
        if move.after <= move.before
    ]


def nonmonotonic_sends(observed: Observed) -> list[Anomaly]:
    """Two sends of one producer to one partition, in order, got positions out of order."""
    found = []
    last: dict[tuple[int, Partition], int] = {}
    for operation in observed.history:
        inside: list[Partition] = []
        for sent in sends(operation):
            if sent.offset is None or not promised(operation) or not operation.idempotent:
                continue
            key = (operation.process, sent.partition)
            before = last.get(key, -1)
            if sent.offset <= before:
                kind = "int-nonmonotonic-send" if sent.partition in inside else "nonmonotonic-send"
                text = (
                    f"producer {operation.process}, {sent.partition}: {sent.offset} after {before}"
                )
                found.append(Anomaly(kind, text))
            last[key] = sent.offset
            inside.append(sent.partition)
    return found


def interleaved_sends(observed: Observed) -> list[Anomaly]:
    """Another writer's record lies between two sends of one transaction. Allowed: counted."""
    found = []
    for operation in observed.history:
        last: dict[Partition, int] = {}
        for sent in sends(operation) if operation.transactional else ():
            if sent.offset is None:
                continue
            before = last.get(sent.partition, sent.offset)
            between = observed.between(sent.partition, before, sent.offset)
            if between:
                found.append(Anomaly("int-send-skip", f"{sent.partition}: {between}"))
            last[sent.partition] = sent.offset
    return found


def write_read_cycles(observed: Observed) -> list[Anomaly]:
    """Operations that read from each other in a circle: each would have to be before the rest.

    Circles with a write–write edge are allowed, the log does not isolate writers; so only
    edges from the writer of a value to its reader are followed here.
    """
    readers: list[list[int]] = [[] for _ in observed.history]
    for number, operation in enumerate(observed.history):
        for seen in reads(operation):
            writer = observed.writer(seen.value)
            if writer is not None and writer[0] != number:
                readers[writer[0]].append(number)
    cycle = _find_cycle(readers)
    return [Anomaly("write-read-cycle", f"operations {cycle}")] if cycle else []


def stuck(observed: Observed, final_phase_ms: int) -> list[Anomaly]:
    """No operation that began in the final phase, when everything is healed, succeeded."""
    final = [operation for operation in observed.history if operation.began_ms >= final_phase_ms]
    if not final or any(operation.outcome == OK for operation in final):
        return []
    return [Anomaly("stuck", f"none of {len(final)} operations since {final_phase_ms} ms is ok")]


def worst_lag_ms(observed: Observed) -> int:
    """Longest time between an acknowledgement and the first poll that returned the value."""
    acknowledged: dict[int, int] = {}
    for operation in observed.history:
        if promised(operation):
            for sent in sends(operation):
                acknowledged[sent.value] = operation.ended_ms
    seen_ms: dict[int, int] = {}
    for operation in observed.history:
        for seen in reads(operation):
            before = seen_ms.get(seen.value, operation.ended_ms)
            seen_ms[seen.value] = min(before, operation.ended_ms)
    lags = [seen_ms[value] - at for value, at in acknowledged.items() if value in seen_ms]
    return max(0, *lags) if lags else 0


NEVER: tuple[Callable[[Observed], list[Anomaly]], ...] = (
    inconsistent_offsets,
    lost_writes,
    unseen,
    duplicates,
    aborted_reads,
    precommitted_reads,
    poll_skips,
    nonmonotonic_polls,
    nonmonotonic_sends,
    write_read_cycles,
)
"""Anomalies that no history of ours may show, given that it ends with a long enough read."""


def check(history: History) -> list[Anomaly]:
    """Every forbidden anomaly of a history that was drained at its end."""
    observed = Observed(history)
    return [anomaly for find in NEVER for anomaly in find(observed)]


# -- how consumers move


class Move(NamedTuple):
    """Two reads in a row by one consumer in one partition; `inside` one operation."""

    consumer: int
    partition: Partition
    before: int
    after: int
    inside: bool

    def __str__(self) -> str:
        return f"consumer {self.consumer}, {self.partition}: {self.before} -> {self.after}"


def moves(history: History) -> Iterator[Move]:
    """Every step of every consumer that it owes no explanation for.

    An assignment excuses the next move. Under a subscription moves between operations are
    excused, since a rebalance may have happened; inside one poll they are not.
    """
    positions: dict[int, dict[Partition, tuple[int, int]]] = {}
    subscribed: dict[int, bool] = {}
    for number, operation in enumerate(history):
        if operation.outcome == FAIL:
            continue
        last = positions.setdefault(operation.process, {})
        for step in operation.steps:
            if isinstance(step, Assign | Subscribe):
                last.clear()
                subscribed[operation.process] = isinstance(step, Subscribe)
            elif isinstance(step, Poll) and operation.outcome == OK:
                between = subscribed.get(operation.process, False)
                yield from _moves_of_poll(operation, number, step, last, excused=between)


def _moves_of_poll(
    operation: Operation,
    number: int,
    poll: Poll,
    last: dict[Partition, tuple[int, int]],
    *,
    excused: bool,
) -> Iterator[Move]:
    for seen in poll.reads:
        offset, by = last.get(seen.partition, (-1, -1))
        inside = by == number
        if by >= 0 and (inside or not excused):
            yield Move(operation.process, seen.partition, offset, seen.offset, inside)
        last[seen.partition] = (seen.offset, number)


def _kind(kind: str, move: Move) -> str:
    return f"int-{kind}" if move.inside else kind


def _find_cycle(edges: Sequence[Iterable[int]]) -> list[int]:
    """Some cycle of a directed graph, [] if there is none. Iterative: histories are long."""
    state = [0] * len(edges)  # 0 unknown, 1 on the path, 2 done
    for start in range(len(edges)):
        if state[start]:
            continue
        path, pending = [start], [iter(edges[start])]
        state[start] = 1
        while path:
            following = next(pending[-1], None)
            if following is None:
                state[path.pop()] = 2
                pending.pop()
            elif state[following] == 1:
                return path[path.index(following) :]
            elif state[following] == 0:
                state[following] = 1
                path.append(following)
                pending.append(iter(edges[following]))
    return []
