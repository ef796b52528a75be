"""The events of a node as records of a topic, for readers that have only a Kafka client.

At best effort: the topic is a copy of the stream, and a cluster in trouble has better things to
do than to write about it. What does not fit is dropped and counted.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from tidelog.core.events import (
    HighWatermarkAdvanced,
    RecordsAppended,
    TransactionAborted,
)
from tidelog.core.types import PartitionId
from tidelog.host import tasks
from tidelog.observe.render import Renderer
from tidelog.observe.stream import EventStream, NumberedEvent, joined

EVENTS_TOPIC = "__tidelog_events"
BATCH_MS = 500
MOST_WAITING = 2_000
MOST_PER_BATCH = 500

_LOGGER = logging.getLogger("tidelog.events")


class EventRecord(NamedTuple):
    key: bytes
    value: bytes
    timestamp_ms: int


Produce = Callable[[str, Sequence[EventRecord]], Awaitable[None]]
"""Appends to a topic, or raises; creates the topic if there is none."""


class EventTopic:
    """Collects events for half a second and writes them as one batch."""

    __slots__ = (
        "_epochs",
        "_produce",
        "_renderer",
        "_stream",
        "_task",
        "_unsubscribe",
        "_waiting",
        "dropped",
        "failures",
        "written",
    )

    def __init__(self, stream: EventStream, renderer: Renderer, produce: Produce) -> None:
        self._stream = stream
        self._renderer = renderer
        self._produce = produce
        self._waiting: dict[object, NumberedEvent] = {}
        self._epochs: dict[PartitionId, int] = {}
        """The leader epoch under which each partition was last appended to."""
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self.written = 0
        self.dropped = 0
        self.failures = 0

    def start(self) -> None:
        self._unsubscribe = self._stream.subscribe(self.on_event)
        self._task = tasks.begin(self._run())

    async def stop(self) -> None:
        """What still waits is not written: the node is about to be somebody else's to watch."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def on_event(self, numbered: NumberedEvent) -> None:
        """Watermarks and appends of a partition are one record per batch, with the time of the
        last. The first append of a leader epoch is a record of its own: with the last one before
        it, it says how long nothing could be written. Those of this very topic would never end.
        """
        event = numbered.event
        key: object = numbered.number
        if isinstance(event, HighWatermarkAdvanced | RecordsAppended):
            if self._renderer.topic(event.partition.topic_id) == EVENTS_TOPIC:
                return
            joins = self._key_of(event)
            earlier = None if joins is None else self._waiting.pop(joins, None)
            if earlier is not None:
                numbered = numbered._replace(event=joined(earlier.event, event))
            key = numbered.number if joins is None else joins
        if len(self._waiting) >= MOST_WAITING:
            self.dropped += 1
            return
        self._waiting[key] = numbered

    def _key_of(self, event: HighWatermarkAdvanced | RecordsAppended) -> object:
        """What it is told together with; None if it is told by itself."""
        if isinstance(event, HighWatermarkAdvanced):
            return type(event), event.partition
        if self._epochs.get(event.partition) != event.leader_epoch:
            self._epochs[event.partition] = event.leader_epoch
            return None
        return type(event), event.partition, event.leader_epoch

    async def write_batch(self) -> None:
        """What waits, as much as one batch holds. After a failure it waits on."""
        keys = list(self._waiting)[:MOST_PER_BATCH]
        batch = {key: self._waiting[key] for key in keys}
        if not batch:
            return
        try:
            await self._produce(EVENTS_TOPIC, [self._record(each) for each in batch.values()])
        except Exception as error:  # the border of a task; best effort is all that is promised
            self.failures += 1
            _LOGGER.debug("events were not written: %s", error)
            return
        self.written += len(batch)
        for key, written in batch.items():
            if self._waiting.get(key) is written:
                del self._waiting[key]

    async def _run(self) -> None:
        while True:
            await tasks.pause(BATCH_MS)
            await self.write_batch()

    def _record(self, numbered: NumberedEvent) -> EventRecord:
        rendered = self._renderer.numbered(self._stream.node_id, numbered)
        rendered["stream"] = self._stream.started_ms
        subject = numbered.event[0]
        if isinstance(subject, PartitionId):
            key = self._renderer.partition(subject)
        elif isinstance(numbered.event, TransactionAborted):
            key = f"transactional-id-{subject}"
        elif isinstance(subject, str):
            key = f"group-{subject}"
        else:
            key = f"broker-{subject}"
        return EventRecord(key.encode(), json.dumps(rendered).encode(), numbered.wall_ms)
