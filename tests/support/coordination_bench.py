"""A bench for the rules of groups and transactions: one log, in which anything can be written.

The partition of the bench stands for data and for the log of a coordinator at once; the rules
tell records apart by what they are.
"""

from support.bench_books import OFFSETS, OUTPUTS, TRANSACTIONS
from support.object_log import ObjectBatch, client_batch, marker_batch
from support.rule_bench import PARTITION, Bench
from tidelog.core.coordination import Marker, ProducerStamp, TopicPartition
from tidelog.core.errors import Error
from tidelog.core.groups.records import CommittedOffset, OffsetCommit
from tidelog.core.groups.requests import (
    CommitOffsets,
    CommitResponse,
    FetchedOffset,
    FetchOffsets,
    FetchOffsetsResponse,
    NewOffset,
)
from tidelog.core.metadata import records as r
from tidelog.core.metadata.replay import replay
from tidelog.sim.delivery_book import INPUTS
from tidelog.sim.transaction_book import SimTransaction

BROKER = 1
GROUP = "group"
STAMP = ProducerStamp(7, 0)
ORDERS = TopicPartition(INPUTS, 0)


class CoordinationBench(Bench):
    def __init__(self) -> None:
        super().__init__(BROKER)
        replay(self.books.image, r.RegisterBroker(BROKER, b"", 0))
        replay(self.books.image, r.BrokerRegistrationChange(BROKER, 0, fenced=-1))
        for number, name in enumerate((OFFSETS, TRANSACTIONS, INPUTS, OUTPUTS)):
            topic_id = b"topic %d" % number
            replay(self.books.image, r.Topic(name, topic_id))
            replay(self.books.image, r.Partition(0, topic_id, (1,), (1,), leader=1))
        self.sequences: dict[ProducerStamp, int] = {}
        self.led_by(BROKER)

    # -- what is written, and committed at once

    def write(self, batch: ObjectBatch) -> ObjectBatch:
        copy = self[BROKER]
        appended = copy.log.append_as_leader(batch, copy.leader_epoch)
        self.judge.leader_appended(copy, appended)
        self.move(BROKER, copy.log.log_end_offset)
        return appended

    def begin(self, stamp: ProducerStamp = STAMP) -> SimTransaction:
        return self.books.transactions.begin("writer", stamp)

    def send(self, transaction: SimTransaction, *, acknowledged: bool = True) -> ObjectBatch:
        stamp = transaction.stamp
        values = self.new_values(1)
        self.books.transactions.sends(transaction, PARTITION, values)
        if acknowledged:
            transaction.acknowledged.update(dict.fromkeys(values, PARTITION))
        sequence = self.sequences.get(stamp, 0)
        self.sequences[stamp] = sequence + 1
        batch = client_batch(
            values,
            producer_id=stamp.producer_id,
            producer_epoch=stamp.producer_epoch,
            base_sequence=sequence,
        )
        return self.write(batch._replace(is_transactional=True))

    def end(self, stamp: ProducerStamp, *, commit: bool, coordinator_epoch: int = 0) -> ObjectBatch:
        return self.write(marker_batch(Marker(*stamp, commit, coordinator_epoch), 0))

    def record(self, *records: object, stamp: ProducerStamp | None = None) -> ObjectBatch:
        """One batch in the log of a coordinator."""
        batch = client_batch((self.books.intern(records),))
        if stamp is not None:
            batch = batch._replace(
                producer_id=stamp.producer_id,
                producer_epoch=stamp.producer_epoch,
                is_transactional=True,
            )
        return self.write(batch)

    # -- offsets

    def up_to(self, offset: int, metadata: str = "") -> OffsetCommit:
        """All below it is processed."""
        for each in range(offset):
            self.books.deliveries.processed(GROUP, ORDERS, each)
        return OffsetCommit(GROUP, ORDERS, CommittedOffset(offset, -1, metadata, 0))

    @property
    def floor(self) -> int:
        """What is committed now, as somebody finds it who asks now."""
        return self.judge.chronicle.facts(PARTITION).committed_end

    def accepts(self, record: OffsetCommit, generation: int = -1, floor: int | None = None) -> None:
        """A coordinator says that the offset is committed."""
        assert record.value is not None
        new = (NewOffset(record.partition, record.value),)
        request = CommitOffsets(GROUP, "member", generation, None, new)
        response = CommitResponse(Error.NONE, (Error.NONE,))
        at = self.floor if floor is None else floor
        self.judge.coordinator_answered(PARTITION, request, response, at)

    def tells(self, offset: int, metadata: str = "", floor: int | None = None) -> None:
        """A coordinator says how far the group has come."""
        request = FetchOffsets(GROUP, None, -1, (ORDERS,), require_stable=True)
        fetched = FetchedOffset(ORDERS, Error.NONE, offset, -1, metadata)
        at = self.floor if floor is None else floor
        self.judge.coordinator_answered(
            PARTITION, request, FetchOffsetsResponse(Error.NONE, (fetched,)), at
        )
