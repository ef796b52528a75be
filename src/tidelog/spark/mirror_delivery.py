"""The commit of a mirrored batch: beside records and marker, where the records came from."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tidelog.client import Client
from tidelog.client.batch_producer import Feeds, TopicPartition
from tidelog.client.producer import Written
from tidelog.client.transactional_producer import TransactionalProducer
from tidelog.spark import marker, offset_map
from tidelog.spark.committed_log import PARTITION
from tidelog.spark.delivery import Delivery
from tidelog.spark.offset_map import MapKey, OffsetMapLog, Span
from tidelog.spark.staging import StagedRows

_maps: dict[Client, OffsetMapLog] = {}
"""What the commit process has read, by the client that it keeps."""


class Source(NamedTuple):
    """Offsets that the records of one partition had where they came from."""

    first: int
    end: int


class MirrorDelivery(Delivery):
    """Writes the records first, because only then is it known where they lie."""

    __slots__ = ("_cluster_id", "_sources")

    def __init__(self, *common: Any, cluster_id: str) -> None:
        super().__init__(*common)
        self._cluster_id = cluster_id
        """Of the source."""
        self._sources: dict[TopicPartition, Source] = {}

    async def deliver(self, staged: Sequence[StagedRows]) -> bool:
        self._sources = sources_of(staged)
        return await super().deliver(staged)

    async def produce(self, producer: TransactionalProducer, feeds: Feeds) -> None:
        own = (marker.TOPIC, marker.PARTITION)
        rows = {where: feed for where, feed in feeds.items() if where != own}
        written = await producer.write_batches(rows)
        maps = _maps.setdefault(self._client, OffsetMapLog(self._client))
        await maps.refresh()  # what earlier transactions of this sink were is decided by now
        records = [self._record(maps, each) for each in written]
        place = (offset_map.TOPIC, PARTITION)
        await producer.write_batches({own: feeds[own], place: records})

    def _record(self, maps: OffsetMapLog, written: Written) -> bytearray:
        source = self._sources[written.topic, written.partition]
        key = MapKey(self._cluster_id, written.topic, written.partition)
        new = Span(source.first, source.end, written.base_offset, written.records)
        spans = offset_map.added(maps.of(key), new)
        return offset_map.encoded(key, spans, self._client.now_ms())


def sources_of(staged: Iterable[StagedRows]) -> dict[TopicPartition, Source]:
    """Of all tasks together."""
    found: dict[TopicPartition, Source] = {}
    for rows in staged:
        for topic, partition, first, end in rows.origins:
            known = found.get((topic, partition), Source(first, end))
            found[topic, partition] = Source(min(known.first, first), max(known.end, end))
    return found
