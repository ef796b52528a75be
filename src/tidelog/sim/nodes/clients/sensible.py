"""Requests that make sense, as a table: what tools and clients of any release ask for.

Most of them are about a topic and a group of the inspector's own, named `inspected`, so that
nobody else is harmed. A request is plain data; a version takes from it the fields that it has.
"""

from random import Random
from typing import Any, Final, NamedTuple

from tidelog.wire.protocol import Listener, Release, offered, request_class
from tidelog.wire.protocol.apis import API_BY_KEY
from tidelog.wire.protocol.message import Field, Message, Struct
from tidelog.wire.records.body import Record, encode

OWN: Final = "inspected"
CONTROLLER, LEADER, GROUP = "controller", "leader", "group"
"""Who is asked: a controller's listener, the leader of the first partition of the topic, or the
coordinator of the group. Otherwise any broker."""
TOPIC_RESOURCE, BROKER_RESOURCE, LOGGER_RESOURCE = 2, 4, 8
METRICS_RESOURCE, GROUP_RESOURCE = 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
SPARE: Final = 77
"""A broker that is registered for a moment and never runs."""
MANY_NAMES: Final = 12_000
"""As many as make a request that is decoded beside the loop."""
LONG_AGO_MS: Final = 1_700_000_000_000


class Drawn(NamedTuple):
    """One of these."""

    values: tuple[Any, ...]


class OwnTopicId(NamedTuple):
    """The id of the inspector's topic."""


def one_of(*values: Any) -> Drawn:
    return Drawn(values)


class Sensible(NamedTuple):
    key: int
    values: dict[str, Any]
    to: str | Drawn = ""


def message_of(
    kind: type[Message], version: int, values: dict[str, Any], entropy: Random, topic_id: bytes
) -> Message:
    """The request of this version, with what is left open drawn."""

    def struct(of: type[Struct], given: dict[str, Any]) -> dict[str, Any]:
        rows = [row for row in of.__fields__ if row.name in given and version in row.versions]
        return {row.name: value(row, given[row.name]) for row in rows}

    def value(row: Field, given: Any) -> Any:
        if isinstance(given, Drawn):
            return value(row, entropy.choice(given.values))
        if given is None and version not in row.nullable:
            return row.default
        if isinstance(given, OwnTopicId):
            return topic_id
        if isinstance(given, list):
            return [value(row, each) for each in given]
        if isinstance(given, dict) and isinstance(row.kind, type):
            return row.kind(**struct(row.kind, given))
        return given

    return kind(**struct(kind, values))


def draw_version(entropy: Random, key: int, listener: Listener) -> int:
    """One that this listener offers."""
    span, known = offered(API_BY_KEY[key], listener, Release.FULL), request_class(key)
    return entropy.randrange(max(span.first, known.__versions__.first), span.last + 1)


def draw_request(
    row: Sensible, topic_id: bytes, listener: Listener, entropy: Random
) -> tuple[Message, int]:
    version = draw_version(entropy, row.key, listener)
    return message_of(request_class(row.key), version, row.values, entropy, topic_id), version


def _batch(*records: tuple[int, bytes | None], **how: Any) -> bytes:
    """From times and keys."""
    return bytes(
        encode(
            [
                Record(offset, timestamp, key, b"inspected %d" % offset)
                for offset, (timestamp, key) in enumerate(records)
            ],
            **how,
        )
    )


GOOD: Final = _batch((LONG_AGO_MS, b"a"), (LONG_AGO_MS + 5, b"b"))
BATCHES: Final = one_of(
    GOOD,
    GOOD,
    _batch(*((LONG_AGO_MS, b"%d" % number) for number in range(40)), codec=1),
    _batch(*((LONG_AGO_MS, b"key" * 300) for _ in range(40)), codec=4),
    _batch((LONG_AGO_MS, None), (LONG_AGO_MS, b"b")),  # no key: not for a compacted topic
    _batch((1, b"a"), (LONG_AGO_MS * 3, b"b")),  # of no time that a strict topic takes
    _batch((LONG_AGO_MS, b"x" * 120_000)),
    _batch((LONG_AGO_MS, b"a"), producer_id=7, producer_epoch=0, base_sequence=0),
    _batch(
        *((LONG_AGO_MS, b"a"),),
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    ),
    GOOD[:-1] + b"!",
    GOOD[:40],
    GOOD + GOOD,
    None,
)
PARTITION: Final = one_of(0, 0, 1, 99)
TOPICS: Final = one_of(OWN, OWN, "tides", "__consumer_offsets", "nonsense", "no/name")
GROUPS: Final = one_of(OWN, OWN, "g0", "p0", "nonsense")
TIMEOUT_MS: Final = one_of(1, 5_000)
BOTH: Final = one_of(False, True)


def _config(resource: Any, name: Any, setting: Any, *values: Any) -> dict[str, Any]:
    """A resource with one setting, and what can be done to it."""
    operation = one_of(SET, SET, DELETE)
    configs = [{"name": setting, "value": one_of(*values), "config_operation": operation}]
    return {"resource_type": resource, "resource_name": name, "configs": configs}


CONFIGS: Final = one_of(
    _config(TOPIC_RESOURCE, OWN, "cleanup.policy", "compact", "delete"),
    _config(TOPIC_RESOURCE, OWN, "compression.type", "zstd", "gzip", "uncompressed", "nonsense"),
    _config(TOPIC_RESOURCE, OWN, "message.timestamp.type", "LogAppendTime", "CreateTime"),
    _config(TOPIC_RESOURCE, OWN, "message.timestamp.before.max.ms", "1000"),
    _config(TOPIC_RESOURCE, OWN, "message.timestamp.after.max.ms", "1000"),
    _config(TOPIC_RESOURCE, OWN, "max.message.bytes", "60", "100000"),
    _config(TOPIC_RESOURCE, OWN, "min.insync.replicas", "1", "2"),
    _config(TOPIC_RESOURCE, OWN, "leader.replication.throttled.replicas", "*", "0:1,1:2"),
    _config(TOPIC_RESOURCE, OWN, "follower.replication.throttled.replicas", "*", "0:2,1:1"),
    _config(BROKER_RESOURCE, one_of("", "1"), "leader.replication.throttled.rate", "20000"),
    _config(BROKER_RESOURCE, one_of("", "2"), "follower.replication.throttled.rate", "20000"),
    _config(BROKER_RESOURCE, "", "replica.alter.log.dirs.io.max.bytes.per.second", "50000"),
    _config(BROKER_RESOURCE, "", "log.segment.delete.delay.ms", "1000"),
    _config(METRICS_RESOURCE, OWN, "interval.ms", "1000"),
    _config(GROUP_RESOURCE, OWN, "consumer.session.timeout.ms", "3000"),
    _config(TOPIC_RESOURCE, "nonsense", "retention.ms", "1"),
    _config(one_of(3, 77), OWN, "retention.ms", "1"),
)
LISTS: Final = {
    "resource_type": TOPIC_RESOURCE,
    "resource_name": OWN,
    "configs": [
        {
            "name": "cleanup.policy",
            "value": one_of("compact", "delete"),
            "config_operation": one_of(APPEND, SUBTRACT),
        }
    ],
}
LOGGER: Final = {
    "resource_type": LOGGER_RESOURCE,
    "resource_name": one_of("1", "2", "3", "nonsense"),
    "configs": [
        {
            "name": one_of("root", "root", "nonsense"),
            "value": one_of("INFO", "INFO", "nonsense"),
            "config_operation": one_of(SET, SET, DELETE, APPEND),
        }
    ],
    "configuration_keys": ["nonsense"],
}
"""Nothing is changed or told: all simulated nodes share the loggers of one process."""
RESOURCE: Final = one_of(
    LOGGER,
    *(
        {
            "resource_type": kind,
            "resource_name": name,
            "configuration_keys": one_of(None, ["retention.ms", "cleanup.policy", "interval.ms"]),
        }
        for kind, name in (
            (TOPIC_RESOURCE, TOPICS),
            (BROKER_RESOURCE, one_of("", "1", "2", "nonsense")),
            (METRICS_RESOURCE, one_of(OWN, "")),
            (GROUP_RESOURCE, GROUPS),
        )
    ),
)
ASSIGNED: Final = {"partition_index": 0, "broker_ids": one_of([1], [2, 1], [77])}
NEW_TOPIC: Final = one_of(
    {
        "name": OWN,
        "num_partitions": 2,
        "replication_factor": one_of(-1, 1, 2),
        "configs": [{"name": "segment.ms", "value": one_of("1000", None)}],
    },
    {"name": OWN, "num_partitions": -1, "replication_factor": -1, "assignments": [ASSIGNED]},
    {"name": one_of(OWN, "", ".", "no/name"), "num_partitions": one_of(0, 1)},
)
PLACES: Final = [{"partition_index": PARTITION, "committed_offset": 1}]
OFFSETS: Final = {
    "partition_index": PARTITION,
    "timestamp": one_of(-7, -6, -5, -4, -3, -3, -2, -1, 1, LONG_AGO_MS + 1, LONG_AGO_MS * 3),
}
ACLS: Final = {
    "resource_type_filter": one_of(1, 2, 99),
    "resource_name_filter": one_of(None, OWN),
    "pattern_type_filter": one_of(1, 2, 3),
    "principal_filter": one_of(None, "User:stranger"),
    "operation": one_of(1, 2, 3),
    "permission_type": 1,
}
"""Of access rules, in clusters that have some."""
STRANGER: Final = one_of(-1, 99)
METADATA: Final = one_of(*["__cluster_metadata"] * 4, "nonsense")
CLUSTER: Final = one_of(None, "simulated", "simulated", "another")


def _of_quorum(key: int, asker: str) -> Sensible:
    """In the name of nobody, and of an epoch that is long over: it elects nobody, and deposes
    nobody."""
    partitions = [{"partition_index": one_of(0, 0, 0, 1), asker: STRANGER}]
    topics = [{"topic_name": METADATA, "partitions": partitions}]
    return Sensible(key, {"cluster_id": CLUSTER, "topics": topics}, CONTROLLER)


SPARE_REGISTERS: Final = Sensible(
    62,
    {
        "broker_id": SPARE,
        "cluster_id": "simulated",
        "incarnation_id": one_of(b"1" * 16, b"2" * 16),
        "log_dirs": [b"d" * 16],
        "listeners": [{"name": "PLAINTEXT", "host": "nowhere", "port": 9092}],
        "features": [
            {"name": "metadata.version", "min_supported_version": 1, "max_supported_version": 99}
        ],
    },
    CONTROLLER,
)
REQUESTS: Final = (
    Sensible(0, {"acks": one_of(-1, -1, 1, 2), "timeout_ms": TIMEOUT_MS,
                 "transactional_id": one_of(None, None, OWN),
                 "topic_data": [{"name": OWN, "topic_id": OwnTopicId(),
                                 "partition_data": [{"index": PARTITION, "records": BATCHES}]}]},
             LEADER),
    Sensible(1, {"max_wait_ms": one_of(0, 100), "min_bytes": 1, "isolation_level": one_of(0, 1),
                 "topics": [{"topic": OWN, "topic_id": OwnTopicId(), "partitions": [
                     {"partition": PARTITION, "fetch_offset": one_of(0, 1, 999),
                      "current_leader_epoch": one_of(-1, -1, 0, 999),
                      "last_fetched_epoch": one_of(-1, 0),
                      "partition_max_bytes": one_of(0, 10_000)}]}]}, LEADER),
    Sensible(2, {"replica_id": -1, "isolation_level": one_of(0, 1), "timeout_ms": 500,
                 "topics": [{"name": TOPICS, "partitions": [OFFSETS, OFFSETS]}]}, LEADER),
    Sensible(3, {"topics": one_of(None, [{"name": TOPICS}], [{"topic_id": OwnTopicId()}]),
                 "allow_auto_topic_creation": BOTH,
                 "include_topic_authorized_operations": BOTH,
                 "include_cluster_authorized_operations": BOTH}),
    Sensible(3, {"topics": [{"name": f"no/name-{number:06}"} for number in range(MANY_NAMES)]}),
    Sensible(8, {"group_id": OWN, "topics": [{"name": OWN, "topic_id": OwnTopicId(),
                                              "partitions": PLACES}]}, GROUP),
    Sensible(9, {"group_id": OWN, "require_stable": BOTH,
                 "topics": one_of(None, [{"name": OWN, "partition_indexes": [0, 99]}]),
                 "groups": [{"group_id": GROUPS, "topics": one_of(None, [
                     {"name": OWN, "topic_id": OwnTopicId(), "partition_indexes": [0, 99]}])}]},
             GROUP),
    Sensible(10, {"key": OWN, "key_type": one_of(0, 1), "coordinator_keys": [OWN, "", "t0"]}),
    Sensible(15, {"groups": [GROUPS], "include_authorized_operations": BOTH}, GROUP),
    Sensible(16, {"states_filter": one_of([], ["Stable", "empty"]),
                  "types_filter": one_of([], ["classic"], ["nonsense"])}),
    Sensible(19, {"topics": one_of([NEW_TOPIC], [NEW_TOPIC, NEW_TOPIC]),
                  "timeout_ms": TIMEOUT_MS, "validate_only": BOTH}, one_of("", CONTROLLER)),
    Sensible(20, {"topics": [one_of({"name": OWN}, {"topic_id": OwnTopicId()},
                                    {"name": "both", "topic_id": OwnTopicId()}, {})],
                  "topic_names": one_of([OWN], [OWN, OWN]), "timeout_ms": TIMEOUT_MS}),
    Sensible(21, {"timeout_ms": TIMEOUT_MS, "topics": [
        {"name": OWN, "partitions": [{"partition_index": PARTITION,
                                      "offset": one_of(-1, 0, 1, 999)}]}]}, LEADER),
    Sensible(23, {"topics": [{"topic": TOPICS, "partitions": [
        {"partition": PARTITION, "leader_epoch": one_of(0, 1),
         "current_leader_epoch": one_of(-1, 0, 999)}]}]}, LEADER),
    Sensible(29, ACLS),
    Sensible(30, {"creations": [
        {"resource_type": one_of(2, 2, 3, 4, 5, 99), "resource_name": one_of(OWN, OWN, "*", "in"),
         "resource_pattern_type": one_of(3, 3, 4), "principal": one_of("User:stranger", "nonsense"),
         "host": "*", "operation": one_of(2, 2, 3, 4, 8), "permission_type": one_of(3, 3, 2)}]}),
    Sensible(31, {"filters": [ACLS]}),
    Sensible(32, {"resources": [RESOURCE, RESOURCE], "include_synonyms": BOTH,
                  "include_documentation": BOTH}),
    Sensible(33, {"resources": one_of([CONFIGS], [CONFIGS, CONFIGS]), "validate_only": BOTH},
             one_of("", CONTROLLER)),
    Sensible(34, {"dirs": [{"path": one_of("/data", "/more", "/more", "/nowhere"),
                            "topics": [{"name": one_of(OWN, "tides", "nonsense"),
                                        "partitions": [0, 1]}]}]}),
    Sensible(34, {"dirs": [{"path": one_of("/data", "/more"),
                            "topics": [{"name": one_of(OWN, "tides", "__consumer_offsets"),
                                        "partitions": [0, 1, 2]}]}]}),
    Sensible(35, {"topics": one_of(None, [{"topic": OWN, "partitions": [0, 1]}])}),
    Sensible(37, {"topics": [{"name": OWN, "count": one_of(2, 3, 4),
                              "assignments": one_of(None, [{"broker_ids": [1]}])}],
                  "timeout_ms": TIMEOUT_MS, "validate_only": BOTH}),
    Sensible(42, {"groups_names": [OWN, "nonsense"]}, GROUP),
    Sensible(43, {"election_type": one_of(0, 0, 1),
                  "topic_partitions": [{"topic": OWN, "partitions": [0, 99]}],
                  "timeout_ms": TIMEOUT_MS}),
    Sensible(44, {"resources": one_of([CONFIGS], [CONFIGS, LISTS], [LISTS], [CONFIGS] * 2),
                  "validate_only": one_of(False, False, True)}, one_of("", CONTROLLER)),
    Sensible(44, {"resources": one_of([LOGGER], [LOGGER, CONFIGS]), "validate_only": True}),
    Sensible(45, {"timeout_ms": TIMEOUT_MS, "topics": [{"name": OWN, "partitions": [
        {"partition_index": PARTITION,
         "replicas": one_of(None, [1], [2, 3], [3, 1], [1, 1], [])}]}]}),
    Sensible(46, {"topics": one_of(None, [{"name": OWN, "partition_indexes": [0, 1]}])}),
    Sensible(47, {"group_id": OWN, "topics": [
        {"name": OWN, "partitions": [{"partition_index": PARTITION}]}]}, GROUP),
    Sensible(48, {"strict": BOTH, "components": [
        {"entity_type": one_of("user", "client-id", "nonsense"),
         "match_type": one_of(0, 1, 2), "match": one_of(OWN, None)}]}),
    Sensible(49, {"validate_only": BOTH, "entries": [
        {"entity": [{"entity_type": one_of("client-id", "nonsense"), "entity_name": OWN}],
         "ops": [{"key": one_of("consumer_byte_rate", "nonsense"), "value": 1e6,
                  "remove": BOTH}]}]}, one_of("", CONTROLLER)),
    Sensible(50, {"users": one_of(None, [{"name": OWN}, {"name": "nobody"}])}),
    Sensible(51, {"deletions": one_of([], [{"name": one_of(OWN, "nobody"), "mechanism": 2}]),
                  "upsertions": one_of([], [
                      {"name": one_of(OWN, ""), "mechanism": one_of(1, 2, 9),
                       "iterations": one_of(4096, 1), "salt": b"salt",
                       "salted_password": b"p" * 32}])}, one_of("", CONTROLLER)),
    Sensible(55, {"topics": [{"topic_name": one_of("__cluster_metadata", "nonsense"),
                              "partitions": [{"partition_index": 0}]}]}, one_of("", CONTROLLER)),
    Sensible(57, {"timeout_ms": TIMEOUT_MS, "validate_only": BOTH,
                  "feature_updates": one_of([], *([
                      {"feature": one_of("transaction.version", "group.version", "nonsense",
                                         "eligible.leader.replicas.version", "metadata.version"),
                       "max_version_level": level, "upgrade_type": kind, "allow_downgrade": True}]
                      for level in (0, 1, 2, 99) for kind in (1, 2, 3, 9)))},
             one_of("", CONTROLLER)),
    Sensible(60, {"endpoint_type": one_of(1, 2, 3), "include_fenced_brokers": BOTH},
             one_of("", CONTROLLER)),
    Sensible(61, {"topics": [{"name": OWN, "partition_indexes": [0, 99]}]}, LEADER),
    Sensible(62, {"broker_id": SPARE, "cluster_id": "another"}, CONTROLLER),
    Sensible(63, {"broker_id": one_of(SPARE, 99), "broker_epoch": one_of(-1, 1),
                  "want_fence": True}, CONTROLLER),
    Sensible(64, {"broker_id": one_of(SPARE, 99)}, one_of("", CONTROLLER)),
    Sensible(66, {"state_filters": one_of([], ["Ongoing"], ["nonsense"]),
                  "transactional_id_pattern": one_of(None, "t.*", "(")}),
    Sensible(68, {"group_id": one_of("watchers", "watchers", ""), "member_epoch": one_of(0, 0, -1),
                  "member_id": one_of("watcher", "watcher", ""), "rebalance_timeout_ms": 1_000,
                  "subscribed_topic_names": one_of(None, [OWN]),
                  "subscribed_topic_regex": one_of(None, "insp.*", "("),
                  "topic_partitions": []}, GROUP),
    Sensible(74, {"resource_types": one_of([], [2, 4, 16, 32], [77])}),
    Sensible(75, {"topics": one_of([], [{"name": TOPICS}, {"name": OWN}]),
                  "response_partition_limit": one_of(0, 1, 3),
                  "cursor": one_of(None, {"topic_name": OWN, "partition_index": one_of(0, -1)})}),
    _of_quorum(52, "replica_id"),
    _of_quorum(53, "leader_id"),
    _of_quorum(54, "leader_id"),
    Sensible(59, {"cluster_id": CLUSTER, "replica_id": STRANGER, "topics": [
        {"name": METADATA, "partitions": [{"partition": one_of(0, 0, 1), "snapshot_id": {}}]}]},
             CONTROLLER),
    Sensible(1, {"cluster_id": CLUSTER, "max_wait_ms": 100, "replica_id": STRANGER,
                 "replica_state": {"replica_id": STRANGER},
                 "topics": [{"topic": METADATA, "topic_id": one_of(bytes(15) + b"\1", bytes(16)),
                             "partitions": [{"partition": 0}]}]}, CONTROLLER),
)  # fmt: skip

TOGETHER: Final = (
    Sensible(0, {"acks": 1, "timeout_ms": 1_000, "topic_data": [
        {"name": OWN, "topic_id": OwnTopicId(),
         "partition_data": [{"index": 0, "records": GOOD}]}]}),
    Sensible(2, {"replica_id": -1, "timeout_ms": 500, "topics": [
        {"name": OWN, "partitions": [{"partition_index": 0, "timestamp": -1}]}]}),
)  # fmt: skip
"""A write, and the question that follows on its heels: both go to the leader."""
