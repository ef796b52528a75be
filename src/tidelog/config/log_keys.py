"""Keys of logs: directories, segments, retention, flushing, compaction, records."""

from tidelog.config.key_types import (
    BrokerKey,
    double,
    duration,
    implemented,
    integer,
    long,
    names,
    size,
    switch,
    text,
    unsupported,
    without_effect,
)
from tidelog.core.metadata.topic_configs import DAY_MS, HOUR_MS, INT32_MAX, INT64_MAX

DIRECTORIES: tuple[BrokerKey, ...] = (
    *implemented(
        names(
            "log.dirs",
            None,
            "The directories that hold the logs, separated by commas.",
            falls_back_to="log.dir",
        ),
        # Kafka falls back to a directory that a reboot may empty; we ask for one.
        text("log.dir", None, "The directory of the logs if log.dirs is not set."),
    ),
    *without_effect(
        duration(
            "log.dir.failure.timeout.ms",
            30_000,
            "A broker that cannot report a failed directory for this long stops.",
            at_least=1,
        ),
        integer(
            "num.recovery.threads.per.data.dir",
            2,
            "Logs of one directory that are recovered at the same time.",
            at_least=1,
            live=True,
        ),
        duration("log.initial.task.delay.ms", 30_000, "When background work on logs begins."),
    ),
)

SEGMENTS: tuple[BrokerKey, ...] = (
    *implemented(
        size(
            "log.segment.bytes",
            1024**3,
            "The largest size of one file of a log.",
            at_least=1024**2,
            at_most=INT32_MAX,
            live=True,
            topic_name="segment.bytes",
        ),
        duration(
            "log.roll.ms",
            None,
            "How long one file of a log is written to.",
            at_least=1,
            live=True,
            topic_name="segment.ms",
            falls_back_to="log.roll.hours",
        ),
        duration(
            "log.roll.hours",
            168,
            "How long one file of a log is written to, in hours.",
            at_least=1,
            at_most=INT32_MAX,
        ),
        duration(
            "log.roll.jitter.ms",
            None,
            "By how much, at random, a file may end earlier, so that not all end together.",
            at_least=0,
            live=True,
            topic_name="segment.jitter.ms",
            falls_back_to="log.roll.jitter.hours",
        ),
        duration(
            "log.roll.jitter.hours",
            0,
            "By how much, at random, a file may end earlier, in hours.",
            at_least=0,
            at_most=INT32_MAX,
        ),
        size(
            "log.index.interval.bytes",
            4096,
            "The number of log bytes between two entries of its index.",
            at_least=0,
            at_most=INT32_MAX,
            live=True,
            topic_name="index.interval.bytes",
        ),
        size(
            "log.index.size.max.bytes",
            10 * 1024**2,
            "The largest size of an index file.",
            at_least=4,
            at_most=INT32_MAX,
            live=True,
            topic_name="segment.index.bytes",
        ),
        duration(
            "log.segment.delete.delay.ms",
            60_000,
            "How long a deleted file stays, for readers that still use it.",
            at_least=0,
            live=True,
            topic_name="file.delete.delay.ms",
        ),
    ),
    *without_effect(
        switch(
            "log.preallocate",
            False,
            "Whether the space of a new file is allocated in advance.",
            live=True,
            topic_name="preallocate",
        ),
    ),
)

RETENTION: tuple[BrokerKey, ...] = (
    *implemented(
        duration(
            "log.retention.ms",
            None,
            "How long records are kept; -1 forever.",
            at_least=-1,
            live=True,
            topic_name="retention.ms",
            falls_back_to="log.retention.minutes",
        ),
        duration(
            "log.retention.minutes",
            None,
            "How long records are kept, in minutes; -1 forever.",
            at_least=-1,
            at_most=INT32_MAX,
            falls_back_to="log.retention.hours",
        ),
        duration(
            "log.retention.hours",
            168,
            "How long records are kept, in hours; -1 forever.",
            at_least=-1,
            at_most=INT32_MAX,
        ),
        size(
            "log.retention.bytes",
            -1,
            "How large a partition may grow before its oldest records are deleted; -1 no limit.",
            at_least=-1,
            live=True,
            topic_name="retention.bytes",
        ),
    ),
    *implemented(
        duration(
            "log.retention.check.interval.ms",
            300_000,
            "How often logs are checked for records beyond the retention limits.",
            at_least=1,
        ),
    ),
)

FLUSHING: tuple[BrokerKey, ...] = (
    *implemented(
        duration(
            "log.flush.offset.checkpoint.interval.ms",
            60_000,
            "How often the recovery point of each log is stored.",
            at_least=0,
        ),
        duration(
            "log.flush.start.offset.checkpoint.interval.ms",
            60_000,
            "How often the start of each log is stored.",
            at_least=0,
        ),
    ),
    *without_effect(
        long(
            "log.flush.interval.messages",
            INT64_MAX,
            "Records after which a log is synced in page-cache mode.",
            at_least=1,
            live=True,
            topic_name="flush.messages",
        ),
        duration(
            "log.flush.interval.ms",
            None,
            "Time after which a log is synced in page-cache mode.",
            at_least=0,
            live=True,
            topic_name="flush.ms",
            falls_back_to="log.flush.scheduler.interval.ms",
        ),
        duration(
            "log.flush.scheduler.interval.ms",
            INT64_MAX,
            "How often logs are checked for data to sync.",
        ),
    ),
)

COMPACTION: tuple[BrokerKey, ...] = implemented(
    names(
        "log.cleanup.policy",
        ("delete",),
        "What happens to old records: deleted by age and size, or compacted by key.",
        choices=("delete", "compact"),
        live=True,
        topic_name="cleanup.policy",
    ),
    double(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        "The share of a log that must be new before it is compacted again.",
        at_least=0.0,
        at_most=1.0,
        live=True,
        topic_name="min.cleanable.dirty.ratio",
    ),
    duration(
        "log.cleaner.delete.retention.ms",
        DAY_MS,
        "How long the tombstone of a deleted key stays readable.",
        at_least=0,
        live=True,
        topic_name="delete.retention.ms",
    ),
    duration(
        "log.cleaner.min.compaction.lag.ms",
        0,
        "How long a record is not compacted.",
        at_least=0,
        live=True,
        topic_name="min.compaction.lag.ms",
    ),
    duration(
        "log.cleaner.max.compaction.lag.ms",
        INT64_MAX,
        "The time after which a record must be compacted.",
        at_least=1,
        live=True,
        topic_name="max.compaction.lag.ms",
    ),
)

CLEANING: tuple[BrokerKey, ...] = without_effect(
    switch("log.cleaner.enable", True, "Whether logs are compacted at all."),
    integer(
        "log.cleaner.threads", 1, "Logs that are compacted at the same time.", at_least=0, live=True
    ),
    double(
        "log.cleaner.io.max.bytes.per.second",
        1.7976931348623157e308,
        "Bytes per second that compaction reads and writes.",
        live=True,
    ),
    size(
        "log.cleaner.dedupe.buffer.size",
        128 * 1024**2,
        "Memory for the keys of the logs that are being compacted.",
        at_least=1,
        live=True,
    ),
    size(
        "log.cleaner.io.buffer.size",
        512 * 1024,
        "Memory for reading and writing while compacting.",
        at_least=0,
        at_most=INT32_MAX,
        live=True,
    ),
    double(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        "How full the memory for keys may get.",
        at_least=0.0,
        at_most=1.0,
        live=True,
    ),
    duration(
        "log.cleaner.backoff.ms",
        15_000,
        "The pause when there is nothing to compact.",
        at_least=0,
        live=True,
    ),
)

RECORDS: tuple[BrokerKey, ...] = (
    *implemented(
        size(
            "message.max.bytes",
            1_048_588,
            "The largest batch that a producer may send.",
            at_least=0,
            at_most=INT32_MAX,
            live=True,
            topic_name="max.message.bytes",
        ),
        text(
            "log.message.timestamp.type",
            "CreateTime",
            "Whether a record has the time of its producer or of its append.",
            choices=("CreateTime", "LogAppendTime"),
            live=True,
            topic_name="message.timestamp.type",
        ),
        duration(
            "log.message.timestamp.before.max.ms",
            INT64_MAX,
            "How far in the past a producer's time may be.",
            at_least=0,
            live=True,
            topic_name="message.timestamp.before.max.ms",
        ),
        duration(
            "log.message.timestamp.after.max.ms",
            HOUR_MS,
            "How far in the future a producer's time may be.",
            at_least=0,
            live=True,
            topic_name="message.timestamp.after.max.ms",
        ),
        text(
            "compression.type",
            "producer",
            "How records are compressed on disk; producer keeps the producer's compression.",
            choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            live=True,
            topic_name="compression.type",
        ),
    ),
    *without_effect(
        integer(
            "compression.gzip.level",
            -1,
            "The effort of gzip.",
            at_least=-1,
            at_most=9,
            live=True,
            topic_name="compression.gzip.level",
        ),
        integer(
            "compression.lz4.level",
            9,
            "The effort of lz4.",
            at_least=1,
            at_most=17,
            live=True,
            topic_name="compression.lz4.level",
        ),
        integer(
            "compression.zstd.level",
            3,
            "The effort of zstd.",
            at_least=-131_072,
            at_most=22,
            live=True,
            topic_name="compression.zstd.level",
        ),
    ),
)

TIERED: tuple[BrokerKey, ...] = unsupported(
    switch(
        "remote.log.storage.system.enable",
        False,
        "Whether old segments move to remote storage (KIP-405).",
    ),
)
