"""Replicas of a partition compared: which of them differ, where, and which is wrong.

Pure: batches in, a verdict out; the same for files of this machine and for rows of Spark's. Below
the high watermark every replica that reaches an offset has the same batch there. A replica that
ends earlier lags, which is no damage. One that starts later has deleted what lies below, or has
lost it: its stored log start tells which. One whose checksum is wrong is wrong itself; otherwise
the majority is right, and where there is none, nobody is blamed alone.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import lt
from typing import Final, NamedTuple

from tidelog.audit.replica_batches import ReplicaBatches

IDENTICAL: Final = "identical"
LAGGING: Final = "lagging"
TRIMMED: Final = "trimmed"
"""Some start later than others: they deleted what they do not have, and the rest is the same."""
DIVERGING: Final = "diverging"

CHECKSUM: Final = "checksum"
DIFFERS: Final = "differs"
MISSING: Final = "missing"
UNREADABLE: Final = "unreadable"
PARTED: Final = "parted"

_SIGNATURE = ("last_offset", "leader_epoch", "crc", "size_bytes")
_COMPARED = ("base_offset", *_SIGNATURE)

Signature = tuple[int, ...]


class Finding(NamedTuple):
    """Damage: what, on which brokers, at which offsets."""

    kind: str
    nodes: tuple[int, ...]
    first_offset: int
    end_offset: int
    """Excluded."""
    segment: int | None = None
    position: int | None = None
    """Where it begins in that file, if one place is to blame."""

    def told(self) -> str:
        where = f"offset {self.first_offset}"
        if self.end_offset > self.first_offset + 1:
            where = f"offsets {self.first_offset} to {self.end_offset - 1}"
        who = f"broker {self.nodes[0]}"
        at = f"byte {self.position} of {self.segment:020}.log" if self.position is not None else ""
        if len(self.nodes) > 1:
            names = ", ".join(map(str, self.nodes))
            return f"brokers {names} differ at {where}, and no majority says who is right"
        if self.kind == CHECKSUM:
            return f"{who}: the checksum is wrong at {where} ({at})"
        if self.kind == UNREADABLE:
            return (
                f"{who}: unreadable from offset {self.first_offset} at byte position"
                f" {self.position} of {self.segment:020}.log, up to offset {self.end_offset - 1}"
            )
        if self.kind == MISSING:
            return f"{who}: {where} missing"
        if self.kind == PARTED:
            return f"{who}: its epoch history is another one from offset {self.first_offset} on"
        return f"{who}: differs from the others at {where}" + (f" ({at})" if at else "")


class Comparison(NamedTuple):
    """The verdict on one partition."""

    topic: str
    partition: int
    verdict: str
    high_watermark: int
    ends: dict[int, int]
    """By broker: the offset after its last batch below the high watermark."""
    starts: dict[int, int]
    """By broker: the first offset it holds."""
    findings: tuple[Finding, ...] = ()
    bytes_read: int = 0
    compared_bytes: int = 0
    """Of one replica."""

    @property
    def first_difference(self) -> int | None:
        """The offset from which on two replicas are not the same, if they diverge."""
        return min((each.first_offset for each in self.findings), default=None)

    @property
    def last_difference(self) -> int | None:
        """The offset from which on they are the same again, or the high watermark."""
        return max((each.end_offset for each in self.findings), default=None)

    @property
    def held_by_some(self) -> int:
        """How many offsets at the start only some replicas have."""
        return max(self.starts.values(), default=0) - min(self.starts.values(), default=0)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def identical(self) -> bool:
        return self.verdict == IDENTICAL

    def told(self) -> str:
        """The verdict in words."""
        if self.findings:
            more = f" and {len(self.findings) - 1} more" if len(self.findings) > 1 else ""
            return f"{self.name}: {self.findings[0].told()}{more}"
        if self.verdict == TRIMMED:
            return f"{self.name}: {self.starts_told()}"
        ends = ", ".join(f"broker {node} ends at {end}" for node, end in sorted(self.ends.items()))
        return f"{self.name}: {self.verdict}, {ends}"

    def starts_told(self) -> str:
        who = ", ".join(f"broker {node} at {start}" for node, start in sorted(self.starts.items()))
        return (
            f"the replicas start at different offsets ({who}): {self.held_by_some} are only in some"
        )


def compare(
    topic: str, partition: int, replicas: Sequence[ReplicaBatches], high_watermark: int
) -> Comparison:
    """Of all the replicas that were looked at, below the high watermark."""
    members = [_Member(each, high_watermark) for each in replicas]
    findings = [finding for each in members for finding in each.own_findings()]
    edges = sorted({edge for each in members for edge in (each.start, each.end)})
    for low, high in pairwise(edges):
        present = [each for each in members if each.start <= low and each.end >= high]
        if present and not _are_same(present, low, high):
            findings += _differences(present, low, high)
    ends = {each.node_id: each.end for each in members}
    starts = {each.node_id: each.start for each in members}
    return Comparison(
        topic,
        partition,
        verdict_of(findings, starts, ends, high_watermark),
        high_watermark,
        ends,
        starts,
        tuple(merged(findings)),
        sum(each.bytes_read for each in replicas),
        max((each.compared_bytes() for each in members), default=0),
    )


def verdict_of(
    findings: Sequence[Finding],
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    high_watermark: int,
) -> str:
    if findings:
        return DIVERGING
    if any(end < high_watermark for end in ends.values()):
        return LAGGING
    return TRIMMED if len(set(starts.values())) > 1 else IDENTICAL


class _Member:
    """A replica within a comparison: how far it reaches, and what of it cannot be read."""

    __slots__ = (
        "_batches",
        "_increases",
        "_must_reach",
        "_rows_end",
        "_unreadable",
        "end",
        "node_id",
        "start",
    )

    def __init__(self, batches: ReplicaBatches, high_watermark: int) -> None:
        standing = batches.standing
        base = batches.numbers["base_offset"]
        self._batches = batches
        self.node_id = batches.node_id
        self._increases = all(map(lt, base, memoryview(base)[1:]))
        self._must_reach = high_watermark
        if not standing.in_sync:
            self._must_reach = min(standing.high_watermark, high_watermark)
        self._rows_end = batches.start
        if batches.rows:  # one base offset that has rotted does not move the end
            self._rows_end = max(batches.numbers["last_offset"][-2:]) + 1
        self._unreadable = [*self._unreadable_ranges()]
        self.end = min(self._rows_end, standing.shared_end, high_watermark)
        if self._unreadable:
            self.end = max(self.end, self._unreadable[-1][1])
        self.start = min(batches.start, self.end)

    def _unreadable_ranges(self) -> Iterator[tuple[int, int, Finding]]:
        """Those within what it must have, with their ends. What cannot be read behind that is
        the torn end of a crash."""
        numbers = self._batches.numbers
        places = list(zip(numbers["segment"], numbers["position"], strict=True))
        for each in self._batches.unreadable:
            row = bisect_left(places, (each.segment, each.position))
            resumed = row < len(places)
            until = numbers["base_offset"][row] if resumed else self._must_reach
            if until > each.offset:
                at = (each.segment, each.position)
                found = Finding(UNREADABLE, (self.node_id,), each.offset, until, *at)
                yield each.offset, until, found

    def own_findings(self) -> Iterator[Finding]:
        """What is wrong whatever the others have."""
        for _, _, finding in self._unreadable:
            yield finding
        lost = self._batches.missing_start
        if lost is not None and lost[0] < self._must_reach:
            yield Finding(MISSING, (self.node_id,), lost[0], min(lost[1], self._must_reach))
        shared_end = self._batches.standing.shared_end
        if shared_end < min(self._must_reach, self._rows_end):
            yield Finding(PARTED, (self.node_id,), shared_end, self._must_reach)
        elif self.end < self._must_reach:
            yield Finding(MISSING, (self.node_id,), self.end, self._must_reach)

    def cannot_read(self, offset: int) -> bool:
        return any(low <= offset < high for low, high, _ in self._unreadable)

    def window(self, low: int, high: int) -> dict[str, memoryview] | None:
        """Its columns between two offsets as bytes; None if they have to be looked at."""
        if not self._increases or any(a < high and low < b for a, b, _ in self._unreadable):
            return None
        numbers = self._batches.numbers
        begin = bisect_left(numbers["base_offset"], low)
        end = bisect_left(numbers["base_offset"], high)
        if numbers["crc_ok"][begin:end].count(1) != end - begin:
            return None
        return {
            name: memoryview(numbers[name]).cast("B")[8 * begin : 8 * end] for name in _COMPARED
        }

    def compared_bytes(self) -> int:
        numbers = self._batches.numbers
        pairs = zip(numbers["base_offset"], numbers["size_bytes"], strict=True)
        return sum(size_bytes for base, size_bytes in pairs if base < self.end)

    def rows(self, low: int, high: int) -> dict[int, int]:
        """Base offset → row, wherever in the files it stands."""
        base = self._batches.numbers["base_offset"]
        return {offset: row for row, offset in enumerate(base) if low <= offset < high}

    def signature(self, row: int) -> Signature:
        return tuple(self._batches.numbers[name][row] for name in _SIGNATURE)

    def is_intact(self, row: int) -> bool:
        return self._batches.numbers["crc_ok"][row] == 1

    def follows(self, row: int) -> bool:
        """Does it continue the batch in front of it?"""
        numbers = self._batches.numbers
        return row == 0 or numbers["base_offset"][row] == numbers["last_offset"][row - 1] + 1

    def finding(self, kind: str, row: int) -> Finding:
        numbers = self._batches.numbers
        first, last = numbers["base_offset"][row], numbers["last_offset"][row]
        at = (numbers["segment"][row], numbers["position"][row])
        return Finding(kind, (self.node_id,), first, max(first, last) + 1, *at)


class _Vote(NamedTuple):
    member: _Member
    row: int | None
    """None: it has no batch at this offset."""

    def follows(self) -> bool:
        return self.row is None or self.member.follows(self.row)


def _are_same(members: Sequence[_Member], low: int, high: int) -> bool:
    """The usual case, as quick as comparing memory."""
    windows = [each.window(low, high) for each in members]
    first = windows[0]
    return first is not None and all(each == first for each in windows[1:])


def _differences(members: Sequence[_Member], low: int, high: int) -> Iterator[Finding]:
    held = [(each, each.rows(low, high)) for each in members]
    for offset in sorted(set().union(*(rows for _, rows in held))):
        voters: list[_Vote] = []
        for member, rows in held:
            row = rows.get(offset)
            if row is not None and not member.is_intact(row):
                yield member.finding(CHECKSUM, row)
            elif row is not None or not member.cannot_read(offset):
                voters.append(_Vote(member, row))
        yield from _outvoted(voters, offset)


def _outvoted(voters: list[_Vote], offset: int) -> Iterator[Finding]:
    def view(vote: _Vote) -> Signature | None:
        return None if vote.row is None else vote.member.signature(vote.row)

    votes = Counter(view(each) for each in voters)
    if len(votes) < 2:
        return
    winner, count = votes.most_common(1)[0]
    end = 1 + max(each[0] for each in votes if each is not None)
    blamed = [each for each in voters if view(each) != winner]
    if 2 * count <= len(voters):  # no majority: what breaks its own chain is wrong, or is missing
        strange = [each for each in voters if not each.follows()]
        blamed = strange or [each for each in voters if each.row is None]
    if not blamed:
        yield Finding(DIFFERS, tuple(each.member.node_id for each in voters), offset, end)
    for each in blamed:
        if each.row is None:
            yield Finding(MISSING, (each.member.node_id,), offset, end)
        else:
            yield each.member.finding(DIFFERS, each.row)


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """By broker and offset; those of one kind that follow one another are one."""
    joined: list[Finding] = []
    for each in sorted(findings, key=lambda found: (found.nodes, found.kind, found.first_offset)):
        last = joined[-1] if joined else None
        if (
            last is not None
            and (last.kind, last.nodes) == (each.kind, each.nodes)
            and each.first_offset <= last.end_offset
        ):
            joined[-1] = last._replace(end_offset=max(last.end_offset, each.end_offset))
        else:
            joined.append(each)
    return sorted(joined, key=lambda found: (found.first_offset, found.nodes))


def offsets_only_in(ours: ReplicaBatches, theirs: ReplicaBatches) -> int:
    """How many offsets from the first difference on a replica holds that another does not."""
    columns = (theirs.numbers[name] for name in _COMPARED)
    known = {row[0]: row for row in zip(*columns, strict=True)}
    parted = [
        row
        for row in zip(*(ours.numbers[name] for name in _COMPARED), strict=True)
        if known.get(row[0]) != row
    ]
    return parted[-1][1] + 1 - parted[0][0] if parted else 0
