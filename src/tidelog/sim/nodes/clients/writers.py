"""Clients that write records, with every kind of promise."""

import asyncio
from random import Random

from tidelog.client import NewRecord, Producer, Written
from tidelog.sim.nodes.client_plan import ACKS_ALL, ACKS_NONE, WriterPlan
from tidelog.sim.nodes.clients.history import History, Place, Sent
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.clients.stage import FAILURES, PAUSE_AFTER_FAILURE_S, Stage, pause_s


class Writer:
    """Writes until the stage says stop. After a failure it begins anew, with another id."""

    __slots__ = ("_entropy", "_history", "_name", "_number", "_plan", "_stage", "_topics")

    def __init__(self, stage: Stage, plan: WriterPlan, name: str, topics: list[str]) -> None:
        self._stage = stage
        self._history: History = stage.history
        self._plan = plan
        self._name = name
        self._topics = topics
        self._entropy: Random = stage.stream(name)
        self._number = 0

    async def run(self, process: ClientProcess) -> None:
        producer = self._producer(process)
        while not self._stage.stopped:
            topic = self._entropy.choice(self._topics)
            records = self._draw_records(topic)
            try:
                written = await producer.write(topic, records)
            except FAILURES:
                self._history.failed += 1
                producer = self._producer(process)
                await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
            else:
                for each in written:
                    self._note(records, each)
            await asyncio.sleep(pause_s(self._entropy, self._plan.pause_ms))

    def _producer(self, process: ClientProcess) -> Producer:
        plan = self._plan
        return Producer(process.client, acks=plan.acks, codec=plan.codec, numbered=plan.numbered)

    def _draw_records(self, topic: str) -> list[NewRecord]:
        """All for one partition, or each for any."""
        entropy, plan = self._entropy, self._plan
        partitions = self._stage.partitions[topic]
        together = entropy.randrange(partitions) if entropy.random() < 0.7 else None
        records = []
        for _ in range(entropy.randrange(plan.records) + 1):
            partition = entropy.randrange(partitions) if together is None else together
            value = f"{self._name}-{self._number}".encode()
            once = plan.numbered or plan.acks == ACKS_NONE
            self._history.sent[value] = Sent(self._name, self._number, topic, partition, once)
            self._number += 1
            records.append(NewRecord(value, partition=partition))
        return records

    def _note(self, records: list[NewRecord], written: Written) -> None:
        if self._plan.acks == ACKS_NONE:
            return
        acks_all = self._plan.acks == ACKS_ALL
        told = self._history.acknowledged if acks_all else self._history.written
        mine = [each.value for each in records if each.partition == written.partition]
        for index, value in enumerate(mine):
            assert value is not None, self._name
            told[value] = Place(written.topic, written.partition, written.base_offset + index)
