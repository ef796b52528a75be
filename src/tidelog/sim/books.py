"""What a run knows of groups and transactions beside the logs: names, numbers, deeds of clients.

Records of internal topics are values of the core. A log of the simulator holds numbers, so each
batch of such records is given one.
"""

import struct
from collections.abc import Callable
from zlib import crc32

from tidelog.core.coordination import TopicPartition
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.types import PartitionId
from tidelog.sim.coordination_plan import INPUTS, OFFSETS, OUTPUTS, TRANSACTIONS, TRANSFERS
from tidelog.sim.delivery_book import DeliveryBook
from tidelog.sim.transaction_book import TransactionBook


class Books:
    """One per run."""

    __slots__ = ("_image", "_interned", "_member_ids", "_new_values", "deliveries", "transactions")

    def __init__(self, image: MetadataImage, new_values: Callable[[int], tuple[int, ...]]) -> None:
        self._image = image
        self._new_values = new_values
        self._interned: dict[int, tuple[object, ...]] = {}
        self._member_ids = 0
        self.transactions = TransactionBook()
        self.deliveries = DeliveryBook()

    # -- numbers

    def intern(self, records: tuple[object, ...]) -> int:
        """The number that stands for a batch of an internal topic."""
        (number,) = self._new_values(1)
        self._interned[number] = records
        return number

    def interned(self, number: int) -> tuple[object, ...]:
        """The records that it stands for; none if it is data."""
        return self._interned.get(number, ())

    def new_member_id(self) -> str:
        self._member_ids += 1
        return f"member-{self._member_ids}"

    def read_assignment(self, assignment: bytes) -> tuple[int, ...]:
        """What a member of the classic protocol was given."""
        return struct.unpack(f">{len(assignment) // 2}h", assignment)

    # -- names

    def topic_of(self, partition: PartitionId) -> str:
        """Its name; empty if it does not exist (any more)."""
        topic = self._image.topics.get(partition.topic_id)
        return "" if topic is None else topic.name

    def topic_partition(self, partition: PartitionId) -> TopicPartition:
        return TopicPartition(self._image.topics[partition.topic_id].name, partition.partition)

    def partition_named(self, name: TopicPartition) -> PartitionId:
        return PartitionId(self._image.topic_ids[name.topic], name.partition)

    def all_partitions(self) -> list[PartitionId]:
        """Those of the topics that groups and transactions use."""
        return [
            PartitionId(self._image.topic_ids[topic], index)
            for topic in (OFFSETS, TRANSACTIONS, INPUTS, OUTPUTS, TRANSFERS)
            if topic in self._image.topic_ids
            for index in self._image.topics[self._image.topic_ids[topic]].partitions
        ]

    def transaction_partition(self, transactional_id: str) -> PartitionId:
        """Where the coordinator of this id lives."""
        return self._spread(TRANSACTIONS, transactional_id)

    def group_partition(self, group_id: str) -> PartitionId:
        return self._spread(OFFSETS, group_id)

    def _spread(self, topic: str, key: str) -> PartitionId:
        topic_id = self._image.topic_ids[topic]
        count = len(self._image.topics[topic_id].partitions)
        return PartitionId(topic_id, crc32(key.encode()) % count)
