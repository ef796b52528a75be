"""Keys of what clients meet: sockets, quotas, groups, transactions, security."""

from tidelog.config.key_types import (
    BrokerKey,
    duration,
    implemented,
    integer,
    names,
    size,
    switch,
    text,
    unsupported,
    without_effect,
)
from tidelog.core.metadata.topic_configs import DAY_MS, HOUR_MS, INT32_MAX

SHORT_MAX = 2**15 - 1
LEAST_SEGMENT_BYTES = 1024**2
"""As for every topic: with less, an internal topic could not be created."""

SOCKETS: tuple[BrokerKey, ...] = (
    *implemented(
        size(
            "socket.request.max.bytes",
            100 * 1024**2,
            "The largest request; a connection that announces more is closed.",
            at_least=1,
            at_most=INT32_MAX,
        ),
        duration(
            "connections.max.idle.ms",
            600_000,
            "A connection that is idle for this long is closed.",
            at_least=-1,
        ),
        integer(
            "max.connections",
            INT32_MAX,
            "Connections that the node accepts in total.",
            at_least=0,
        ),
        integer(
            "max.connections.per.ip",
            INT32_MAX,
            "Connections that the node accepts from one address.",
            at_least=0,
        ),
        integer(
            "max.incremental.fetch.session.cache.slots",
            1000,
            "Incremental fetch sessions that the node remembers.",
            at_least=0,
        ),
        size(
            "fetch.max.bytes",
            55 * 1024**2,
            "The largest answer to one fetch.",
            at_least=1024,
            at_most=INT32_MAX,
        ),
    ),
    *without_effect(
        size(
            "socket.send.buffer.bytes",
            100 * 1024,
            "The send buffer of a connection; -1 leaves it to the system.",
            at_least=-1,
            at_most=INT32_MAX,
        ),
        size(
            "socket.receive.buffer.bytes",
            100 * 1024,
            "The receive buffer of a connection; -1 leaves it to the system.",
            at_least=-1,
            at_most=INT32_MAX,
        ),
        integer(
            "socket.listen.backlog.size",
            50,
            "Connections that may wait to be accepted.",
            at_least=1,
        ),
        duration(
            "socket.connection.setup.timeout.ms",
            10_000,
            "How long the first attempt to connect to another node may take.",
            at_least=1,
        ),
        duration(
            "socket.connection.setup.timeout.max.ms",
            30_000,
            "How long later attempts to connect to another node may take.",
            at_least=1,
        ),
        integer(
            "queued.max.requests",
            500,
            "Requests in progress at which no more are read.",
            at_least=1,
        ),
        size(
            "queued.max.request.bytes",
            -1,
            "Bytes of requests in progress at which no more are read; -1 no limit.",
            at_least=-1,
        ),
        duration(
            "request.timeout.ms",
            30_000,
            "How long the node waits for answers of other nodes.",
            at_least=1,
        ),
        text(
            "max.connections.per.ip.overrides",
            "",
            "Other limits for some addresses, as address:number pairs.",
            live=True,
        ),
        integer(
            "max.connection.creation.rate",
            INT32_MAX,
            "New connections per second that the node accepts.",
            at_least=0,
            live=True,
        ),
        integer(
            "max.request.partition.size.limit",
            2000,
            "Partitions that one description of topics may contain.",
            at_least=1,
        ),
    ),
)

QUOTAS: tuple[BrokerKey, ...] = implemented(
    integer("quota.window.num", 11, "Samples kept to measure clients.", at_least=1),
    duration("quota.window.size.seconds", 1, "The time that one such sample covers.", at_least=1),
    integer(
        "controller.quota.window.num",
        11,
        "Samples kept to measure creations and deletions of partitions.",
        at_least=1,
    ),
    duration(
        "controller.quota.window.size.seconds",
        1,
        "The time that one such sample covers.",
        at_least=1,
    ),
)

OFFSETS: tuple[BrokerKey, ...] = (
    *implemented(
        integer(
            "offsets.topic.num.partitions", 50, "Partitions of the topic of offsets.", at_least=1
        ),
        integer(
            "offsets.topic.replication.factor",
            3,
            "Replicas of the topic of offsets.",
            at_least=1,
            at_most=SHORT_MAX,
        ),
        size(
            "offsets.topic.segment.bytes",
            100 * 1024**2,
            "The largest size of one file of the topic of offsets.",
            at_least=LEAST_SEGMENT_BYTES,
            at_most=INT32_MAX,
        ),
        duration(
            "offsets.retention.minutes",
            7 * 24 * 60,
            "How long offsets of a group without members are kept.",
            at_least=1,
            at_most=INT32_MAX,
        ),
        duration(
            "offsets.retention.check.interval.ms",
            600_000,
            "How often offsets are checked for expiry.",
            at_least=1,
        ),
        size(
            "offset.metadata.max.bytes",
            4096,
            "The longest metadata that a client may store with an offset.",
            at_least=0,
            at_most=INT32_MAX,
        ),
    ),
    *without_effect(
        integer(
            "offsets.topic.compression.codec",
            0,
            "The number of the compression of the topic of offsets; 0 none.",
            at_least=0,
            at_most=4,
        ),
        size(
            "offsets.load.buffer.size",
            5 * 1024**2,
            "How much is read at once when a coordinator loads offsets.",
            at_least=1,
            at_most=INT32_MAX,
        ),
        duration(
            "offsets.commit.timeout.ms",
            5000,
            "How long an offset commit waits for its replicas.",
            at_least=1,
        ),
    ),
)

GROUPS: tuple[BrokerKey, ...] = (
    *implemented(
        duration(
            "group.min.session.timeout.ms",
            6000,
            "The shortest session timeout that a member may ask for.",
            at_least=1,
        ),
        duration(
            "group.max.session.timeout.ms",
            1_800_000,
            "The longest session timeout that a member may ask for.",
            at_least=1,
        ),
        duration(
            "group.initial.rebalance.delay.ms",
            3000,
            "How long a new group waits for more members.",
            at_least=0,
        ),
        integer("group.max.size", INT32_MAX, "Members that a classic group may have.", at_least=1),
        duration(
            "group.consumer.session.timeout.ms",
            45_000,
            "A member of a consumer group that is silent for this long is removed.",
            at_least=1,
        ),
        duration(
            "group.consumer.heartbeat.interval.ms",
            5000,
            "How often members of a consumer group send heartbeats.",
            at_least=1,
        ),
        integer(
            "group.consumer.max.size",
            INT32_MAX,
            "Members that a consumer group may have.",
            at_least=1,
        ),
        names(
            "group.consumer.assignors",
            ("uniform", "range"),
            "How partitions are assigned to members, preferred assignor first.",
            choices=("uniform", "range"),
        ),
    ),
    *implemented(
        duration(
            "group.consumer.min.session.timeout.ms",
            45_000,
            "The shortest session timeout that a consumer group may set.",
            at_least=1,
        ),
        duration(
            "group.consumer.max.session.timeout.ms",
            60_000,
            "The longest session timeout that a consumer group may set.",
            at_least=1,
        ),
        duration(
            "group.consumer.min.heartbeat.interval.ms",
            5000,
            "The shortest heartbeat interval that a consumer group may set.",
            at_least=1,
        ),
        duration(
            "group.consumer.max.heartbeat.interval.ms",
            15_000,
            "The longest heartbeat interval that a consumer group may set.",
            at_least=1,
        ),
    ),
    *without_effect(
        names(
            "group.coordinator.rebalance.protocols",
            ("classic", "consumer", "streams"),
            "The group protocols that the broker offers.",
            choices=("classic", "consumer", "streams", "share"),
        ),
        integer("group.coordinator.threads", 4, "Threads of the coordinator in Kafka.", at_least=1),
        duration(
            "group.coordinator.append.linger.ms",
            5,
            "How long a coordinator collects records before it writes them.",
            at_least=-1,
        ),
        text(
            "group.consumer.migration.policy",
            "bidirectional",
            "Whether groups may change between the classic and the consumer protocol.",
            choices=("disabled", "upgrade", "downgrade", "bidirectional"),
        ),
    ),
)

SHARE_GROUPS: tuple[BrokerKey, ...] = without_effect(
    integer(
        "share.coordinator.state.topic.num.partitions",
        50,
        "Partitions of the topic of share groups (KIP-932).",
        at_least=1,
    ),
    integer(
        "share.coordinator.state.topic.replication.factor",
        3,
        "Replicas of the topic of share groups.",
        at_least=1,
        at_most=SHORT_MAX,
    ),
    integer(
        "share.coordinator.state.topic.min.isr",
        2,
        "The min.insync.replicas of the topic of share groups.",
        at_least=1,
        at_most=SHORT_MAX,
    ),
    size(
        "share.coordinator.state.topic.segment.bytes",
        100 * 1024**2,
        "The largest size of one file of the topic of share groups.",
        at_least=1,
        at_most=INT32_MAX,
    ),
)

TRANSACTIONS: tuple[BrokerKey, ...] = (
    *implemented(
        duration(
            "transactional.id.expiration.ms",
            7 * DAY_MS,
            "How long an unused transactional id is remembered.",
            at_least=1,
            at_most=INT32_MAX,
        ),
        duration(
            "transaction.max.timeout.ms",
            900_000,
            "The longest timeout that a transaction may ask for.",
            at_least=1,
            at_most=INT32_MAX,
        ),
        integer(
            "transaction.state.log.num.partitions",
            50,
            "Partitions of the topic of transactions.",
            at_least=1,
        ),
        integer(
            "transaction.state.log.replication.factor",
            3,
            "Replicas of the topic of transactions.",
            at_least=1,
            at_most=SHORT_MAX,
        ),
        integer(
            "transaction.state.log.min.isr",
            2,
            "The min.insync.replicas of the topic of transactions.",
            at_least=1,
        ),
        size(
            "transaction.state.log.segment.bytes",
            100 * 1024**2,
            "The largest size of one file of the topic of transactions.",
            at_least=LEAST_SEGMENT_BYTES,
            at_most=INT32_MAX,
        ),
        duration(
            "transaction.remove.expired.transaction.cleanup.interval.ms",
            HOUR_MS,
            "How often transactional ids are checked for expiry.",
            at_least=1,
        ),
    ),
    *implemented(
        duration(
            "producer.id.expiration.ms",
            DAY_MS,
            "How long the last sequences of a silent producer are remembered.",
            at_least=1,
            at_most=INT32_MAX,
            live=True,
        ),
    ),
    *without_effect(
        size(
            "transaction.state.log.load.buffer.size",
            5 * 1024**2,
            "How much is read at once when a coordinator loads transactions.",
            at_least=1,
            at_most=INT32_MAX,
        ),
        duration(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            10_000,
            "How often transactions are checked for timeouts.",
            at_least=1,
        ),
        switch(
            "transaction.partition.verification.enable",
            True,
            "Whether a leader asks the coordinator if a transaction is open (KIP-890).",
            live=True,
        ),
        switch(
            "transaction.two.phase.commit.enable",
            False,
            "Whether transactions without timeout are allowed (KIP-939).",
        ),
        duration(
            "producer.id.expiration.check.interval.ms",
            600_000,
            "How often producers are checked for expiry.",
            at_least=1,
        ),
    ),
)

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

AUTHORIZATION: tuple[BrokerKey, ...] = implemented(
    text(
        "authorizer.class.name",
        None,
        "The authorizer that checks access rules; without it everyone may do everything.",
        choices=(STANDARD_AUTHORIZER,),
    ),
    text("super.users", "", "Principals that no rule stops, as in User:admin;User:broker."),
    switch("allow.everyone.if.no.acl.found", False, "Whether resources without any rule are open."),
)

SECURITY: tuple[BrokerKey, ...] = unsupported(
    text("client.quota.callback.class", None, "A Java class that decides quotas in Kafka."),
)
