"""Writing batches that were encoded before: many partitions at once, several requests each.

The batches of a partition leave in their order and are numbered. When one is refused or lost, all
that wait behind it are sent again in the same order; leaders tell from the numbers what they have.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tidelog.client.client import Attempts, Client
from tidelog.client.errors import ClusterUnreachable, KafkaError, check
from tidelog.client.links import PRODUCE
from tidelog.client.offsets import leader_of
from tidelog.client.producer import UNNUMBERED, Producer, Written
from tidelog.core.errors import Error
from tidelog.host import tasks
from tidelog.host.ports import NetworkError, RequestTimedOut
from tidelog.wire.kernel import restamp
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import ProduceResponse
from tidelog.wire.records import Buffer, WritableBuffer, iter_batches

TopicPartition = tuple[str, int]
Feeds = Mapping[TopicPartition, Iterable[WritableBuffer]]
"""What goes into each partition: buffers of one or more whole batches, stamped in place."""

IN_FLIGHT = 5
"""As many as leaders remember of a producer: a batch sent twice is recognised (KIP-185)."""
LANES_AT_ONCE = 16
"""Bounds memory: so many partitions times IN_FLIGHT batches are held at most."""
REQUEST_TIMEOUT_MS = 15_000


class Stamp(NamedTuple):
    """Whose batches they are."""

    producer_id: int = UNNUMBERED
    producer_epoch: int = UNNUMBERED
    transactional_id: str | None = None


class Outgoing:
    """One batch that no leader has acknowledged yet."""

    __slots__ = ("answer", "batch", "records")

    def __init__(self, batch: Buffer, records: int) -> None:
        self.batch = batch
        self.records = records
        self.answer: asyncio.Task[int] | None = None
        """None: not on its way."""


class BatchProducer(Producer):
    """Writes prepared batches beside single records, all under one producer id."""

    __slots__ = ()

    async def write_batches(self, feeds: Feeds) -> list[Written]:
        """All of it, in the order given within each partition. `base_offset` is that of the first
        batch. Raises the first refusal that does not pass; more may have been written then."""
        stamp = Stamp(*(await self._identity()), self._transactional_id)
        room = asyncio.Semaphore(LANES_AT_ONCE)

        async def write_one(where: TopicPartition, feed: Iterable[WritableBuffer]) -> Written:
            async with room:
                lane = Lane(self._client, where, self._acks, stamp, self._sequences.get(where, 0))
                written = await lane.run(iter(feed))
                self._sequences[where] = lane.sequence
                return written

        return await all_or_none([write_one(where, feed) for where, feed in feeds.items()])


class Lane:
    """The way into one partition: a window of batches that are sent and not yet acknowledged."""

    __slots__ = (
        "_acks",
        "_attempts",
        "_base_offset",
        "_client",
        "_index",
        "_ready",
        "_records",
        "_stamp",
        "_topic",
        "_window",
        "sequence",
    )

    def __init__(
        self, client: Client, where: TopicPartition, acks: int, stamp: Stamp, sequence: int
    ) -> None:
        self._client = client
        self._topic, self._index = where
        self._acks = acks
        self._stamp = stamp
        self.sequence = sequence
        """Of the next batch that is loaded."""
        self._ready: deque[Outgoing] = deque()
        self._window: deque[Outgoing] = deque()
        self._attempts: Attempts = client.attempts()
        self._base_offset: int | None = None
        self._records = 0

    async def run(self, feed: Iterator[WritableBuffer]) -> Written:
        try:
            while self._load(feed):
                for outgoing in self._window:
                    if outgoing.answer is None:
                        outgoing.answer = tasks.begin(self._ask(outgoing))
                await self._settle_oldest()
        finally:
            await self._give_up()
        return Written(self._topic, self._index, self._base_offset or 0, self._records)

    def _load(self, feed: Iterator[WritableBuffer]) -> bool:
        """Fill the window; False when all is done. The first batch goes alone: with it the
        partition becomes part of the transaction, and nothing may overtake that."""
        limit = IN_FLIGHT if self._base_offset is not None else 1
        while len(self._window) < limit:
            if not self._ready:
                buffer = next(feed, None)
                if buffer is None:
                    break
                self._prepare(buffer)
            else:
                self._window.append(self._ready.popleft())
        return bool(self._window)

    def _prepare(self, buffer: WritableBuffer) -> None:
        stamp = self._stamp
        if stamp.producer_id >= 0:
            self.sequence = restamp(
                buffer,
                stamp.producer_id,
                stamp.producer_epoch,
                self.sequence,
                transactional=stamp.transactional_id is not None,
            )
        view = memoryview(buffer)
        for at, header in iter_batches(buffer):
            batch = view[at : at + header.size_bytes]
            self._ready.append(Outgoing(batch, header.record_count))

    async def _settle_oldest(self) -> None:
        oldest = self._window[0]
        assert oldest.answer is not None, (self._topic, self._index)
        try:
            base_offset = await oldest.answer
        except (KafkaError, NetworkError) as error:
            await self._recover(error)
            return
        self._window.popleft()
        self._records += oldest.records
        if self._base_offset is None:
            self._base_offset = base_offset
        self._attempts = self._client.attempts()

    async def _recover(self, error: KafkaError | NetworkError) -> None:
        """Everything in the window goes out again, unless that makes no sense any more. What
        became of the later ones does not matter: they are recognised if they were written."""
        await self._give_up()
        if isinstance(error, KafkaError) and not self._attempts.allow(error):
            raise error
        self._client.forget(self._topic)
        if await self._attempts.pause():
            return
        where = f"{self._topic}-{self._index}"
        if isinstance(error, KafkaError):
            raise error
        if isinstance(error, RequestTimedOut):
            raise KafkaError(Error.REQUEST_TIMED_OUT, f"{where}: {error}")
        raise ClusterUnreachable(f"the leader of {where}", str(error))

    async def _give_up(self) -> None:
        """Nothing is on its way after this."""
        pending = [each.answer for each in self._window if each.answer is not None]
        for each in self._window:
            each.answer = None
        for answer in pending:
            answer.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    async def _ask(self, outgoing: Outgoing) -> int:
        client = self._client
        data = PartitionProduceData(index=self._index, records=outgoing.batch)
        request = ProduceRequest(
            transactional_id=self._stamp.transactional_id,
            acks=self._acks,
            timeout_ms=REQUEST_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[data])],
        )
        leader, _ = await leader_of(client, self._topic, self._index)
        answer = await client.ask_broker(
            leader,
            request,
            ProduceResponse,
            purpose=PRODUCE,
            timeout_ms=min(REQUEST_TIMEOUT_MS, client.timeout_ms),
        )
        result = answer.responses[0].partition_responses[0]
        if result.error_code == Error.DUPLICATE_SEQUENCE_NUMBER and self._stamp.producer_id >= 0:
            return result.base_offset  # an earlier try was written
        check(result.error_code, result.error_message or f"{self._topic}-{self._index}")
        return result.base_offset


async def all_or_none(work: Iterable[Coroutine[Any, Any, Written]]) -> list[Written]:
    """All results; after the first failure the others are stopped and it is raised."""
    begun = [tasks.begin(each) for each in work]
    if not begun:
        return []
    try:
        await asyncio.wait(begun, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in begun:
            task.cancel()
        results = await asyncio.gather(*begun, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
            raise result
    return [result for result in results if isinstance(result, Written)]
