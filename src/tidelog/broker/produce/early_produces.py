"""Produce requests for logs that are still being made.

The logs of a new topic are there some moments after its metadata is. A client that writes
immediately would be told that somebody else leads, would ask for metadata that says the same as
before, and would rest for a tenth of a second or two. So its request waits here until the logs are
there.

Later requests of the same connection wait behind it: a producer's batches must not overtake each
other. As this holds up what could be written already, patience is short.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tidelog.core.types import PartitionId
from tidelog.wire.protocol.schemas.produce_request import ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.host.ports import PeerConnection
    from tidelog.host.timers import Timer, TimerWheel
    from tidelog.rpc import Call

PATIENCE_MS = 1_000

Perform = Callable[["Call", ProduceRequest], None]


class EarlyProduces:
    """Owner of the requests that wait, by connection, in the order they came."""

    __slots__ = ("_metadata", "_replicas", "_timers", "_waiting")

    def __init__(self, metadata: LocalMetadata, replicas: Replicas, timers: TimerWheel) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._timers = timers
        self._waiting: dict[PeerConnection, deque[EarlyProduce]] = {}

    @property
    def waiting_count(self) -> int:
        return sum(map(len, self._waiting.values()))

    def must_wait(self, call: Call, request: ProduceRequest) -> bool:
        if not (self._replicas.coming or self._metadata.unfollowed or self._waiting):
            return False  # as good as always
        return call.connection in self._waiting or self._is_early(request)

    def keep(self, call: Call, request: ProduceRequest, perform: Perform) -> None:
        """It is performed when all its logs are there, or when it has waited long enough."""
        for topic in request.topic_data:
            for data in topic.partition_data:
                if data.records is not None:  # a view of the receive buffer
                    data.records = bytearray(data.records)
        queue = self._waiting.setdefault(call.connection, deque())
        early = EarlyProduce(call, request, perform)
        queue.append(early)
        patience_ms = max(0, min(PATIENCE_MS, request.timeout_ms))
        give_up = partial(self._give_up, early)
        early.timer = self._timers.after(patience_ms, give_up)

    def look_again(self) -> None:
        """Logs were made, or are not wanted any more."""
        for connection, queue in list(self._waiting.items()):
            while queue and not self._is_early(queue[0].request):
                self._release(connection, queue)

    def _give_up(self, early: EarlyProduce) -> None:
        """Those before it came earlier, and have waited as long."""
        connection = early.call.connection
        queue = self._waiting[connection]
        while early in queue:
            self._release(connection, queue)

    def _release(self, connection: PeerConnection, queue: deque[EarlyProduce]) -> None:
        early = queue.popleft()
        if not queue:
            del self._waiting[connection]
        early.timer.cancel()
        try:
            early.perform(early.call, early.request)
        except Exception as error:  # the border of a connection
            connection.fail(error)

    def _is_early(self, request: ProduceRequest) -> bool:
        return any(
            self._replicas.is_coming(PartitionId(self._id_of(topic), data.index))
            for topic in request.topic_data
            for data in topic.partition_data
        )

    def _id_of(self, topic: TopicProduceData) -> bytes:
        """By name below version 13, then by id."""
        if topic.name:
            return self._metadata.image.topic_ids.get(topic.name, b"")
        return topic.topic_id


class EarlyProduce:
    """One of them."""

    __slots__ = ("call", "perform", "request", "timer")

    timer: Timer

    def __init__(self, call: Call, request: ProduceRequest, perform: Perform) -> None:
        self.call = call
        self.request = request
        self.perform = perform
