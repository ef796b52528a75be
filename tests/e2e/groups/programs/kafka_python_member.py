"""A member with kafka-python."""

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from e2e.groups.programs.program import Orders, Work, as_keywords, say, told

POLL_MS = 100
ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


class Listener(ConsumerRebalanceListener):
    def __init__(self, work: Work) -> None:
        self._work = work

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self._work.assigned(place.partition for place in assigned)

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self._work.revoked(place.partition for place in revoked)

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self._work.revoked((place.partition for place in lost), "lost")


def commit(consumer: KafkaConsumer, topic: str, work: Work) -> None:
    if not work.pending:
        return
    offsets = dict(work.pending)
    try:
        consumer.commit(
            {
                TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
                for partition, offset in offsets.items()
            }
        )
    except KafkaError as failure:
        say("refused", error=type(failure).__name__, offsets=sorted(offsets.items()))
    else:
        work.committed(offsets)


def main() -> None:
    topic, settings = told()
    assignor = ASSIGNORS[settings.pop("partition.assignment.strategy")]
    orders, work = Orders(), Work()
    consumer = KafkaConsumer(
        **as_keywords(settings),
        partition_assignment_strategy=[assignor],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.subscribe([topic], listener=Listener(work))
    say("started")
    while not orders.close.is_set():
        batches = consumer.poll(timeout_ms=POLL_MS)
        records = [each for batch in batches.values() for each in batch]
        work.process((each.partition, each.offset, each.value) for each in records)
        if records:
            orders.obey_hold()
        commit(consumer, topic, work)
    consumer.close()
    say("closed")


main()
