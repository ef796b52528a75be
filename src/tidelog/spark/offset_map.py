"""Which offset of a copy belongs to which offset of its source, for mirrored partitions.

Each batch of a mirror adds a span: the source offsets it has records of, the offset that its first
record got over there, and how many records there are. The spans of a partition are one record of a
compacted topic, written in the transaction of the records they speak of, so they are right if and
only if these are there.

Only bounds are kept, because both sides have holes: aborted and compacted records, and the markers
of transactions. Of the records in a span, at most `end - S` have offset S or a later one. So at
least `records - (end - S)` come before S, and the copy of the one at S is not before `target` plus
that. A translated offset therefore never skips a record, and repeats at most one for each hole.
"""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.client import Client
from tidelog.spark import committed_log
from tidelog.spark.committed_log import CommittedLog
from tidelog.wire.records import Record

TOPIC: Final = "__tidelog_mirror_offsets"
ALIKE_AT_MOST: Final = 8
"""So many spans of as many batches each; then two of them become one."""
BEGINNING: Final = -2
"""The offset was not copied while the map was kept: whatever comes first over there."""


class Span(NamedTuple):
    """Records that were copied together, or one after the other."""

    first: int
    """Source offset of the first."""
    end: int
    """Source offset behind the last."""
    target: int
    """Where the first one lies in the copy; the others follow, perhaps with gaps."""
    records: int
    batches: int = 1

    def translated(self, offset: int) -> int:
        before = max(0, self.records - (self.end - offset)) if offset > self.first else 0
        return self.target + before


Spans = tuple[Span, ...]


class MapKey(NamedTuple):
    """A partition of a copy, and of which cluster it is one."""

    cluster_id: str
    topic: str
    partition: int


def added(spans: Spans, new: Span) -> Spans:
    """With what a batch has copied. What contradicts it is about a topic that was made again."""
    last = spans[-1] if spans else None
    if last is not None and (new.first < last.end or new.target < last.target + last.records):
        return (new,)
    return _thinned([*spans, new])


def _thinned(spans: list[Span]) -> Spans:
    """Few spans for many batches: the older, the more batches one has."""
    size = 1
    while True:
        alike = [at for at, each in enumerate(spans) if each.batches == size]
        if len(alike) <= ALIKE_AT_MOST:
            return tuple(spans)
        at = alike[0]
        one, other = spans[at], spans[at + 1]
        joined = one._replace(
            end=other.end, records=one.records + other.records, batches=one.batches + other.batches
        )
        spans[at : at + 2] = [joined]
        size *= 2


def translated(spans: Spans, offset: int) -> int | None:
    """Where to go on in the copy for who has read up to this offset of the source; None: nothing
    is copied yet."""
    if not spans:
        return None
    if offset < spans[0].first:
        return BEGINNING
    for span in spans:
        if offset <= span.end:
            return span.translated(offset)
    return spans[-1].translated(spans[-1].end)  # ahead of the copy, for now


class OffsetMapLog(CommittedLog):
    """The spans of all mirrored partitions, as far as this process has read."""

    __slots__ = ("_spans",)

    def __init__(self, client: Client) -> None:
        super().__init__(client, TOPIC)
        self._spans: dict[MapKey, Spans] = {}

    def of(self, key: MapKey) -> Spans:
        return self._spans.get(key, ())

    @property
    def spans(self) -> Mapping[MapKey, Spans]:
        return self._spans

    def learn(self, record: Record) -> None:
        key = MapKey(*json.loads(record.key or b""))
        if record.value is None:
            self._spans.pop(key, None)
            return
        self._spans[key] = tuple(Span(*each) for each in json.loads(record.value)["spans"])


def encoded(key: MapKey, spans: Spans, timestamp_ms: int) -> bytearray:
    name = json.dumps(list(key), separators=(",", ":")).encode()
    value = json.dumps({"spans": spans}, separators=(",", ":")).encode()
    return committed_log.encoded(name, value, timestamp_ms)
