"""A member with aiokafka, which joins anew in the background, whatever its program is doing."""

import asyncio

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from e2e.groups.programs.program import Orders, Work, as_keywords, say, told

POLL_MS = 100


class Listener(ConsumerRebalanceListener):
    def __init__(self, work: Work) -> None:
        self._work = work

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._work.assigned(place.partition for place in assigned)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._work.revoked(place.partition for place in revoked)


async def commit(consumer: AIOKafkaConsumer, topic: str, work: Work) -> None:
    if not work.pending:
        return
    offsets = dict(work.pending)
    try:
        await consumer.commit(
            {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
        )
    except KafkaError as failure:
        say("refused", error=type(failure).__name__, offsets=sorted(offsets.items()))
    else:
        work.committed(offsets)


async def main() -> None:
    topic, settings = told()
    del settings["partition.assignment.strategy"]
    orders, work = Orders(), Work()
    consumer = AIOKafkaConsumer(
        **as_keywords(settings),
        partition_assignment_strategy=(RangePartitionAssignor,),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    consumer.subscribe([topic], listener=Listener(work))
    say("started")
    while not orders.close.is_set():
        batches = await consumer.getmany(timeout_ms=POLL_MS)
        records = [each for batch in batches.values() for each in batch]
        work.process((each.partition, each.offset, each.value) for each in records)
        if records and orders.hold.is_set():
            await asyncio.to_thread(orders.obey_hold)
            if not work.pending:
                say("refused", error="revoked", offsets=[])
        await commit(consumer, topic, work)
    await consumer.stop()
    say("closed")


asyncio.run(main())
