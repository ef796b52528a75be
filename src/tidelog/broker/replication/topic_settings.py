"""A topic's settings for the broker that hosts it: texts of the metadata, parsed into values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from tidelog.broker.answers.effective_config import effective_topic
from tidelog.config.node_config import NodeConfig
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.topic_configs import (
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_REPLICAS,
    MIN_INSYNC_REPLICAS,
    ThrottledReplicas,
    float_value,
    int_value,
    list_value,
    text_value,
    throttled_replicas,
)
from tidelog.storage.config import CleanupPolicy, LogConfig


@dataclass(slots=True)
class TopicSettings:
    """Shared by the replicas of one topic; replaced as a whole when something changes."""

    log: LogConfig
    min_insync_replicas: int
    message_max_bytes: int
    timestamp_type: str
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    compression_type: str
    leader_throttled: ThrottledReplicas
    follower_throttled: ThrottledReplicas


def topic_settings(image: MetadataImage, config: NodeConfig, topic: str) -> TopicSettings:
    """The topic's own values, else the cluster's, else this node's, else Kafka's defaults."""
    return settings_of(effective_topic(image, config, topic), config)


def settings_before_metadata(config: NodeConfig, topic: str) -> LogConfig:
    """For logs that are opened or made. Their own settings reach them when they are hosted."""
    return topic_settings(MetadataImage(), config, topic).log


def settings_of(texts: Mapping[str, str], config: NodeConfig) -> TopicSettings:
    def whole(name: str) -> int:
        return int_value(name, texts.get(name))

    return TopicSettings(
        log=_log_config(texts, config),
        min_insync_replicas=whole(MIN_INSYNC_REPLICAS),
        message_max_bytes=whole("max.message.bytes"),
        timestamp_type=text_value("message.timestamp.type", texts.get("message.timestamp.type")),
        timestamp_before_max_ms=whole("message.timestamp.before.max.ms"),
        timestamp_after_max_ms=whole("message.timestamp.after.max.ms"),
        compression_type=text_value("compression.type", texts.get("compression.type")),
        leader_throttled=_replica_list(LEADER_THROTTLED_REPLICAS, texts),
        follower_throttled=_replica_list(FOLLOWER_THROTTLED_REPLICAS, texts),
    )


def _replica_list(name: str, texts: Mapping[str, str]) -> ThrottledReplicas:
    return throttled_replicas(name, texts.get(name))


def _log_config(texts: Mapping[str, str], config: NodeConfig) -> LogConfig:
    def whole(name: str) -> int:
        return int_value(name, texts.get(name))

    policy = list_value("cleanup.policy", texts.get("cleanup.policy"))
    ratio = texts.get("min.cleanable.dirty.ratio")
    return LogConfig(
        segment_bytes=whole("segment.bytes"),
        segment_ms=whole("segment.ms"),
        segment_jitter_ms=whole("segment.jitter.ms"),
        index_interval_bytes=whole("index.interval.bytes"),
        index_size_max_bytes=whole("segment.index.bytes"),
        retention_ms=whole("retention.ms"),
        retention_bytes=whole("retention.bytes"),
        file_delete_delay_ms=whole("file.delete.delay.ms"),
        durability=config.durability,
        cleanup_policy=cast("tuple[CleanupPolicy, ...]", policy),
        delete_retention_ms=whole("delete.retention.ms"),
        min_cleanable_dirty_ratio=float_value("min.cleanable.dirty.ratio", ratio),
        min_compaction_lag_ms=whole("min.compaction.lag.ms"),
        max_compaction_lag_ms=whole("max.compaction.lag.ms"),
    )
