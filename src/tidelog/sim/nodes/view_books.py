"""The numbers behind the bytes: which record of a run is which, and what internal topics say.

Rules know a record by a number. A record of data has the number of its key and value, so a record
that was sent twice has one number. A batch of an internal topic has one number, and the books know
the records behind it.
"""

import struct
from collections.abc import Mapping
from itertools import count
from typing import Final

from tidelog.broker.coordination.coordinators import java_hash
from tidelog.coordinators.group_records import GROUP_RECORDS
from tidelog.coordinators.record_forms import Forms
from tidelog.coordinators.transaction_records import TRANSACTION_RECORDS
from tidelog.core.coordination import TopicPartition
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.types import PartitionId
from tidelog.sim.delivery_book import DeliveryBook
from tidelog.sim.nodes.view_log import Contents, Decode
from tidelog.sim.transaction_book import TransactionBook
from tidelog.wire.records import BatchHeader, end_txn_marker
from tidelog.wire.records.body import iter_records

OFFSETS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"

INTERNAL: Final[Mapping[str, Forms]] = {
    OFFSETS: GROUP_RECORDS,
    TRANSACTIONS: TRANSACTION_RECORDS,
}


class NodeBooks:
    """One per run. A `sim.rules.view.BooksFace`."""

    __slots__ = (
        "_contents",
        "_data",
        "_image",
        "_interned",
        "_numbers",
        "deliveries",
        "transactions",
    )

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._numbers = count(1)
        self._data: dict[tuple[bytes | None, bytes | None], int] = {}
        self._interned: dict[int, tuple[object, ...]] = {}
        self._contents: dict[PartitionId, Contents] = {}
        self.transactions = TransactionBook()
        self.deliveries = DeliveryBook()

    # -- numbers

    def contents_of(self, partition: PartitionId) -> Contents:
        """Shared by all replicas of the partition."""
        known = self._contents.get(partition)
        if known is None:
            known = self._contents[partition] = Contents(self._decoder(self.topic_of(partition)))
        return known

    def interned(self, number: int) -> tuple[object, ...]:
        """The records of an internal topic that it stands for; none if it is data."""
        return self._interned.get(number, ())

    def number_of(self, key: bytes | None, value: bytes | None) -> int:
        known = self._data.get((key, value))
        if known is None:
            known = self._data[key, value] = next(self._numbers)
        return known

    def _decoder(self, topic: str) -> Decode:
        forms = INTERNAL.get(topic)
        if forms is None:
            return self._data_numbers
        return lambda batch, header: self._internal_number(forms, batch, header)

    def _data_numbers(self, batch: bytes, header: BatchHeader) -> tuple[int, ...]:
        if header.is_control:
            return _marker_number(batch)
        records = iter_records(batch, 0, header)
        return tuple(self.number_of(record.key, record.value) for record in records)

    def _internal_number(self, forms: Forms, batch: bytes, header: BatchHeader) -> tuple[int, ...]:
        if header.is_control:
            return _marker_number(batch)
        number = next(self._numbers)
        decoded = (
            forms.decode(record.key or b"", record.value)
            for record in iter_records(batch, 0, header)
        )
        self._interned[number] = tuple(record for record in decoded if record is not None)
        return (number,)

    # -- names

    def topic_of(self, partition: PartitionId) -> str:
        """Its name; empty if it does not exist (any more)."""
        topic = self._image.topics.get(partition.topic_id)
        return "" if topic is None else topic.name

    def all_partitions(self) -> list[PartitionId]:
        """Those that groups and transactions rest on."""
        return [
            PartitionId(self._image.topic_ids[topic], index)
            for topic in INTERNAL
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
        partitions = len(self._image.topics[topic_id].partitions)
        return PartitionId(topic_id, java_hash(key) % partitions)

    def read_assignment(self, assignment: bytes) -> tuple[tuple[str, int], ...]:
        """What a member of the classic protocol was given, in the words of Kafka's clients."""
        return read_assignment(assignment)

    def partition_named(self, name: TopicPartition) -> PartitionId:
        return PartitionId(self._image.topic_ids[name.topic], name.partition)


def _marker_number(batch: bytes) -> tuple[int, ...]:
    """How a transaction ended, and who decided."""
    marker = end_txn_marker(batch)
    if marker is None:
        return (0,)
    return (marker.coordinator_epoch << 1 | marker.commit,)


def read_assignment(data: bytes) -> tuple[tuple[str, int], ...]:
    """Kafka's ConsumerProtocolAssignment; nothing if it is something else."""
    found: list[tuple[str, int]] = []
    try:
        (topics,) = struct.unpack_from(">i", data, 2)
        position = 6
        for _ in range(topics):
            (size,) = struct.unpack_from(">h", data, position)
            topic = data[position + 2 : position + 2 + size].decode()
            (partitions,) = struct.unpack_from(">i", data, position + 2 + size)
            position += 6 + size
            found += [
                (topic, index) for index in struct.unpack_from(f">{partitions}i", data, position)
            ]
            position += 4 * partitions
    except (struct.error, UnicodeDecodeError):
        return ()
    return tuple(found)
