"""The topic of schemas: read to its end, followed, and written by one registry at a time.

Whoever writes holds the transactional id of the topic. The cluster takes it from a registry when
another one asks for it, and then refuses whatever the first still sends. So what is written was
decided on everything that was written before (ADR 0047).
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tidelog.client import Admin, Client, ClientError, Consumer, KafkaError, NewRecord, NewTopic
from tidelog.client.admin import TOPIC_RESOURCE
from tidelog.client.offsets import EARLIEST, LATEST, READ_COMMITTED, find_offset
from tidelog.client.transactional_producer import TransactionalProducer
from tidelog.core.errors import Error
from tidelog.host import tasks
from tidelog.registry.image import Image
from tidelog.registry.records import Record

PARTITION: Final = 0
LOOK_EVERY_MS: Final = 250
TRIES: Final = 12
BACKOFF_MS: Final = 100
LONGEST_BACKOFF_MS: Final = 3_000

Decide = Callable[[], Awaitable[Sequence[Record]]]
"""What to write, given all that is written now. May be asked again."""


class WrongTopic(Exception):  # noqa: N818 - it names what is so
    """A topic is there that cannot hold schemas."""


class SchemaTopic:
    """One topic, its image, and the right to write to it."""

    def __init__(self, client: Client, name: str, *, replicas: int = -1) -> None:
        self._client = client
        self._replicas = replicas
        self._reading = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._consumer: Consumer | None = None
        self._producer: TransactionalProducer | None = None
        self.name = name
        self.image = Image()

    async def open(self) -> None:
        """Make the topic if there is none, and read all of it."""
        try:
            topic = await self._client.topic(self.name)
        except KafkaError as error:
            if error.error != Error.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            await self._create()
            topic = await self._client.topic(self.name)
        if len(topic.partitions) != 1:
            raise WrongTopic(f"{self.name} has {len(topic.partitions)} partitions, it must have 1")
        await self._check_cleanup()
        first = await find_offset(self._client, self.name, PARTITION, EARLIEST)
        positions = {(self.name, PARTITION): first.offset}
        self._consumer = Consumer(self._client, positions, committed=True)
        await self.refresh()

    async def _create(self) -> None:
        compacted = {"cleanup.policy": "compact"}
        new = NewTopic(self.name, 1, self._replicas, compacted)
        try:
            await Admin(self._client).create_topic(new)
        except KafkaError as error:
            if error.error != Error.TOPIC_ALREADY_EXISTS:
                raise

    async def _check_cleanup(self) -> None:
        """Schemas that retention removes are gone for good, and with them what they describe."""
        configs = await Admin(self._client).configs(TOPIC_RESOURCE, self.name)
        policy = next((each.value for each in configs if each.name == "cleanup.policy"), None)
        if policy not in (None, "compact"):
            raise WrongTopic(f"{self.name} has cleanup.policy={policy}, it must be compact")

    @property
    def position(self) -> int:
        assert self._consumer is not None, "the topic was not opened"
        return self._consumer.positions[self.name, PARTITION]

    async def refresh(self) -> None:
        """Read on to where the topic ends now: what was decided before this call is known after
        it."""
        assert self._consumer is not None, "the topic was not opened"
        found = await find_offset(
            self._client, self.name, PARTITION, LATEST, isolation=READ_COMMITTED
        )
        attempts = self._client.attempts()
        async with self._reading:
            while (before := self.position) < found.offset:
                for fetched in (await self._consumer.read(max_wait_ms=100)).values():
                    for read in fetched.reads:
                        self.image.apply(read.record.key, read.record.value)
                await tasks.pause(0)
                if self.position == before and not await attempts.pause():
                    raise KafkaError(Error.REQUEST_TIMED_OUT, f"{self.name} ends before its end")

    async def follow(self, on_trouble: Callable[[ClientError | None], None]) -> None:
        """Know what other registries write, for as long as this one lives."""
        while True:
            try:
                await self.refresh()
                on_trouble(None)
            except ClientError as error:
                on_trouble(error)
            await tasks.pause(LOOK_EVERY_MS)

    async def write(self, decide: Decide) -> None:
        """Decide and write as the only one. ClientError if the cluster does not take it."""
        async with self._writing:
            for number in range(1, TRIES + 1):
                try:
                    await self._try(decide)
                    return
                except KafkaError as error:
                    self._producer = None  # whatever it was: begin again as a new producer
                    if number == TRIES or error.error == Error.UNSUPPORTED_VERSION:
                        raise
                except ClientError:
                    self._producer = None
                    raise
                # Longer each time: two that are slow must not take it from each other for ever.
                longest = min(BACKOFF_MS * 2**number, LONGEST_BACKOFF_MS)
                await tasks.pause(secrets.randbelow(longest))

    async def _try(self, decide: Decide) -> None:
        producer = self._producer
        if producer is None:
            producer = TransactionalProducer(self._client, f"tidelog-registry-{self.name}")
            await producer.init()
            self._producer = producer
        await self.refresh()
        records = [NewRecord(value, key, partition=PARTITION) for key, value in await decide()]
        if not records:
            return
        await producer.begin()
        written = await producer.write(self.name, records)
        await producer.commit()
        last = written[0].base_offset + written[0].records - 1
        await self._until_seen(last)

    async def _until_seen(self, offset: int) -> None:
        """It is decided; readers see it when the marker is written, soon after."""
        attempts = self._client.attempts()
        await self.refresh()
        while self.position <= offset:
            if not await attempts.pause():
                raise KafkaError(Error.REQUEST_TIMED_OUT, "it is written, and not to be read yet")
            await self.refresh()
