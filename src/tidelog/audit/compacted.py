"""Replicas of a compacted partition compared record by record.

Every replica compacts for itself, at its own time. So one may still have a record that another
one has rightly dropped: an older one of a key, a tombstone, one without a key, one of an aborted
transaction. But where two have an offset, they have the same record there, and nobody may lack
the newest one of a key.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidelog.audit.replica_batches import ReplicaBatches, Standing, TellBytes, scan_replica
from tidelog.audit.replica_comparison import (
    CHECKSUM,
    DIFFERS,
    MISSING,
    Comparison,
    Finding,
    compare,
    merged,
    verdict_of,
)
from tidelog.replica_files import (
    Region,
    Replica,
    SegmentWalk,
    aborted_transactions,
    resume_after,
    segments_of,
)
from tidelog.wire.records import InvalidBatch, iter_records, read_header

_CONTROL_BIT, _TRANSACTIONAL_BIT = 0x20, 0x10


class _Kept(NamedTuple):
    """A record: what must be the same everywhere, and whether others may have dropped it."""

    key: int | None
    content: int
    may_go: bool


class _Records:
    """The records of one replica below an offset."""

    __slots__ = ("_aborted", "_end", "by_offset", "findings", "has_gaps", "newest", "node_id")

    def __init__(self, replica: Replica, end: int) -> None:
        self._end = end
        self.node_id = replica.node_id
        self.has_gaps = replica.has_gaps
        self.by_offset: dict[int, _Kept] = {}
        self.newest: dict[int, int] = {}
        """By the hash of a key: the offset of its newest record."""
        self.findings: list[Finding] = []
        segments = segments_of(replica.directory)
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        for each in aborted_transactions(segments, 0, end):
            place = (each.first_offset, each.last_offset)
            self._aborted.setdefault(each.producer_id, []).append(place)
        for segment in segments:
            position: int | None = 0
            while position is not None and segment.base_offset < end:
                with SegmentWalk(segment.path, position=position) as walk:
                    for region in walk.regions():
                        self._note(region, segment.base_offset)
                position = resume_after(segment, walk.position)

    def _note(self, region: Region, segment: int) -> None:
        table = region.table
        attributes, intact = table.column("attributes"), table.column("crc_ok")
        base, last = table.column("base_offset"), table.column("last_offset")
        for row, position in enumerate(table.column("position")):
            if base[row] >= self._end or attributes[row] & _CONTROL_BIT:
                continue
            try:
                if not intact[row]:
                    raise InvalidBatch("the checksum is wrong")
                self._note_batch(region.data, position)
            except InvalidBatch:
                at = (segment, region.position + position)
                span = (base[row], last[row] + 1)
                self.findings.append(Finding(CHECKSUM, (self.node_id,), *span, *at))

    def _note_batch(self, data: memoryview, position: int) -> None:
        header = read_header(data, position)
        is_aborted = header.attributes & _TRANSACTIONAL_BIT and any(
            first <= header.base_offset <= last
            for first, last in self._aborted.get(header.producer_id, ())
        )
        for record in iter_records(data, position, header):
            key = None if record.key is None else hash(bytes(record.key))
            value = None if record.value is None else bytes(record.value)
            may_go = bool(is_aborted) or key is None or value is None
            kept = _Kept(key, hash((key, value, record.timestamp)), may_go)
            self.by_offset[record.offset] = kept
            if key is not None and not is_aborted:
                self.newest[key] = max(record.offset, self.newest.get(key, -1))

    def may_lack(self, offset: int, kept: _Kept) -> bool:
        if not self.has_gaps:
            return False
        return kept.may_go or (kept.key is not None and self.newest.get(kept.key, -1) > offset)


def compare_compacted(
    topic: str,
    partition: int,
    replicas: Sequence[tuple[Replica, Standing]],
    high_watermark: int,
    tell: TellBytes | None = None,
) -> Comparison:
    """As `compare`, of records instead of batches."""
    batches = [
        scan_replica(replica, end=high_watermark, standing=standing, tell=tell)
        for replica, standing in replicas
    ]
    alone = [_alone(topic, partition, each, high_watermark) for each in batches]
    ends = {node: end for each in alone for node, end in each.ends.items()}
    findings = [finding for each in alone for finding in each.findings]
    records = [_Records(replica, ends[replica.node_id]) for replica, _ in replicas]
    starts = {each.node_id: each.start for each in batches}
    for offset in sorted(set().union(*(each.by_offset for each in records))):
        present = [each for each in records if starts[each.node_id] <= offset < ends[each.node_id]]
        findings += _differing(present, offset, findings)
    for each in records:
        findings += each.findings
    return Comparison(
        topic,
        partition,
        verdict_of(findings, starts, ends, high_watermark),
        high_watermark,
        ends,
        starts,
        tuple(merged(findings)),
        sum(each.bytes_read for each in batches),
        max(each.compared_bytes for each in alone),
    )


def _alone(topic: str, partition: int, batches: ReplicaBatches, high_watermark: int) -> Comparison:
    """What one replica shows without the others: its end, and what of it cannot be read."""
    return compare(topic, partition, [batches], high_watermark)


def _differing(
    records: Sequence[_Records], offset: int, known: Sequence[Finding]
) -> Iterator[Finding]:
    held = [(each, each.by_offset.get(offset)) for each in records]
    contents = Counter(kept.content for _, kept in held if kept is not None)
    if not contents:
        return
    winner, count = contents.most_common(1)[0]
    span = (offset, offset + 1)
    if len(contents) > 1 and 2 * count <= contents.total():
        nodes = tuple(each.node_id for each, kept in held if kept is not None)
        yield Finding(DIFFERS, nodes, *span)
    elif len(contents) > 1:
        for each, kept in held:
            if kept is not None and kept.content != winner:
                yield Finding(DIFFERS, (each.node_id,), *span)
    right = next(kept for _, kept in held if kept is not None and kept.content == winner)
    for each, kept in held:
        if kept is None and not each.may_lack(offset, right):
            explained = any(
                found.nodes == (each.node_id,) and found.first_offset <= offset < found.end_offset
                for found in (*known, *each.findings)
            )
            if not explained:
                yield Finding(MISSING, (each.node_id,), *span)
