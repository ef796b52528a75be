"""What sinks have delivered: one record per query in a compacted topic (spark.md §5).

The record is written in the transaction of the rows it speaks of, so it is there if and only if
they are.
"""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.client import Client
from tidelog.spark import committed_log
from tidelog.spark.committed_log import PARTITION, CommittedLog
from tidelog.wire.records import Record

__all__ = ["PARTITION", "TOPIC", "Marker", "MarkerKey", "MarkerLog", "encoded"]

TOPIC: Final = "__tidelog_spark_sinks"
SUPERSEDED_AT_MOST: Final = 16


class MarkerKey(NamedTuple):
    """A query that writes through a sink."""

    sink_id: str
    query_id: str


class Marker(NamedTuple):
    """The last micro-batch that was delivered, and by which run of the query."""

    number: int
    run_id: str
    superseded: tuple[str, ...] = ()
    """Runs of the sink that an even later one took over from, the latest first."""

    def follows(self, run_id: str) -> tuple[str, ...]:
        """What `superseded` of the next marker is, if it is written by this run."""
        if run_id == self.run_id:
            return self.superseded
        return (self.run_id, *self.superseded)[:SUPERSEDED_AT_MOST]


def encoded(key: MarkerKey, marker: Marker | None, timestamp_ms: int) -> bytearray:
    """One batch with the record; None deletes it."""
    value = None
    if marker is not None:
        told = {
            "batchId": marker.number,
            "runId": marker.run_id,
            "superseded": marker.superseded,
        }
        value = json.dumps(told, separators=(",", ":")).encode()
    name = json.dumps(list(key), separators=(",", ":")).encode()
    return committed_log.encoded(name, value, timestamp_ms)


class MarkerLog(CommittedLog):
    """All markers, as far as this process has read."""

    __slots__ = ("_latest", "_markers")

    def __init__(self, client: Client) -> None:
        super().__init__(client, TOPIC)
        self._markers: dict[MarkerKey, Marker] = {}
        self._latest: dict[str, Marker] = {}
        """By sink, of whichever query."""

    def of(self, key: MarkerKey) -> Marker | None:
        return self._markers.get(key)

    def latest(self, sink_id: str) -> Marker | None:
        return self._latest.get(sink_id)

    @property
    def markers(self) -> Mapping[MarkerKey, Marker]:
        return self._markers

    def learn(self, record: Record) -> None:
        key = MarkerKey(*json.loads(record.key or b""))
        if record.value is None:
            self._markers.pop(key, None)
            return
        told = json.loads(record.value)
        marker = Marker(told["batchId"], told["runId"], tuple(told["superseded"]))
        self._markers[key] = self._latest[key.sink_id] = marker
