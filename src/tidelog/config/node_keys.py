"""Keys of the node itself: who it is, where it listens, its quorum, its metadata log."""

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

IDENTITY: tuple[BrokerKey, ...] = implemented(
    names(
        "process.roles",
        None,
        "What this process is: a broker, a controller, or both.",
        choices=("broker", "controller"),
    ),
    integer(
        "node.id",
        None,
        "The number of this node, unique in the cluster.",
        at_least=0,
        falls_back_to="broker.id",
    ),
    integer("broker.id", None, "The older name of node.id.", at_least=0),
    text(
        "broker.rack",
        None,
        "The rack of the broker; replicas are spread over racks and read from near ones.",
    ),
)

LISTENERS: tuple[BrokerKey, ...] = (
    *implemented(
        names(
            "listeners",
            ("PLAINTEXT://:9092",),
            "Addresses to listen on as NAME://host:port; no host means every interface.",
        ),
        names(
            "advertised.listeners",
            None,
            "Addresses that clients and other brokers use; listeners if not set.",
        ),
        text(
            "listener.security.protocol.map",
            "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
            "The security protocol of each listener, as NAME:PROTOCOL pairs.",
        ),
        text(
            "inter.broker.listener.name",
            None,
            "The listener over which brokers talk to each other.",
        ),
        names(
            "controller.listener.names",
            None,
            "The listeners that belong to the controller; brokers use the first to reach it.",
        ),
    ),
    *unsupported(
        names("early.start.listeners", None, "Listeners that open before the authorizer is ready."),
    ),
)

QUORUM: tuple[BrokerKey, ...] = (
    *implemented(
        names(
            "controller.quorum.voters",
            (),
            "The voters of a quorum that does not change, as id@host:port.",
        ),
        names(
            "controller.quorum.bootstrap.servers",
            (),
            "Addresses at which to find a quorum whose voters may change, as host:port.",
        ),
        duration(
            "controller.quorum.election.timeout.ms",
            1000,
            "How long a candidate waits for votes before it begins a new election.",
            at_least=1,
        ),
        duration(
            "controller.quorum.fetch.timeout.ms",
            2000,
            "How long a voter waits for an answer from the leader before an election.",
            at_least=1,
        ),
        duration(
            "controller.quorum.election.backoff.max.ms",
            1000,
            "The longest pause of a candidate after an election without a winner.",
            at_least=0,
        ),
        duration(
            "controller.quorum.request.timeout.ms",
            2000,
            "How long a request within the quorum may take before it is sent again.",
            at_least=1,
        ),
        duration(
            "controller.quorum.retry.backoff.ms",
            20,
            "The pause before a failed request within the quorum is sent again.",
            at_least=0,
        ),
    ),
    *without_effect(
        duration(
            "controller.quorum.append.linger.ms",
            25,
            "How long the quorum leader collects records before it writes them.",
            at_least=0,
        ),
        switch(
            "controller.quorum.auto.join.enable",
            False,
            "Whether a new controller makes itself a voter.",
        ),
    ),
)

METADATA: tuple[BrokerKey, ...] = (
    *implemented(
        text(
            "metadata.log.dir",
            None,
            "The directory of the metadata log; the first of log.dirs if not set.",
        ),
        duration(
            "metadata.max.idle.interval.ms",
            500,
            "How often an idle active controller writes an empty record; 0 never.",
            at_least=0,
        ),
    ),
    *without_effect(
        size(
            "metadata.log.max.record.bytes.between.snapshots",
            20 * 1024**2,
            "A snapshot is due when this much was committed after the last one.",
            at_least=1,
        ),
        duration(
            "metadata.log.max.snapshot.interval.ms",
            HOUR_MS,
            "A snapshot is due when the last one is older and something changed; 0 never.",
            at_least=0,
        ),
        size(
            "metadata.log.segment.bytes",
            1024**3,
            "The largest size of one file of the metadata log.",
            at_least=8 * 1024**2,
            at_most=INT32_MAX,
        ),
        duration(
            "metadata.log.segment.ms",
            7 * DAY_MS,
            "How long one file of the metadata log is written to.",
            at_least=1,
        ),
        size(
            "metadata.max.retention.bytes",
            100 * 1024**2,
            "Old snapshots and metadata are deleted beyond this size.",
            at_least=-1,
        ),
        duration(
            "metadata.max.retention.ms",
            7 * DAY_MS,
            "Old snapshots and metadata are deleted after this time.",
            at_least=-1,
        ),
    ),
)

LIFE: tuple[BrokerKey, ...] = (
    *implemented(
        duration(
            "broker.heartbeat.interval.ms",
            2000,
            "How often a broker tells the controller that it is alive.",
            at_least=1,
        ),
        duration(
            "broker.session.timeout.ms",
            9000,
            "A broker that is silent for this long is fenced.",
            at_least=1,
        ),
    ),
    *without_effect(
        duration(
            "initial.broker.registration.timeout.ms",
            60_000,
            "Kafka's broker exits if it cannot register in this time; Tidelog's keeps trying.",
            at_least=1,
        ),
        switch(
            "controlled.shutdown.enable",
            True,
            "Whether a broker hands its leaderships over before it stops.",
        ),
        integer(
            "background.threads",
            10,
            "Threads for background work in Kafka; Tidelog has one event loop.",
            at_least=1,
            live=True,
        ),
        integer(
            "num.io.threads",
            8,
            "Threads that handle requests in Kafka; Tidelog has one event loop.",
            at_least=1,
            live=True,
        ),
        integer(
            "num.network.threads",
            3,
            "Threads that read and write sockets in Kafka; Tidelog has one event loop.",
            at_least=1,
            live=True,
        ),
        names("metric.reporters", (), "Java classes that export metrics in Kafka."),
        integer("metrics.num.samples", 2, "Samples kept for each metric.", at_least=1),
        duration(
            "metrics.sample.window.ms", 30_000, "The time that one sample of a metric covers."
        ),
        text("metrics.recording.level", "INFO", "How detailed metrics are."),
    ),
    *unsupported(
        text(
            "zookeeper.connect",
            None,
            "The ZooKeeper of Kafka before 4; replaced by the metadata quorum.",
        ),
    ),
)

OURS: tuple[BrokerKey, ...] = (
    *implemented(
        text(
            "ack.durability",
            "fsync",
            "When a record counts as held: synced to disk, or written to the page cache.",
            choices=("fsync", "page-cache"),
            ours=True,
        ),
        switch(
            "eligible.leader.replicas.enable",
            True,
            "Whether a new cluster keeps eligible leader replicas (KIP-966).",
            ours=True,
        ),
        text(
            "tidelog.http.listener",
            None,
            "The address of /metrics, /events, /healthz and /state, as host:port (port 0 lets the"
            " system choose), nowhere if not set; https:// in front switches TLS on, http:// off;"
            " with neither, TLS is on for every address but loopback, if there is a key for it"
            " (listener.name.http.ssl.…, or ssl.…).",
            ours=True,
        ),
        switch(
            "tidelog.http.loopback.open",
            True,
            "Whether processes on a secured node's machine may read over HTTP without a login; set"
            " it to false if a proxy there forwards requests of others.",
            ours=True,
        ),
        text(
            "tidelog.insecure",
            None,
            "Accepts that anyone may reach a listener of this node without a login and do"
            " everything there; if not set, the node warns about it at startup.",
            choices=("accepted",),
            ours=True,
        ),
        switch(
            "tidelog.chaos.enable",
            False,
            "Whether /chaos may cut this node off and make requests fail, as `tidelog up` allows.",
            ours=True,
        ),
        switch(
            "tidelog.lab.enable",
            False,
            "Whether fetches of followers wait until /lab releases them, as with `tidelog up"
            " --lab`; nothing is replicated before.",
            ours=True,
        ),
        duration(
            "tidelog.group.disconnect.grace.ms",
            500,
            "A group member whose connection broke, and that then misses heartbeats, is checked"
            " once more after this time and removed if it is still silent; 0 waits for the end of"
            " its session, as Kafka does.",
            at_least=0,
            at_most=INT32_MAX,
            ours=True,
        ),
        size(
            "tidelog.disk.reserve.bytes",
            -1,
            "A log directory with less free space than this takes no records and hands its"
            " leaderships over; -1 is 1 % of the disk, at most 256 MiB, and 0 keeps no reserve.",
            at_least=-1,
            ours=True,
        ),
        size(
            "tidelog.scrub.bytes.per.second",
            1024**2,
            "How fast a broker reads through its logs in the background to find damaged batches"
            " and mend them from other replicas; 0 never.",
            at_least=0,
            ours=True,
        ),
        integer(
            "tidelog.metadata.snapshot.records",
            20_000,
            "A node writes a snapshot of the metadata when this many records were committed after"
            " the last one.",
            at_least=1,
            ours=True,
        ),
        switch(
            "tidelog.audit.topic.enable",
            True,
            "Whether a broker with an authorizer writes refusals and administrative changes into"
            " the topic __tidelog_audit.",
            ours=True,
        ),
        switch(
            "tidelog.events.topic.enable",
            False,
            "Whether a broker writes its node's events into the topic __tidelog_events, as"
            " brokers of `tidelog up` do.",
            ours=True,
        ),
    ),
    *without_effect(
        duration(
            "ack.durability.window.ms",
            5,
            "The longest time that appends wait to be synced together.",
            at_least=0,
            at_most=1000,
            ours=True,
        ),
    ),
)
