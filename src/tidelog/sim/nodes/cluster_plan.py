"""The machines of a whole-node run and how they are configured, drawn from its seed.

Knobs are drawn at their extremes on purpose: a few batches per fetch, an index entry per batch,
a file of a log every 100 ms, timeouts close to each other. Each is drawn from a stream of its own,
so that one more knob changes nothing else in a seed.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tidelog.config.client_keys import STANDARD_AUTHORIZER
from tidelog.config.profiles import BRISK, PROFILES
from tidelog.config.replication_keys import RACK_AWARE_SELECTOR
from tidelog.sim.entropy import stream

MILLION: Final = 1_000_000
RACKS: Final = ("rack-1", "rack-2", "rack-3")

Settings = tuple[tuple[str, str], ...]
"""Names of Kafka's properties and their values, in order."""


class ClockPlan(NamedTuple):
    """The clocks of one machine."""

    rate_ppm: int = MILLION
    """How far they run while true time runs a million."""
    wall_ahead_ms: int = 0


class ClusterPlan(NamedTuple):
    """Brokers have the ids 1, 2, …; controllers without a broker come after them."""

    brokers: int
    voters: int
    separate: bool = False
    """The voters are controllers only. Otherwise the first brokers are voters as well."""
    racks: tuple[str, ...] = ()
    """One per broker, or none at all."""
    clocks: tuple[ClockPlan, ...] = ()
    """One per node; without one clocks are true."""
    settings: Settings = ()
    """Of every node, where it differs from the profile of `tidelog up`."""
    wire_delay_us: int = 400
    """Most segments take up to so long; one in 64 takes 20 times as long."""
    sync_us: int = 3_000
    """Most syncs take up to so long; one in 16 takes up to 20 times as long."""
    secured: bool = False
    """Everybody has to log in, and access rules decide who may do what."""
    from_kafka: bool = False
    """Its controllers take over the metadata log of a dynamic quorum of Kafka's."""

    @property
    def nodes(self) -> int:
        return self.brokers + self.voters if self.separate else self.brokers

    @property
    def broker_ids(self) -> range:
        return range(1, self.brokers + 1)

    @property
    def voter_ids(self) -> range:
        first = self.brokers + 1 if self.separate else 1
        return range(first, first + self.voters)

    @property
    def replication_factor(self) -> int:
        """Of topics that ask for none."""
        return min(3, self.brokers)

    def duration_ms(self, key: str) -> int:
        """A setting of all nodes that the profile knows."""
        return int(dict(self.settings).get(key) or PROFILES[BRISK][key])

    def clock(self, node_id: int) -> ClockPlan:
        return self.clocks[node_id - 1] if self.clocks else ClockPlan()

    def rack(self, node_id: int) -> str:
        return self.racks[node_id - 1] if self.racks and node_id <= self.brokers else ""

    def guarded(self) -> "ClusterPlan":
        """With an authorizer. Where nobody has to log in, all clients are super users: rules are
        about others."""
        if self.secured:
            return self
        settings = {**dict(self.settings), **AUTHORIZER}
        return self._replace(settings=tuple(sorted(settings.items())))

    def serving_racks(self) -> "ClusterPlan":
        """Consumers are sent to replicas in their racks."""
        selector = ("replica.selector.class", RACK_AWARE_SELECTOR)
        return self._replace(settings=tuple(sorted((*self.settings, selector))))

    def headline(self) -> str:
        voters = f"{self.voters} {'controller' if self.separate else 'voter'}"
        return (
            f"{self.brokers} broker{'s' if self.brokers > 1 else ''}, "
            f"{voters}{'s' if self.voters > 1 else ''}"
        )


def draw_cluster(seed: int, *, secured: bool = False) -> ClusterPlan:
    """Its users have to log in if `secured`, and in some other seeds."""
    cluster = _draw_nodes(seed)
    brokers = cluster.brokers
    wire_delay_us = stream(seed, "wire delay").choice((100, 400, 400, 2_000, 10_000))
    sync_us = stream(seed, "sync time").choice((100, 3_000, 3_000, 20_000))
    slow = wire_delay_us > 400 or sync_us > 3_000
    origin = {"secured": True} if secured else _draw_origin(seed)
    knobs = {**KNOBS, **LOGIN_KNOBS} if origin["secured"] else KNOBS
    return cluster._replace(
        racks=_draw_racks(seed, brokers),
        clocks=tuple(_draw_clock(seed, node_id) for node_id in range(1, cluster.nodes + 1)),
        settings=draw_settings(seed, knobs, without=SMALL_FETCHES if slow else ()),
        wire_delay_us=wire_delay_us,
        sync_us=sync_us,
        **origin,
    )


def _draw_nodes(seed: int) -> ClusterPlan:
    """One run in ten has fewer brokers than a replicated topic needs."""
    entropy = stream(seed, "machines of whole nodes")
    brokers = entropy.choice((3, 3, 3, 4, 5))
    voters = entropy.choice([count for count in (1, 3, 3, 3, 3, 5) if count <= brokers])
    separate = entropy.random() < 0.2
    entropy = stream(seed, "small clusters of whole nodes")
    if entropy.random() < 0.1:
        brokers = entropy.choice((1, 2))
        voters = voters if separate else 1
    return ClusterPlan(brokers, voters, separate)


def _draw_origin(seed: int) -> dict[str, bool]:
    """Users are made when a cluster is formatted: one that Kafka left behind has none."""
    from_kafka = stream(seed, "a past with Kafka").random() < 0.1
    secured = stream(seed, "logins and access rules").random() < 0.15
    return {"from_kafka": from_kafka, "secured": secured and not from_kafka}


def _draw_racks(seed: int, brokers: int) -> tuple[str, ...]:
    entropy = stream(seed, "racks of whole nodes")
    if entropy.random() < 0.5:
        return ()
    racks = entropy.choice((2, 3))
    return tuple(RACKS[broker % racks] for broker in range(brokers))


def _draw_clock(seed: int, node_id: int) -> ClockPlan:
    entropy = stream(seed, f"clock of whole node {node_id}")
    return ClockPlan(
        rate_ppm=MILLION + entropy.choice((0, 0, -200, 200, -50_000, 50_000)),
        wall_ahead_ms=entropy.choice((0, 0, -30, 30, entropy.randint(-600_000, 600_000))),
    )


AUTHORIZER: Final = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "tidelog.audit.topic.enable": "false",
}
DURABILITY: Final = "ack.durability"
USUAL: Final = ""
"""As the profile has it. It is drawn as often as it is listed."""

KNOBS: Final[dict[str, tuple[str, ...]]] = {
    DURABILITY: (USUAL, "page-cache"),
    "auto.leader.rebalance.enable": (USUAL, "false"),
    "broker.heartbeat.interval.ms": (USUAL, "100", "250"),
    "broker.session.timeout.ms": (USUAL, "1000", "2000", "9000"),
    "compression.type": (USUAL, USUAL, USUAL, "lz4"),
    "connections.max.idle.ms": (USUAL, USUAL, USUAL, "2000"),
    "controller.quorum.election.backoff.max.ms": (USUAL, "50", "500"),
    "controller.quorum.election.timeout.ms": (USUAL, "200", "1000"),
    "controller.quorum.fetch.timeout.ms": (USUAL, "1000", "2000"),
    "controller.quorum.request.timeout.ms": (USUAL, "500"),
    "controller.quorum.retry.backoff.ms": (USUAL, "5", "50"),
    "eligible.leader.replicas.enable": (USUAL, USUAL, USUAL, USUAL, USUAL, "false"),
    "fetch.max.bytes": (USUAL, USUAL, "1024"),
    "leader.imbalance.check.interval.seconds": (USUAL, "1", "5"),
    "log.dirs": (USUAL, USUAL, "/data,/more"),
    "log.flush.offset.checkpoint.interval.ms": (USUAL, "100", "1000"),
    "log.flush.start.offset.checkpoint.interval.ms": (USUAL, "100", "1000"),
    "log.index.interval.bytes": (USUAL, "0", "64"),
    "log.index.size.max.bytes": (USUAL, USUAL, "64", "1024"),
    "log.message.timestamp.type": (USUAL, USUAL, USUAL, "LogAppendTime"),
    "log.retention.check.interval.ms": (USUAL, USUAL, "1000"),
    "log.roll.ms": (USUAL, USUAL, "100", "1000"),
    "log.segment.bytes": (USUAL, "1048576"),
    "log.segment.delete.delay.ms": (USUAL, "0", "1000"),
    "max.incremental.fetch.session.cache.slots": (USUAL, USUAL, "0", "2"),
    "metadata.log.dir": (USUAL, "/metadata"),
    "metadata.max.idle.interval.ms": (USUAL, "200", "500"),
    "num.replica.fetchers": (USUAL, USUAL, "2", "4"),
    "offsets.topic.num.partitions": (USUAL, "1", "3"),
    "offsets.topic.segment.bytes": (USUAL, "1048576"),
    "replica.fetch.backoff.ms": (USUAL, "10", "1000"),
    "replica.fetch.max.bytes": (USUAL, USUAL, "300", "3000"),
    "replica.fetch.response.max.bytes": (USUAL, USUAL, "1000", "10000"),
    "replica.fetch.wait.max.ms": (USUAL, "20", "100"),
    "replica.high.watermark.checkpoint.interval.ms": (USUAL, "100"),
    "replica.lag.time.max.ms": (USUAL, "1000", "10000"),
    "replica.socket.timeout.ms": (USUAL, "1000"),
    "tidelog.chaos.enable": (USUAL, USUAL, USUAL, USUAL, "true"),
    "tidelog.events.topic.enable": (USUAL, USUAL, USUAL, "true"),
    "tidelog.group.disconnect.grace.ms": (USUAL, "0"),
    "tidelog.http.listener": (USUAL, USUAL, USUAL, "localhost:8080"),
    "tidelog.metadata.snapshot.records": (USUAL, "10", "100"),
    "tidelog.scrub.bytes.per.second": (USUAL, "0"),
    "transaction.state.log.num.partitions": (USUAL, "1", "3"),
    "transaction.state.log.segment.bytes": (USUAL, "1048576"),
}
"""Every value makes sense with every value of the others, and so does the usual one."""

LOGIN_KNOBS: Final[dict[str, tuple[str, ...]]] = {
    "connection.failed.authentication.delay.ms": (USUAL, "0", "1000"),
    "connections.max.reauth.ms": (USUAL, "1500", "4000"),
    "sasl.mechanism.inter.broker.protocol": (USUAL, "SCRAM-SHA-512"),
}
"""Where everybody has to log in."""

SMALL_FETCHES: Final = ("replica.fetch.max.bytes", "replica.fetch.response.max.bytes")
"""On slow machines followers that fetch little at a time would never keep up with writers."""


def draw_settings(
    seed: int, knobs: Mapping[str, Sequence[str]] = KNOBS, without: Sequence[str] = ()
) -> Settings:
    names = [name for name in sorted(knobs) if name not in without]
    drawn = [(name, stream(seed, f"knob {name}").choice(knobs[name])) for name in names]
    return tuple((name, value) for name, value in drawn if value != USUAL)
