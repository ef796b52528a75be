"""Topics of dead letters: made before the first letter, and sent back from, exactly once.

Sending back is one transaction for every piece that is read: the records at their topic, and how
far the group of the topic has come. Letters that are not wanted now are written again behind all
others, in the same transaction, because a group knows one offset for a partition and not which
records before it are left.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.client import Admin, Client, Consumer, KafkaError, NewRecord, NewTopic, Read, TopicView
from tidelog.client.groups import GroupAdmin
from tidelog.client.offsets import EARLIEST, LATEST, READ_COMMITTED, find_offsets
from tidelog.client.transactional_producer import TransactionalProducer
from tidelog.core.errors import Error
from tidelog.spark import dead_letter_words as words
from tidelog.spark.failure import TidelogError

GROUP: Final = "tidelog-replay-"
RETRY_MS: Final = 500

TopicPartition = tuple[str, int]


async def make_topics(client: Client, topics: Iterable[TopicView], given: str | None) -> list[str]:
    """See that there is a place for the dead letters of these topics; the names that were made."""
    sources = list(topics)
    wanted: dict[str, list[TopicView]] = {}
    for each in sources:
        wanted.setdefault(given or each.name + words.SUFFIX, []).append(each)
    if given and not sources:  # a pattern that means nothing yet
        wanted[given] = []
    made = []
    for name, of in wanted.items():
        if any(each.name == name for each in sources):
            raise TidelogError(
                f"{name} is read itself, so dead letters would be read again",
                "another --dead-letter-topic",
            )
        partitions = max((len(each.partitions) for each in of), default=1)
        replicas = max((each.replication_factor for each in of), default=-1)
        try:
            await Admin(client).create_topic(NewTopic(name, partitions, replicas))
            made.append(name)
        except KafkaError as error:
            if error.error != Error.TOPIC_ALREADY_EXISTS:
                raise
    return made


class Letter(NamedTuple):
    """A record that could not be decoded, and what its headers tell."""

    record: NewRecord
    """As it was: without our headers, with its time and partition."""
    reason: str


def letter_of(read: Read) -> Letter | None:
    """None: the record is no dead letter."""
    record = read.record
    told = {name: value or b"" for name, value in record.headers if name in words.HEADERS}
    try:
        partition, time_ms = int(told[words.PARTITION]), int(told[words.TIMESTAMP])
        reason = told[words.REASON].decode(errors="replace")
    except (KeyError, ValueError):
        return None
    headers = tuple(each for each in record.headers if each[0] not in words.HEADERS)
    return Letter(NewRecord(record.value, record.key, headers, time_ms, partition), reason)


@dataclass
class Replayed:
    """What was done, or with a dry run would have been."""

    sent: int = 0
    kept: int = 0
    """Not wanted now, and written again behind the others."""
    strangers: int = 0
    """Records of the topic that are no dead letters; they stay where they are."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Of those that were sent."""


class Replay:
    """From one topic of dead letters to another topic."""

    def __init__(
        self, client: Client, source: str, target: str, wanted: Callable[[str], bool]
    ) -> None:
        """`wanted` judges the reason of a letter."""
        self._client = client
        self._source = source
        self._target = target
        self._wanted = wanted
        self._group = GROUP + source
        self._done = Replayed()

    async def run(self, *, dry: bool = False) -> Replayed:
        """Everything that is there now. TidelogError if another one took over."""
        producer = TransactionalProducer(self._client, self._group)
        if not dry:
            await producer.init()  # what an earlier one left open is decided now
        partitions = len((await self._client.topic(self._target)).partitions)
        starts, ends = await self._span()
        consumer = Consumer(self._client, starts, committed=True)
        attempts = self._client.attempts()
        while any(consumer.positions[where] < end for where, end in ends.items()):
            before = dict(consumer.positions)
            reads = [
                read
                for fetched in (await consumer.read(max_wait_ms=RETRY_MS)).values()
                for read in fetched.reads
                if read.record.offset < ends[read.topic, read.partition]
            ]
            moved = {
                where: min(at, ends[where])
                for where, at in consumer.positions.items()
                if min(at, ends[where]) > min(before[where], ends[where])
            }
            sent, kept = self._sorted(reads, partitions)
            if moved and not dry:
                await self._commit(producer, sent, kept, moved)
            if moved:
                attempts = self._client.attempts()
            elif not await attempts.pause():
                raise KafkaError(Error.REQUEST_TIMED_OUT, f"{self._source} ends before its end")
        return self._done

    async def _span(self) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """From where the group is to where the topic ends now."""
        topic = await self._client.topic(self._source)
        places = [(self._source, each.partition) for each in topic.partitions]
        committed = await GroupAdmin(self._client).committed(self._group, places, stable=True)
        first = await find_offsets(self._client, dict.fromkeys(places, EARLIEST))
        last = await find_offsets(
            self._client, dict.fromkeys(places, LATEST), isolation=READ_COMMITTED
        )
        starts = {
            where: max(first[where].offset, committed[where].offset if where in committed else 0)
            for where in places
        }
        return starts, {where: last[where].offset for where in places}

    def _sorted(
        self, reads: list[Read], partitions: int
    ) -> tuple[list[NewRecord], list[NewRecord]]:
        sent, kept = [], []
        for read in reads:
            letter = letter_of(read)
            if letter is None:
                self._done.strangers += 1
            elif self._wanted(letter.reason):
                record = letter.record
                assert record.partition is not None, letter
                sent.append(record._replace(partition=record.partition % partitions))
                self._done.sent += 1
                self._done.reasons[letter.reason] += 1
            else:
                same = read.record
                kept.append(NewRecord(same.value, same.key, same.headers, partition=read.partition))
                self._done.kept += 1
        return sent, kept

    async def _commit(
        self,
        producer: TransactionalProducer,
        sent: list[NewRecord],
        kept: list[NewRecord],
        offsets: dict[TopicPartition, int],
    ) -> None:
        await producer.begin()
        try:
            if sent:
                await producer.write(self._target, sent)
            if kept:
                await producer.write(self._source, kept)
            await producer.add_offsets(self._group, offsets)
            await producer.commit()
        except KafkaError as error:
            if error.error in (Error.PRODUCER_FENCED, Error.INVALID_PRODUCER_EPOCH):
                raise TidelogError(
                    f"another replay of {self._source} took over",
                    "let that one end; nothing is sent twice",
                ) from None
            raise


def reason_filter(text: str | None) -> Callable[[str], bool]:
    """`reason~WORDS`: letters whose reason has a match of this expression; all without a text."""
    if text is None:
        return lambda reason: True
    name, tilde, expression = text.partition("~")
    if not tilde or name.strip() != "reason":
        raise ValueError("it is reason~ and a regular expression")
    try:
        pattern = re.compile(expression)
    except re.error as error:
        raise ValueError(f"{expression!r} is no regular expression: {error}") from None
    return lambda reason: pattern.search(reason) is not None
