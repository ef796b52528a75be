"""IncrementalAlterConfigs: all changes of one request, or none (kraft.md §8.1).

`min.insync.replicas` is more than a number to remember: which replicas are eligible leaders
follows from it, so a new minimum comes with the partition changes it entails, in one batch
(elr.py tells why lowering puts them before the setting and raising behind it).
"""

import re
from typing import NamedTuple

from tidelog.core.errors import Error
from tidelog.core.metadata import partition_change
from tidelog.core.metadata.client_metrics_configs import check_client_metrics_config
from tidelog.core.metadata.contexts import Contexts, elr_enabled, min_insync_replicas
from tidelog.core.metadata.decision import Decision, View
from tidelog.core.metadata.group_configs import check_group, check_group_config
from tidelog.core.metadata.image import TopicState
from tidelog.core.metadata.records import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    Config,
    MetadataRecord,
    PartitionChange,
)
from tidelog.core.metadata.refusal import RefusedError
from tidelog.core.metadata.topic_configs import (
    KNOWN,
    MIN_INSYNC_REPLICAS,
    check_config,
    check_together,
    int_value,
)
from tidelog.core.requests import AdminResponse, AlterConfigRequest

CLUSTER_DEFAULT = ""
"""The name of the broker resource that holds for all brokers."""

BROKER_ID = re.compile(r"[0-9]{1,9}")


class ConfigError(RefusedError):
    """These settings cannot be made."""


class MinIsrChanges(NamedTuple):
    before: list[PartitionChange]
    behind: list[PartitionChange]


def decide_alter_config(view: View, request: AlterConfigRequest) -> Decision:
    try:
        check_resource(view, request)
        check_changes(view, request)
    except ConfigError as refused:
        return Decision(AdminResponse(refused.error, refused.reason))
    resource = (request.resource_type, request.resource_name)
    present = view.image.configs.get(resource, {})
    settings = [
        Config(*resource, name, value)
        for name, value in request.changes
        if present.get(name) != value
    ]
    changes = min_isr_changes(view, settings)
    records: tuple[MetadataRecord, ...] = (*changes.before, *settings, *changes.behind)
    limit = view.settings.max_records_per_batch
    if len(records) > limit:
        reason = (
            f"it takes {len(records)} records, {limit} fit into one batch: change topic by topic"
        )
        return Decision(AdminResponse(Error.POLICY_VIOLATION, reason))
    return Decision(AdminResponse(Error.NONE), () if request.validate_only else records)


def check_resource(view: View, request: AlterConfigRequest) -> None:
    name = request.resource_name
    if request.resource_type == RESOURCE_TOPIC:
        if name not in view.image.topic_ids:
            raise ConfigError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    elif request.resource_type == RESOURCE_BROKER:
        if name != CLUSTER_DEFAULT and BROKER_ID.fullmatch(name) is None:
            raise ConfigError(Error.INVALID_REQUEST, f"{name!r} is not a broker id")
    elif request.resource_type in (RESOURCE_GROUP, RESOURCE_CLIENT_METRICS):
        if not name:
            kind = "group" if request.resource_type == RESOURCE_GROUP else "subscription"
            raise ConfigError(Error.INVALID_REQUEST, f"no {kind} is named; there is no default one")
    else:
        raise ConfigError(
            Error.INVALID_REQUEST, f"resource type {request.resource_type} has no settings here"
        )


def check_changes(view: View, request: AlterConfigRequest) -> None:
    if len(dict(request.changes)) != len(request.changes):
        raise ConfigError(Error.INVALID_REQUEST, "a setting is named twice")
    for name, value in request.changes:
        reason = None if value is None else misfit(view, request.resource_type, name, value)
        if reason is not None:
            raise ConfigError(code_of_misfit(request.resource_type), reason)
        if request.resource_type == RESOURCE_BROKER:
            reason = forbidden_with_elr(view, request.resource_name, name, value)
        if reason is not None:
            raise ConfigError(Error.INVALID_CONFIG, reason)
    reason = misfit_together(view, request)
    if reason is not None:
        raise ConfigError(Error.INVALID_CONFIG, reason)


def code_of_misfit(resource_type: int) -> Error:
    """Kafka's brokers refuse their own settings with another code than those of topics, also the
    ones that cannot change while a broker runs (KAFKA-13609); tools look at the code."""
    return Error.INVALID_REQUEST if resource_type == RESOURCE_BROKER else Error.INVALID_CONFIG


def misfit(view: View, resource_type: int, name: str, value: str) -> str | None:
    if resource_type == RESOURCE_BROKER:
        return view.settings.check_broker_config(name, value)
    if resource_type == RESOURCE_GROUP:
        return check_group_config(name, value)
    if resource_type == RESOURCE_CLIENT_METRICS:
        return check_client_metrics_config(name, value)
    return check_config(name, value)


def misfit_together(view: View, request: AlterConfigRequest) -> str | None:
    if request.resource_type == RESOURCE_CLIENT_METRICS:
        return None
    values = values_after(view, request)
    if request.resource_type == RESOURCE_GROUP:
        return check_group(values, view.settings.group_limits)
    return check_together({name: value for name, value in values.items() if name in KNOWN})


def forbidden_with_elr(view: View, broker: str, name: str, value: str | None) -> str | None:
    """One minimum for the whole cluster, in the log: leader and controller must agree on it."""
    if name != MIN_INSYNC_REPLICAS or not elr_enabled(view.image):
        return None
    if broker != CLUSTER_DEFAULT:
        return f"with eligible leader replicas {name} cannot differ between brokers"
    if value is None:
        return f"with eligible leader replicas the cluster's {name} can be changed, not removed"
    return None


def values_after(view: View, request: AlterConfigRequest) -> dict[str, str]:
    values = dict(view.image.configs.get((request.resource_type, request.resource_name), {}))
    for name, value in request.changes:
        if value is None:
            values.pop(name, None)
        else:
            values[name] = value
    return values


def min_isr_changes(view: View, settings: list[Config]) -> MinIsrChanges:
    changes = MinIsrChanges([], [])
    for setting in settings:
        if setting.name == MIN_INSYNC_REPLICAS:
            for topic in affected_topics(view, setting):
                add_topic_changes(view, topic, setting, changes)
    return changes


def affected_topics(view: View, setting: Config) -> list[TopicState]:
    image = view.image
    if setting.resource_type == RESOURCE_TOPIC:
        return [image.topics[image.topic_ids[setting.resource_name]]]
    if setting.resource_name != CLUSTER_DEFAULT:
        return []
    return [
        topic
        for topic in image.topics.values()
        if MIN_INSYNC_REPLICAS not in image.configs.get((RESOURCE_TOPIC, topic.name), {})
    ]


def add_topic_changes(
    view: View, topic: TopicState, setting: Config, changes: MinIsrChanges
) -> None:
    previous = min_insync_replicas(view, topic.name)
    following = min_isr_after(view, setting)
    if following == previous:
        return
    context = Contexts(view).of_topic(topic.topic_id)._replace(min_insync_replicas=following)
    found = changes.behind if following > previous else changes.before
    for partition in topic.partitions.values():
        change = partition_change.after_min_isr_change(partition, previous, context)
        if change is not None:
            found.append(change)


def min_isr_after(view: View, setting: Config) -> int:
    """Removed from a topic, the cluster's holds; removed there, that of the settings file."""
    value = setting.value
    if value is None and setting.resource_type == RESOURCE_TOPIC:
        cluster = view.image.configs.get((RESOURCE_BROKER, CLUSTER_DEFAULT), {})
        value = cluster.get(MIN_INSYNC_REPLICAS)
    default = view.settings.min_insync_replicas
    return int_value(MIN_INSYNC_REPLICAS, value, default=default)
