"""A worker with aiokafka, which knows no fencing by membership of a group (KIP-447): each worker
keeps to its partitions, and its transactional id goes with them. That was the way before."""

import asyncio
import os
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from e2e.transactions.programs.program import (
    ABORT_EVERY,
    MOST_RECORDS,
    Job,
    Orders,
    done,
    hold,
    never,
    say,
    told,
)

STUCK_S = 8.0
"""It goes on asking a coordinator that has left the metadata (its issue 1145)."""


class Worker:
    def __init__(self, job: Job, orders: Orders) -> None:
        self.job = job
        self.orders = orders
        self.producer = AIOKafkaProducer(
            bootstrap_servers=job.bootstrap, transactional_id=job.name, linger_ms=2
        )
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=job.bootstrap,
            group_id=job.group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self.transactions = 0

    async def run(self) -> None:
        await self.producer.start()
        try:
            # After the start: what an earlier worker of this id left open has an end now.
            await self.consumer.start()
            try:
                await self._work()
            finally:
                await self.consumer.stop()
        finally:
            await self.producer.stop()

    async def _work(self) -> None:
        self.consumer.assign([TopicPartition(self.job.input, each) for each in self.job.partitions])
        say("ready")
        while not self.orders.close.is_set():
            found = await self.consumer.getmany(timeout_ms=100, max_records=MOST_RECORDS)
            records = [each for some in found.values() for each in some]
            if records:
                watch = asyncio.get_running_loop().call_later(STUCK_S, give_up)
                await self._transact(records)
                watch.cancel()

    async def _transact(self, records: list[ConsumerRecord]) -> None:
        self.transactions += 1
        means_it = self.transactions % ABORT_EVERY != 0
        make = done if means_it else never
        await self.producer.begin_transaction()
        ends: dict[TopicPartition, int] = {}
        for record in records:
            await self.producer.send(
                self.job.output, make(record.value), partition=record.partition
            )
            ends[TopicPartition(record.topic, record.partition)] = record.offset + 1
        await self.producer.send_offsets_to_transaction(ends, self.job.group)
        await self.producer.flush()
        if self.orders.hold.is_set():
            hold()
        if means_it:
            await self.producer.commit_transaction()
            say("committed", count=len(records))
            return
        await self.producer.abort_transaction()
        say("aborted", why="on purpose")
        for record in reversed(records):
            self.consumer.seek(TopicPartition(record.topic, record.partition), record.offset)


def give_up() -> None:
    say("stuck")
    os._exit(1)


def main() -> None:
    async def work() -> None:
        await Worker(told(), Orders()).run()

    try:
        asyncio.run(work())
    except KafkaError as failure:
        say("broken", why=repr(failure))
        sys.exit(1)
    say("closed")


main()
