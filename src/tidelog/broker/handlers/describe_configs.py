"""DescribeConfigs (API 32, v1–4): every setting of topics, brokers, groups, subscriptions to client
metrics and loggers, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.answers import loggers
from tidelog.broker.answers.effective_config import (
    CLUSTER_DEFAULT,
    ConfigSource,
    Said,
    broker_layers,
    client_metrics_layers,
    cluster_defaults,
    group_layers,
    is_secret,
    only_kafkas_layers,
    topic_layers,
)
from tidelog.broker.control.caught_up import caught_up
from tidelog.config.broker_keys import BROKER_NAMES_OF_TOPIC_CONFIGS, KEYS
from tidelog.config.key_types import Kind
from tidelog.config.live_keys import can_change
from tidelog.core.errors import Error
from tidelog.core.metadata import client_metrics_configs
from tidelog.core.metadata.group_configs import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS
from tidelog.core.metadata.records import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from tidelog.core.metadata.topic_configs import (
    FOLLOWER_THROTTLED_REPLICAS,
    KNOWN,
    LEADER_THROTTLED_REPLICAS,
)
from tidelog.core.metadata.topic_names import check_topic_name
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tidelog.wire.protocol.schemas.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.config.node_config import NodeConfig
    from tidelog.host.node_host import NodeHost

UNKNOWN_TYPE = 0
LIST_TYPE = 7
TYPES = {
    Kind.BOOL: 1,
    Kind.STRING: 2,
    Kind.INT: 3,
    Kind.LONG: 5,
    Kind.DURATION: 5,
    Kind.BYTES: 5,
    Kind.DOUBLE: 6,
    Kind.LIST: LIST_TYPE,
    Kind.PASSWORD: 9,
}
"""Kafka's numbers for the types of settings."""

MEANINGS = {
    LEADER_THROTTLED_REPLICAS: "Replicas whose followers are sent no more than the leader's"
    " throttled rate: partition:parts,… or * for all.",
    FOLLOWER_THROTTLED_REPLICAS: "Replicas that fetch no faster than the follower's throttled"
    " rate: partition:parts,… or * for all.",
    SESSION_TIMEOUT_MS: "How long a member of this group may be silent.",
    HEARTBEAT_INTERVAL_MS: "How often a member of this group says that it is alive.",
    client_metrics_configs.INTERVAL_MS: "How often clients would send metrics; none are collected.",
    client_metrics_configs.METRICS: "Prefixes of the names of the metrics that are wanted.",
    client_metrics_configs.MATCH: "The clients that are meant, as name=pattern,…",
}
"""Of settings that brokers do not have."""

OTHER_TYPES = {
    SESSION_TIMEOUT_MS: Kind.INT,
    HEARTBEAT_INTERVAL_MS: Kind.INT,
    client_metrics_configs.INTERVAL_MS: Kind.INT,
    client_metrics_configs.METRICS: Kind.LIST,
    client_metrics_configs.MATCH: Kind.LIST,
}

RESOURCE_BROKER_LOGGER = 8
"""Its settings are not stored, so the controller does not know it."""


NEW_TOPIC_MS = 250
"""Brokers learn of a new topic within milliseconds of each other."""


class Shown(NamedTuple):
    """How much a client wants to see."""

    keys: frozenset[str] | None
    synonyms: bool
    documentation: bool


class RefusedResourceError(Exception):
    """There are no settings to describe."""

    def __init__(self, error: Error, reason: str) -> None:
        super().__init__(reason)
        self.error = error


class Parts(NamedTuple):
    """What this handler uses."""

    metadata: LocalMetadata
    config: NodeConfig
    host: NodeHost


def handle(parts: Parts, call: Call) -> None:
    request = call.request
    assert isinstance(request, DescribeConfigsRequest), request
    if knows_topics(parts, request):
        answer(parts, call, request)
    else:
        call.run(answer_later(parts, call, request))


def knows_topics(parts: Parts, request: DescribeConfigsRequest) -> bool:
    known = parts.metadata.image.topic_ids
    return all(
        each.resource_name in known or check_topic_name(each.resource_name) is not None
        for each in request.resources
        if each.resource_type == RESOURCE_TOPIC
    )


async def answer_later(parts: Parts, call: Call, request: DescribeConfigsRequest) -> None:
    """Another broker may just have told the client that the topic is there."""
    await caught_up(
        parts.metadata, parts.host.timers, lambda: knows_topics(parts, request), NEW_TOPIC_MS
    )
    answer(parts, call, request)


def answer(parts: Parts, call: Call, request: DescribeConfigsRequest) -> None:
    results = []
    for resource in request.resources:
        # Clients that filter nothing send null, or, as librdkafka did, an empty list.
        keys = frozenset(resource.configuration_keys or ()) or None
        shown = Shown(keys, request.include_synonyms, request.include_documentation)
        results.append(describe(parts, resource, shown))
    call.answer(DescribeConfigsResponse(results=results))


def describe(
    parts: Parts, resource: DescribeConfigsResource, shown: Shown
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        if resource.resource_type == RESOURCE_TOPIC:
            result.configs = topic_settings(parts, resource.resource_name, shown)
        elif resource.resource_type == RESOURCE_BROKER:
            result.configs = broker_settings(parts, resource.resource_name, shown)
        elif resource.resource_type == RESOURCE_BROKER_LOGGER:
            result.configs = logger_levels(parts, resource.resource_name, shown)
        elif resource.resource_type == RESOURCE_CLIENT_METRICS:
            layers = client_metrics_layers(parts.metadata.image, named(resource, "subscription"))
            result.configs = entries(layers, shown)
        elif resource.resource_type == RESOURCE_GROUP:
            layers = group_layers(parts.metadata.image, parts.config, named(resource, "group"))
            result.configs = entries(layers, shown)
        else:
            reason = f"resource type {resource.resource_type} has no settings here"
            raise RefusedResourceError(Error.INVALID_REQUEST, reason)
    except RefusedResourceError as refused:
        result.error_code = refused.error
        result.error_message = str(refused)
    return result


def topic_settings(
    parts: Parts, topic: str, shown: Shown
) -> Sequence[DescribeConfigsResourceResult]:
    if topic not in parts.metadata.image.topic_ids:
        reason = check_topic_name(topic)
        if reason is not None:
            raise RefusedResourceError(Error.INVALID_TOPIC_EXCEPTION, reason)
        raise RefusedResourceError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}")
    return [
        entry(name, topic_layers(parts.metadata.image, parts.config, topic, name), shown)
        for name in wanted(KNOWN, shown)
    ]


def broker_settings(
    parts: Parts, name: str, shown: Shown
) -> Sequence[DescribeConfigsResourceResult]:
    if name == CLUSTER_DEFAULT:
        said = {each.name: each for each in cluster_defaults(parts.metadata.image)}
        return [entry(key, [said[key]], shown) for key in wanted(sorted(said), shown)]
    own_id = parts.metadata.own_id
    if name != str(own_id):
        reason = f"broker {own_id} knows its own settings and the cluster's, not those of {name}"
        raise RefusedResourceError(Error.INVALID_REQUEST, reason)
    image, config = parts.metadata.image, parts.config
    layers = only_kafkas_layers(image, config)
    return [
        entry(key, layers.get(key) or broker_layers(image, config, key), shown, of_broker=True)
        for key in wanted([*KEYS, *layers], shown)
    ]


def logger_levels(parts: Parts, name: str, shown: Shown) -> Sequence[DescribeConfigsResourceResult]:
    if name != str(parts.metadata.own_id):
        reason = f"broker {parts.metadata.own_id} knows its own loggers, not those of {name!r}"
        raise RefusedResourceError(Error.INVALID_REQUEST, reason)
    levels = loggers.levels()
    return [
        DescribeConfigsResourceResult(
            name=each,
            value=levels[each],
            config_source=ConfigSource.BROKER_LOGGER,
            config_type=TYPES[Kind.STRING],
        )
        for each in wanted(levels, shown)
    ]


def named(resource: DescribeConfigsResource, kind: str) -> str:
    if not resource.resource_name:
        raise RefusedResourceError(Error.INVALID_REQUEST, f"no {kind} is named")
    return resource.resource_name


def entries(
    layers: Mapping[str, Sequence[Said]], shown: Shown
) -> Sequence[DescribeConfigsResourceResult]:
    """Settings that neither topics nor brokers have."""
    return [
        DescribeConfigsResourceResult(
            name=name,
            value=layers[name][0].value,
            config_source=layers[name][0].source,
            synonyms=[
                DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source)
                for each in layers[name]
            ]
            if shown.synonyms
            else (),
            config_type=TYPES[OTHER_TYPES[name]],
            documentation=MEANINGS[name] if shown.documentation else None,
        )
        for name in wanted(layers, shown)
    ]


def wanted(names: Iterable[str], shown: Shown) -> list[str]:
    return [name for name in names if shown.keys is None or name in shown.keys]


def entry(
    name: str, layers: Sequence[Said], shown: Shown, *, of_broker: bool = False
) -> DescribeConfigsResourceResult:
    in_force = layers[0]
    broker_name = BROKER_NAMES_OF_TOPIC_CONFIGS.get(name, name)
    key = KEYS.get(name) or KEYS.get(broker_name)
    secret = is_secret(name)
    synonyms = [
        DescribeConfigsSynonym(
            name=each.name, value=None if secret else each.value, source=each.source
        )
        for each in layers
    ]
    return DescribeConfigsResourceResult(
        name=name,
        value=None if secret else in_force.value,
        read_only=of_broker and not can_change(name),
        config_source=in_force.source,
        is_sensitive=secret,
        synonyms=synonyms if shown.synonyms else (),
        config_type=TYPES[key.kind] if key is not None else _type_of_topics(name),
        documentation=_meaning(name, broker_name) if shown.documentation else None,
    )


def _type_of_topics(name: str) -> int:
    """Lists of replicas are the settings that only topics have."""
    return LIST_TYPE if name in MEANINGS else UNKNOWN_TYPE


def _meaning(name: str, broker_name: str) -> str | None:
    key = KEYS.get(broker_name)
    return key.meaning if key is not None else MEANINGS.get(name)
