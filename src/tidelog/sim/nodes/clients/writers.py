"""Clients that write records, with every kind of promise."""

import asyncio
from random import Random

from tidelog.client import Client, ClientError, NewRecord, Producer
from tidelog.host.ports import NetworkError
from tidelog.sim.nodes.client_plan import ACKS_ALL, ACKS_NONE, WriterPlan
from tidelog.sim.nodes.clients.history import History, Place, Sent
from tidelog.sim.nodes.clients.stage import Stage

TIDES = "tides"
PAUSE_AFTER_FAILURE_S = 0.1


class Writer:
    """Writes until the stage says stop. After a failure it begins anew, with another id."""

    __slots__ = ("_entropy", "_history", "_name", "_number", "_plan", "_stage")

    def __init__(self, stage: Stage, plan: WriterPlan, name: str) -> None:
        self._stage = stage
        self._history: History = stage.history
        self._plan = plan
        self._name = name
        self._entropy: Random = stage.stream(name)
        self._number = 0

    async def run(self, client: Client) -> None:
        producer = self._producer(client)
        while not self._stage.stopped:
            records = self._draw_records()
            try:
                written = await producer.write(TIDES, records)
            except (ClientError, NetworkError):
                self._history.failed += 1
                producer = self._producer(client)
                await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
            else:
                for each in written:
                    self._note(records, each.partition, each.base_offset)
            await asyncio.sleep(pause_s(self._entropy, self._plan.pause_ms))

    def _producer(self, client: Client) -> Producer:
        plan = self._plan
        return Producer(client, acks=plan.acks, codec=plan.codec, numbered=plan.numbered)

    def _draw_records(self) -> list[NewRecord]:
        """All for one partition, or each for any."""
        entropy, plan = self._entropy, self._plan
        partitions = self._stage.tides_partitions
        together = entropy.randrange(partitions) if entropy.random() < 0.7 else None
        records = []
        for _ in range(entropy.randrange(plan.records) + 1):
            partition = entropy.randrange(partitions) if together is None else together
            value = f"{self._name}-{self._number}".encode()
            once = plan.numbered or plan.acks == ACKS_NONE
            self._history.sent[value] = Sent(self._name, self._number, TIDES, partition, once)
            self._number += 1
            records.append(NewRecord(value, partition=partition))
        return records

    def _note(self, records: list[NewRecord], partition: int, base_offset: int) -> None:
        if self._plan.acks == ACKS_NONE:
            return
        acks_all = self._plan.acks == ACKS_ALL
        told = self._history.acknowledged if acks_all else self._history.written
        mine = [each.value for each in records if each.partition == partition]
        for index, value in enumerate(mine):
            assert value is not None, self._name
            told[value] = Place(TIDES, partition, base_offset + index)


def pause_s(entropy: Random, most_ms: int) -> float:
    return entropy.randrange(most_ms * 1000) / 1_000_000
