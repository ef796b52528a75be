"""Topics of one cluster to another, exactly once: same partitions, keys, headers, times, order.

Each partition is read by one task and written to the partition of the same number, batch after
batch, so order is kept where Kafka has one. Offsets differ where the source has holes: what was
aborted or compacted away is not written. Which belongs to which is kept (`spark.offset_map`).
"""

from typing import TYPE_CHECKING, NamedTuple

from tidelog.client import Admin, Client, KafkaError, NewTopic, TopicView
from tidelog.client.admin import TOPIC_RESOURCE
from tidelog.core.errors import Error
from tidelog.spark.failure import TidelogError
from tidelog.spark.pipelines.running import Pace, paced
from tidelog.spark.pipelines.state import PipelineState
from tidelog.spark.security_options import Access
from tidelog.spark.sink_options import SOURCE_OFFSET

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

KIND = "mirror"

COPIED_CONFIGS = (
    "cleanup.policy",
    "compression.type",
    "delete.retention.ms",
    "max.message.bytes",
    "message.timestamp.type",
    "min.compaction.lag.ms",
    "retention.bytes",
    "retention.ms",
)
"""What belongs to the records; what belongs to a cluster (replicas, their minimum) does not."""


class Mirror(NamedTuple):
    target: Access
    """The other cluster."""
    prefix: str = ""
    """Before the names of topics over there."""
    source_id: str | None = None
    """The id of the cluster that is read; without one no offsets are kept."""


class Place(NamedTuple):
    """One topic, here and there."""

    source: TopicView
    target: str


async def places(
    source: Client, target: Client, topics: tuple[TopicView, ...], prefix: str
) -> list[Place]:
    """Where each topic goes; TidelogError if it would go to itself."""
    here, there = (await source.brokers()).cluster_id, (await target.brokers()).cluster_id
    if here == there and here is not None and not prefix:
        raise into_itself()
    return [Place(each, f"{prefix}{each.name}") for each in topics]


def into_itself() -> TidelogError:
    return TidelogError(
        "both sides are the same cluster, so topics would be copied into themselves",
        "another --to, or a --prefix for the copies",
    )


async def make_target(source: Client, target: Client, place: Place) -> bool:
    """See that the topic is there with enough partitions; True if it was made."""
    wanted = len(place.source.partitions)
    try:
        there = len((await target.topic(place.target)).partitions)
    except KafkaError as error:
        if error.error != Error.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return await _create(source, target, place)
    if there < wanted:
        raise TidelogError(
            f"{place.source.name} has {wanted} partitions, {place.target} over there has {there}",
            f"tidelog topic add-partitions {place.target} --to {wanted} on that cluster",
        )
    return False


async def _create(source: Client, target: Client, place: Place) -> bool:
    brokers = len((await target.brokers()).brokers)
    known = await Admin(source).configs(TOPIC_RESOURCE, place.source.name)
    configs = {
        each.name: each.value
        for each in known
        if each.name in COPIED_CONFIGS and not each.is_default and each.value is not None
    }
    new = NewTopic(
        place.target,
        len(place.source.partitions),
        min(place.source.replication_factor, brokers),
        configs,
    )
    try:
        await Admin(target).create_topic(new)
    except KafkaError as error:
        if error.error != Error.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


def start(rows: "DataFrame", mirror: Mirror, state: PipelineState, pace: Pace) -> "StreamingQuery":
    """Rows as they come from the connector, with headers."""
    from tidelog.spark.empty_headers import with_empty_headers  # noqa: PLC0415 - pyarrow

    copies = rows.selectExpr(
        f"concat('{mirror.prefix}', topic) AS topic",
        "partition",
        "key",
        "value",
        "headers",
        "timestamp",
        f"offset AS {SOURCE_OFFSET}",
    )
    kept = {} if mirror.source_id is None else {"offsetMap": mirror.source_id}
    writer = (
        with_empty_headers(copies)
        .writeStream.format("tidelog")
        .options(**mirror.target.options(), **kept)
        .option("checkpointLocation", state.checkpoint.location())
        .queryName(state.name)
    )
    return paced(writer, pace).start()
