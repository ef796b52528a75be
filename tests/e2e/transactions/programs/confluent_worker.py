"""A worker with confluent-kafka: transactions of the first version."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from e2e.transactions.programs.program import (
    ABORT_EVERY,
    MOST_RECORDS,
    TIMEOUT_S,
    Job,
    Orders,
    done,
    hold,
    never,
    say,
    told,
)

GATHER_S = 0.1
STUCK_S = 8.0
"""librdkafka waits without an end for a group's coordinator that has left the metadata (its issue
5511): whoever runs such a worker has to end it."""


class Worker:
    def __init__(self, job: Job, orders: Orders) -> None:
        self.job = job
        self.orders = orders
        common = {
            "bootstrap.servers": job.bootstrap,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        self.producer = Producer({**common, "transactional.id": job.name, "linger.ms": 2})
        self.consumer = Consumer(
            {
                **common,
                "group.id": job.group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 3000,
                "heartbeat.interval.ms": 300,
            }
        )
        self.membership: object = None
        self.records: list[Message] = []
        self.transactions = 0

    def run(self) -> None:
        self.producer.init_transactions(TIMEOUT_S)
        self.consumer.subscribe(
            [self.job.input],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_revoke,
        )
        say("ready")
        while not self.orders.close.is_set():
            self._gather()
            if self.records:
                self._transact()
        self.consumer.close()

    def _on_assign(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self.records.clear()
        self.membership = consumer.consumer_group_metadata()
        say("assigned", partitions=sorted(each.partition for each in places))

    def _on_revoke(self, _consumer: Consumer, _places: list[TopicPartition]) -> None:
        """Who has them now reads these again."""
        self.records.clear()

    def _gather(self) -> None:
        self.records.clear()
        deadline = time.monotonic() + GATHER_S
        while len(self.records) < MOST_RECORDS and time.monotonic() < deadline:
            message = self.consumer.poll(0.02)
            if message is not None and message.error() is None:
                self.records.append(message)

    def _transact(self) -> None:
        self.transactions += 1
        means_it = self.transactions % ABORT_EVERY != 0
        self.producer.begin_transaction()
        try:
            with watched():
                self._write(means_it)
            if self.orders.hold.is_set():
                hold()
            if means_it:
                retried(self.producer.commit_transaction)
                say("committed", count=len(self.records))
                return
            why = "on purpose"
        except KafkaException as failure:
            why = failure.args[0].name()
            if not failure.args[0].txn_requires_abort():
                raise
        retried(self.producer.abort_transaction)
        say("aborted", why=why)
        # From what is committed, which may be what somebody else has committed.
        self.consumer.assign(
            [TopicPartition(each.topic, each.partition) for each in self.consumer.assignment()]
        )

    def _write(self, means_it: bool) -> None:
        make = done if means_it else never
        ends: dict[int, int] = {}
        for record in self.records:
            self.producer.produce(
                self.job.output, make(record.value()), partition=record.partition()
            )
            ends[record.partition()] = record.offset() + 1
        if self.orders.hold.is_set():
            self.producer.flush(TIMEOUT_S)
        offsets = [TopicPartition(self.job.input, *each) for each in ends.items()]
        retried(self.producer.send_offsets_to_transaction, offsets, self.membership)


@contextlib.contextmanager
def watched() -> Iterator[None]:
    watch = threading.Timer(STUCK_S, give_up)
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def give_up() -> None:
    say("stuck")
    os._exit(1)


def retried(step: Callable[..., None], *arguments: object) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            step(*arguments, TIMEOUT_S)
            return
        except KafkaException as failure:
            if not failure.args[0].retriable() or time.monotonic() > deadline:
                raise


def main() -> None:
    try:
        Worker(told(), Orders()).run()
    except KafkaException as failure:
        error = failure.args[0]
        say("fatal" if error.fatal() else "broken", why=f"{error.name()}: {error.str()}")
        sys.exit(1)
    say("closed")


main()
