"""The books of a bench for rules: names of topics, and numbers that stand for records."""

import struct
from collections.abc import Callable
from zlib import crc32

from tidelog.core.coordination import TopicPartition
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.types import PartitionId
from tidelog.sim.delivery_book import INPUTS, DeliveryBook
from tidelog.sim.transaction_book import TransactionBook

OFFSETS = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"
OUTPUTS = "outputs"

Owned = tuple[int, ...]
"""Partitions of `inputs`, sorted."""


def written(owned: Owned) -> bytes:
    """An assignment of the classic protocol, as the books read it."""
    return struct.pack(f">{len(owned)}h", *owned)


class Books:
    """A `sim.rules.view.BooksFace`."""

    def __init__(self, image: MetadataImage, new_values: Callable[[int], tuple[int, ...]]) -> None:
        self.image = image
        self._new_values = new_values
        self._interned: dict[int, tuple[object, ...]] = {}
        self.transactions = TransactionBook()
        self.deliveries = DeliveryBook()

    def intern(self, records: tuple[object, ...]) -> int:
        """The number that stands for a batch of an internal topic."""
        (number,) = self._new_values(1)
        self._interned[number] = records
        return number

    def interned(self, number: int) -> tuple[object, ...]:
        return self._interned.get(number, ())

    def read_assignment(self, assignment: bytes) -> Owned:
        return struct.unpack(f">{len(assignment) // 2}h", assignment)

    def partition_named(self, name: TopicPartition) -> PartitionId:
        return PartitionId(self.image.topic_ids[name.topic], name.partition)

    def all_partitions(self) -> list[PartitionId]:
        return [
            PartitionId(self.image.topic_ids[topic], index)
            for topic in (OFFSETS, TRANSACTIONS, INPUTS, OUTPUTS)
            if topic in self.image.topic_ids
            for index in self.image.topics[self.image.topic_ids[topic]].partitions
        ]

    def transaction_partition(self, transactional_id: str) -> PartitionId:
        topic_id = self.image.topic_ids[TRANSACTIONS]
        count = len(self.image.topics[topic_id].partitions)
        return PartitionId(topic_id, crc32(transactional_id.encode()) % count)
