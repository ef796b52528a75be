"""Offsets and ranges of offsets, as Spark's checkpoints and our tasks carry them."""

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

TopicPartition = tuple[str, int]
Offsets = dict[TopicPartition, int]
OffsetsDocument = dict[str, dict[str, int]]
"""`{"orders": {"0": 123}}`: the shape that the stock connector writes into checkpoints."""


class OffsetRange(NamedTuple):
    """Part of one partition, for one task. `end` is excluded."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Offsets, not records: markers and compaction leave gaps."""
        return self.end - self.start


def as_document(offsets: Mapping[TopicPartition, int]) -> OffsetsDocument:
    document: OffsetsDocument = {}
    for (topic, partition), offset in sorted(offsets.items()):
        document.setdefault(topic, {})[str(partition)] = offset
    return document


def from_document(document: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        (topic, int(partition)): offset
        for topic, partitions in document.items()
        for partition, offset in partitions.items()
    }


def told(partitions: Iterable[TopicPartition]) -> str:
    """`orders-0, orders-3` for messages, at most five of them."""
    names = [f"{topic}-{partition}" for topic, partition in sorted(partitions)]
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


def to_json(offsets: Mapping[TopicPartition, int]) -> str:
    return json.dumps(as_document(offsets), separators=(",", ":"))
