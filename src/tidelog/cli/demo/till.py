"""The producer of the demo: sends orders at an even pace and notes every acknowledgement."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from itertools import islice

from tidelog.cli.demo.book import Book
from tidelog.cli.demo.orders import Order, Shop
from tidelog.client import Client, ClientError, NewRecord, Producer
from tidelog.client.partitioner import partition_of_key
from tidelog.host.ports import NetworkError

TICK_SECONDS = 0.02
CHUNK_ORDERS_MAX = 500
ANSWER_WITHIN_MS = 30_000
PAUSE_AFTER_FAILURE_SECONDS = 0.2
FIRST_ORDERS = 60
"""Sold before the measured sale begins, so that readers can get going."""


class Till:
    """acks=all, numbered, keyed by customer. The next orders are sent when the cluster has
    acknowledged the last ones, so no order is later in its log than a chunk of them."""

    __slots__ = ("_bootstrap", "_opened", "_seconds", "_shop", "_topic", "book")

    def __init__(self, bootstrap: str, topic: str, shop: Shop, seconds: float) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._shop = shop
        self._seconds = seconds
        self._opened: float | None = None
        self.book = Book()

    def open(self) -> None:
        """From now on at its pace. Until then only the first orders are sold."""
        self._opened = time.monotonic()

    @property
    def orders(self) -> int:
        """Of the day, and the first of the next."""
        return self._shop.orders + 1

    async def run(self) -> None:
        """Sell everything, in about the time that was given."""
        orders = self._shop.sell()
        async with Client(self._bootstrap, client_id="till", timeout_ms=ANSWER_WITHIN_MS) as client:
            partitions = len((await client.topic(self._topic)).partitions)
            producer = Producer(client)
            while chunk := list(islice(orders, self._due())):
                try:
                    await self._write(producer, chunk, partitions)
                except (ClientError, NetworkError) as error:
                    self.book.doubt(chunk, str(error))
                    producer = Producer(client)  # the numbers of the old one have a hole now
                    await asyncio.sleep(PAUSE_AFTER_FAILURE_SECONDS)
                await self._until_open()
                await asyncio.sleep(TICK_SECONDS)

    async def _until_open(self) -> None:
        while self._opened is None:
            await asyncio.sleep(TICK_SECONDS)

    def _due(self) -> int:
        """How many orders to send now: those that should have been, within bounds."""
        if self._opened is None:
            return FIRST_ORDERS
        share = (time.monotonic() - self._opened) / self._seconds
        behind = int(self._shop.orders * share) - self.book.sent
        return max(1, min(CHUNK_ORDERS_MAX, behind))

    async def _write(self, producer: Producer, chunk: Sequence[Order], partitions: int) -> None:
        self.book.sent += len(chunk)
        written = await producer.write(
            self._topic, [NewRecord(each.as_json(), key=each.customer.encode()) for each in chunk]
        )
        now = time.monotonic()
        placed = by_partition(chunk, partitions)
        for part in written:
            self.book.acknowledge(placed[part.partition], part.partition, part.base_offset, now)


def by_partition(orders: Iterable[Order], partitions: int) -> dict[int, list[Order]]:
    """As every client of Kafka places them, by their key."""
    placed: dict[int, list[Order]] = {}
    for order in orders:
        place = partition_of_key(order.customer.encode(), partitions)
        placed.setdefault(place, []).append(order)
    return placed
