"""The effective value of every setting, and all sources that can set it.

From strong to weak: the topic's own value, what was set for this broker while it runs, what was
set for all brokers, what the node was started with, the default. Values set while the cluster
runs are in the metadata image. Those of brokers may carry the broker's name of a setting
(`log.retention.ms`, as Kafka's tools write it) or the topic's (`retention.ms`).
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from tidelog.config import kafka_keys
from tidelog.config.broker_keys import BROKER_NAMES_OF_TOPIC_CONFIGS, KEYS, synonyms
from tidelog.config.key_types import BrokerKey, Kind
from tidelog.config.node_config import NodeConfig
from tidelog.config.settings import Settings
from tidelog.config.values import show_value
from tidelog.core.metadata import client_metrics_configs
from tidelog.core.metadata.group_configs import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.records import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from tidelog.core.metadata.topic_configs import KNOWN

CLUSTER_DEFAULT = ""
"""The name of the broker resource that holds for all brokers."""


class ConfigSource(IntEnum):
    """Who said it, with the numbers of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Said(NamedTuple):
    """What one place says about a setting, under the name it has there."""

    name: str
    value: str | None
    """None: nothing, and there is no default."""
    source: ConfigSource


def effective_topic(image: MetadataImage, config: NodeConfig, topic: str) -> Mapping[str, str]:
    """Every setting of a topic, known or not to exist: its value is what would hold for it."""
    values = dict(_topic_values_at_start(config.settings))
    for resource in (CLUSTER_DEFAULT, str(config.node_id)):
        for name, value in image.configs.get((RESOURCE_BROKER, resource), {}).items():
            topic_name = _topic_name(name)
            if topic_name is not None:
                values[topic_name] = value
    values.update(image.configs.get((RESOURCE_TOPIC, topic), {}))
    return values


def effective_broker(image: MetadataImage, config: NodeConfig, key: str) -> str | None:
    """The value of a broker key now; None if it has none. Secrets are not told."""
    return broker_layers(image, config, key)[0].value


def topic_layers(image: MetadataImage, config: NodeConfig, topic: str, name: str) -> list[Said]:
    """What is said about a topic's setting, the value in force first."""
    assert name in KNOWN, name
    layers = []
    own = image.configs.get((RESOURCE_TOPIC, topic), {}).get(name)
    if own is not None:
        layers.append(Said(name, own, ConfigSource.TOPIC))
    broker_name = BROKER_NAMES_OF_TOPIC_CONFIGS.get(name)
    if broker_name is None:
        return [*layers, Said(name, _default_of_topics(name), ConfigSource.DEFAULT)]
    return [*layers, *broker_layers(image, config, broker_name)]


def broker_layers(image: MetadataImage, config: NodeConfig, name: str) -> list[Said]:
    """What is said about a broker key, the value in force first. Never empty."""
    layers = []
    for resource, source in _live_resources(config):
        value = _dynamic(image, resource, KEYS[name])
        if value is not None:
            layers.append(Said(name, value, source))
    return [*layers, *_layers_at_start(config.settings, name)]


def only_kafkas_layers(image: MetadataImage, config: NodeConfig) -> dict[str, list[Said]]:
    """Kafka's keys that were set while the cluster runs, although nothing depends on them."""
    found: dict[str, list[Said]] = {}
    for resource, source in _live_resources(config):
        for name, value in image.configs.get((RESOURCE_BROKER, resource), {}).items():
            if name in kafka_keys.ALL:
                found.setdefault(name, []).append(Said(name, value, source))
    return found


def group_layers(image: MetadataImage, config: NodeConfig, group: str) -> dict[str, list[Said]]:
    """The settings of a consumer group, the value in force first."""
    own = image.configs.get((RESOURCE_GROUP, group), {})
    limits = config.group_limits()
    defaults = {
        SESSION_TIMEOUT_MS: limits.session_timeout_ms,
        HEARTBEAT_INTERVAL_MS: limits.heartbeat_interval_ms,
    }
    return {
        name: [
            *([Said(name, own[name], ConfigSource.GROUP)] if name in own else []),
            Said(name, str(default), ConfigSource.DEFAULT),
        ]
        for name, default in defaults.items()
    }


def client_metrics_layers(image: MetadataImage, name: str) -> dict[str, list[Said]]:
    """The settings of a subscription to client metrics; none if there is no such subscription."""
    own = image.configs.get((RESOURCE_CLIENT_METRICS, name))
    if own is None:
        return {}
    return {
        key: [Said(key, own[key], ConfigSource.CLIENT_METRICS)]
        if key in own
        else [Said(key, default, ConfigSource.DEFAULT)]
        for key, default in client_metrics_configs.DEFAULTS.items()
    }


def cluster_defaults(image: MetadataImage) -> Iterator[Said]:
    """What was set for all brokers, and nothing else."""
    for name, value in image.configs.get((RESOURCE_BROKER, CLUSTER_DEFAULT), {}).items():
        broker_name = name if name in KEYS else BROKER_NAMES_OF_TOPIC_CONFIGS.get(name, name)
        yield Said(broker_name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)


def is_secret(name: str) -> bool:
    """Whether a setting's value must not be told. One we do not know may be anything."""
    key = KEYS.get(name)
    if key is None and name in kafka_keys.ALL:
        return name in kafka_keys.SECRET
    return name not in KNOWN if key is None else key.kind is Kind.PASSWORD


def _live_resources(config: NodeConfig) -> tuple[tuple[str, ConfigSource], ...]:
    """Where values of this broker's keys may be set while it runs, the stronger first."""
    return (
        (str(config.node_id), ConfigSource.DYNAMIC_BROKER),
        (CLUSTER_DEFAULT, ConfigSource.DYNAMIC_DEFAULT_BROKER),
    )


def _dynamic(image: MetadataImage, resource: str, key: BrokerKey) -> str | None:
    values = image.configs.get((RESOURCE_BROKER, resource))
    if not values:
        return None
    value = values.get(key.name)
    if value is None and key.topic_name is not None:
        value = values.get(key.topic_name)
    return None if value is None or key.kind is Kind.PASSWORD else value


def _topic_name(name: str) -> str | None:
    """The topic's name of a setting that stands with a broker, if topics have it."""
    key = KEYS.get(name)
    if key is not None and key.topic_name is not None:
        return key.topic_name
    return name if name in BROKER_NAMES_OF_TOPIC_CONFIGS else None


@lru_cache(maxsize=64)
def _topic_values_at_start(settings: Settings) -> Mapping[str, str]:
    """A node's file is read once, so this is worked out once."""
    values = {}
    for name in KNOWN:
        broker_name = BROKER_NAMES_OF_TOPIC_CONFIGS.get(name)
        if broker_name is None:
            values[name] = _default_of_topics(name)
        else:
            value = settings.value(broker_name)
            assert value is not None, f"{broker_name} has no default"
            values[name] = show_value(KEYS[broker_name], value)
    return values


@lru_cache(maxsize=4096)
def _layers_at_start(settings: Settings, name: str) -> tuple[Said, ...]:
    """Coarser names of the same setting are heard too (`log.retention.hours`): each is shown
    with its own name and unit; what is in force comes first, in the unit of the key itself."""
    key = KEYS[name]
    if key.kind is Kind.PASSWORD:
        source = ConfigSource.STATIC_BROKER if settings.is_set(name) else ConfigSource.DEFAULT
        return (Said(name, None, source),)
    given = [
        Said(setting.name, show_value(KEYS[setting.name], value), ConfigSource.STATIC_BROKER)
        for setting, value in settings.given(name)
    ]
    defaults = [
        Said(each, show_value(KEYS[each], KEYS[each].default), ConfigSource.DEFAULT)
        for each in (name, *synonyms(key))
        if KEYS[each].default is not None
    ]
    heard = [*given, *defaults] or [Said(name, None, ConfigSource.DEFAULT)]
    value = settings.value(name)
    shown = None if value is None else show_value(key, value)
    return (Said(name, shown, heard[0].source), *heard[_repeats(heard[0], name) :])


def _repeats(first: Said, name: str) -> int:
    """1 if the first voice is the key itself: then the value in force is told already."""
    return 1 if first.name == name else 0


def _default_of_topics(name: str) -> str:
    default = KNOWN[name].default
    return str(default).lower() if isinstance(default, bool) else str(default)
