"""Named sets of values. A profile is chosen, never assumed, and whoever uses one says so."""

BRISK = "brisk"

PROFILES: dict[str, dict[str, str]] = {
    # For one machine (`tidelog up`). A dead process is noticed at once by its closed connections
    # (ADR 0017), so the timeouts are for processes that hang: longer than a pause of two seconds,
    # which must not cost an election, and short enough to watch. Several nodes share the machine:
    # an idle controller writes less often than elsewhere. News never wait for that interval.
    BRISK: {
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "4000",
        "controller.quorum.election.timeout.ms": "500",
        "controller.quorum.fetch.timeout.ms": "4000",
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "metadata.max.idle.interval.ms": "2000",
        "offsets.topic.num.partitions": "8",
        "replica.fetch.backoff.ms": "200",
        "replica.lag.time.max.ms": "3000",
        "transaction.state.log.num.partitions": "8",
    },
}
