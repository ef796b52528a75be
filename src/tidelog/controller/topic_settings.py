"""What a topic's settings are, and where each of them comes from."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from tidelog.config.broker_keys import BROKER_NAMES_OF_TOPIC_CONFIGS
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.records import RESOURCE_BROKER
from tidelog.core.metadata.topic_configs import KNOWN


class SettingSource(IntEnum):
    """Kafka's numbers."""

    TOPIC = 1
    CLUSTER = 3
    FILE = 4
    DEFAULT = 5


class TopicSetting(NamedTuple):
    name: str
    value: str
    source: SettingSource


def topic_settings(
    own: Mapping[str, str], image: MetadataImage, topic_defaults: Mapping[str, str]
) -> list[TopicSetting]:
    """Every setting there is; the nearest word counts: topic, cluster, file, default."""
    cluster = image.configs.get((RESOURCE_BROKER, ""), {})
    found: list[TopicSetting] = []
    for name, known in KNOWN.items():
        broker_name = BROKER_NAMES_OF_TOPIC_CONFIGS.get(name, name)
        if name in own:
            found.append(TopicSetting(name, own[name], SettingSource.TOPIC))
        elif broker_name in cluster:
            found.append(TopicSetting(name, cluster[broker_name], SettingSource.CLUSTER))
        elif name in topic_defaults:
            found.append(TopicSetting(name, topic_defaults[name], SettingSource.FILE))
        else:
            found.append(TopicSetting(name, shown(known.default), SettingSource.DEFAULT))
    return found


def shown(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)
