"""Named sets of values. A profile is chosen, never assumed, and whoever uses one says so."""

BRISK = "brisk"

PROFILES: dict[str, dict[str, str]] = {
    # For stories on one machine (`tidelog up`): failures are noticed in half a second, not in
    # nine. Too nervous for a real network.
    BRISK: {
        "broker.heartbeat.interval.ms": "100",
        "broker.session.timeout.ms": "500",
        "controller.quorum.election.timeout.ms": "500",
        "controller.quorum.fetch.timeout.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
        "replica.fetch.backoff.ms": "200",
        "replica.lag.time.max.ms": "2000",
    },
}
