"""Keys of replication: new topics, in-sync replicas, fetchers, throttles, leader balance."""

from tidelog.config.key_types import (
    BrokerKey,
    duration,
    implemented,
    integer,
    long,
    size,
    switch,
    text,
    unsupported,
    without_effect,
)
from tidelog.core.metadata.topic_configs import INT32_MAX, INT64_MAX

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"

TOPICS: tuple[BrokerKey, ...] = (
    *implemented(
        integer(
            "num.partitions",
            1,
            "Partitions of a new topic that does not specify a number.",
            at_least=1,
        ),
        integer(
            "default.replication.factor",
            1,
            "Replicas of a partition if its topic does not specify a number.",
            at_least=1,
            at_most=2**15 - 1,
        ),
        integer(
            "min.insync.replicas",
            1,
            "Replicas that must be in sync for acks=all to be accepted and anything committed.",
            at_least=1,
            live=True,
            topic_name="min.insync.replicas",
        ),
        switch(
            "unclean.leader.election.enable",
            False,
            "Whether a replica that may lack committed records can lead if no other is left.",
            live=True,
            topic_name="unclean.leader.election.enable",
        ),
        duration(
            "unclean.leader.election.interval.ms",
            300_000,
            "How often the controller looks for partitions that need an unclean election.",
            at_least=1,
        ),
        switch(
            "auto.leader.rebalance.enable",
            True,
            "Whether leaderships return to the preferred replicas automatically.",
        ),
        duration(
            "leader.imbalance.check.interval.seconds",
            300,
            "How often the controller looks for leaderships away from their preferred replica.",
            at_least=1,
        ),
        integer(
            "leader.imbalance.per.broker.percentage",
            10,
            "The share of leaderships away from a broker above which they are moved back.",
            at_least=0,
        ),
    ),
    *implemented(
        switch("auto.create.topics.enable", True, "Whether asking for a topic creates it."),
    ),
    *without_effect(
        switch("delete.topic.enable", True, "Whether topics can be deleted."),
    ),
    *unsupported(
        text(
            "create.topic.policy.class.name", None, "A Java class that checks new topics in Kafka."
        ),
        text("alter.config.policy.class.name", None, "A Java class that checks settings in Kafka."),
    ),
)

FOLLOWERS: tuple[BrokerKey, ...] = (
    *implemented(
        duration(
            "replica.lag.time.max.ms",
            30_000,
            "A follower that has not caught up for this long leaves the in-sync replicas.",
            at_least=1,
        ),
        duration(
            "replica.fetch.backoff.ms",
            1000,
            "The pause of a follower after a failed fetch.",
            at_least=0,
        ),
        text(
            "replica.selector.class",
            None,
            "Which replica consumers read from: the leader, or one in their own rack.",
            choices=(LEADER_SELECTOR, RACK_AWARE_SELECTOR),
        ),
    ),
    *implemented(
        duration(
            "replica.fetch.wait.max.ms",
            500,
            "How long a follower's fetch waits at the leader for new records.",
            at_least=0,
            at_most=INT32_MAX,
        ),
        size(
            "replica.fetch.min.bytes",
            1,
            "The leader answers a follower early when it has this much.",
            at_least=0,
            at_most=INT32_MAX,
        ),
        size(
            "replica.fetch.max.bytes",
            1024**2,
            "How much of one partition a follower requests; a larger batch is sent alone.",
            at_least=0,
            at_most=INT32_MAX,
        ),
        size(
            "replica.fetch.response.max.bytes",
            10 * 1024**2,
            "How much of all partitions a follower requests; a larger batch is sent alone.",
            at_least=0,
            at_most=INT32_MAX,
        ),
        duration(
            "replica.socket.timeout.ms",
            30_000,
            "How long a follower waits for the answer to a fetch.",
            at_least=1,
        ),
        duration(
            "replica.high.watermark.checkpoint.interval.ms",
            5000,
            "How often the high watermarks are written to disk.",
            at_least=1,
        ),
        integer(
            "num.replica.fetchers",
            1,
            "Connections that a broker uses to fetch from each other broker.",
            at_least=1,
        ),
    ),
    *without_effect(
        size(
            "replica.socket.receive.buffer.bytes",
            64 * 1024,
            "The receive buffer of a follower's connection.",
            at_least=-1,
            at_most=INT32_MAX,
        ),
        duration(
            "controller.socket.timeout.ms",
            30_000,
            "How long a broker waits for an answer of the controller.",
            at_least=1,
        ),
        integer(
            "fetch.purgatory.purge.interval.requests",
            1000,
            "When Kafka forgets completed parked fetches; Tidelog forgets them immediately.",
        ),
        integer(
            "producer.purgatory.purge.interval.requests",
            1000,
            "When Kafka forgets completed parked produces; Tidelog forgets them immediately.",
        ),
        integer(
            "delete.records.purgatory.purge.interval.requests",
            1,
            "When Kafka forgets completed parked deletions; Tidelog forgets them immediately.",
        ),
    ),
)

THROTTLES: tuple[BrokerKey, ...] = (
    *implemented(
        long(
            "leader.replication.throttled.rate",
            INT64_MAX,
            "Bytes per second that leaders send to throttled followers.",
            at_least=0,
            live=True,
        ),
        long(
            "follower.replication.throttled.rate",
            INT64_MAX,
            "Bytes per second that throttled followers fetch.",
            at_least=0,
            live=True,
        ),
    ),
    *implemented(
        long(
            "replica.alter.log.dirs.io.max.bytes.per.second",
            INT64_MAX,
            "Bytes per second for moving replicas between the directories of a broker.",
            at_least=0,
            live=True,
        ),
    ),
    *without_effect(
        integer(
            "replication.quota.window.num", 11, "Samples kept to measure replication.", at_least=1
        ),
        duration(
            "replication.quota.window.size.seconds",
            1,
            "The time that one such sample covers.",
            at_least=1,
        ),
    ),
)
