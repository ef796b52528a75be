"""Which value of a setting is in force, and who else has a say in it."""

from pathlib import Path

from support.broker_config import node_config
from tidelog.broker.answers.effective_config import (
    ConfigSource,
    Said,
    broker_layers,
    cluster_defaults,
    effective_broker,
    effective_topic,
    is_secret,
    topic_layers,
)
from tidelog.config.broker_keys import KEYS
from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.replay import replay
from tidelog.core.metadata.topic_configs import KNOWN, check_config

TOPIC = "orders"


def image(*configs: tuple[int, str, str, str]) -> MetadataImage:
    made = MetadataImage()
    replay(made, r.Topic(TOPIC, b"t" * 16))
    for config in configs:
        replay(made, r.Config(*config))
    return made


def test_every_setting_of_a_topic_has_a_value_that_a_topic_could_have() -> None:
    values = effective_topic(image(), node_config([Path("d")]), TOPIC)
    assert values.keys() == KNOWN.keys()
    assert [name for name, value in values.items() if check_config(name, value)] == []


def test_the_nearest_word_counts() -> None:
    config = node_config([Path("d")], log_retention_hours="2")
    words = [
        (r.RESOURCE_BROKER, "", "retention.ms", "3000"),
        (r.RESOURCE_BROKER, "1", "log.retention.ms", "4000"),
        (r.RESOURCE_TOPIC, TOPIC, "retention.ms", "5000"),
    ]
    seen = [
        effective_topic(image(*words[:count]), config, TOPIC)["retention.ms"] for count in range(4)
    ]
    assert seen == ["7200000", "3000", "4000", "5000"]


def test_what_was_said_about_another_broker_does_not_count() -> None:
    made = image((r.RESOURCE_BROKER, "2", "log.retention.ms", "4000"))
    config = node_config([Path("d")])
    assert effective_topic(made, config, TOPIC)["retention.ms"] == "604800000"
    assert effective_broker(made, config, "log.retention.ms") == "604800000"


def test_all_who_have_a_say_are_listed_with_what_is_in_force_first() -> None:
    made = image(
        (r.RESOURCE_TOPIC, TOPIC, "retention.ms", "5000"),
        (r.RESOURCE_BROKER, "", "log.retention.ms", "3000"),
    )
    config = node_config([Path("d")], log_retention_hours="2")
    assert topic_layers(made, config, TOPIC, "retention.ms") == [
        Said("retention.ms", "5000", ConfigSource.TOPIC),
        Said("log.retention.ms", "3000", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        Said("log.retention.ms", "7200000", ConfigSource.STATIC_BROKER),
        Said("log.retention.hours", "2", ConfigSource.STATIC_BROKER),
        Said("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]


def test_a_setting_that_only_topics_have_falls_back_to_its_default() -> None:
    name = "leader.replication.throttled.replicas"
    assert topic_layers(image(), node_config([Path("d")]), TOPIC, name) == [
        Said(name, "", ConfigSource.DEFAULT)
    ]


def test_the_value_in_force_is_the_same_in_both_views_of_every_setting() -> None:
    made = image((r.RESOURCE_BROKER, "", "min.insync.replicas", "2"))
    config = node_config([Path("d")], log_segment_bytes="2097152", log_roll_hours="3")
    values = effective_topic(made, config, TOPIC)
    for name in KNOWN:
        assert topic_layers(made, config, TOPIC, name)[0].value == values[name]


def test_every_key_of_a_broker_can_be_told_and_no_secret_is() -> None:
    made = image((r.RESOURCE_BROKER, "1", "ssl.key.password", "hunter2"))
    config = node_config([Path("d")])
    for name in KEYS:
        layers = broker_layers(made, config, name)
        assert layers, name
        if is_secret(name):
            assert {each.value for each in layers} == {None}
    assert is_secret("ssl.key.password")
    assert is_secret("no.such.key")
    assert not is_secret("retention.ms")


def test_settings_of_all_brokers_are_told_under_the_brokers_name() -> None:
    made = image((r.RESOURCE_BROKER, "", "retention.ms", "3000"))
    assert list(cluster_defaults(made)) == [
        Said("log.retention.ms", "3000", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    ]
