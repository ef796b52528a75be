"""Values that are fine one by one and make no sense, or little, together."""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.config.broker_keys import KEYS
from tidelog.config.endpoints import parse_http_address
from tidelog.config.layers import Finding
from tidelog.config.settings import Settings
from tidelog.core.security.principal import Principal


class Order(NamedTuple):
    """`smaller` must be below `larger`, or not above it if they may be equal."""

    smaller: str
    larger: str
    because: str
    may_be_equal: bool = True


MUST: tuple[Order, ...] = (
    Order(
        "broker.heartbeat.interval.ms",
        "broker.session.timeout.ms",
        "every broker would be fenced between two heartbeats",
        may_be_equal=False,
    ),
    Order(
        "replica.fetch.wait.max.ms",
        "replica.lag.time.max.ms",
        "followers of quiet partitions would leave the in-sync replicas while they wait",
        may_be_equal=False,
    ),
    Order(
        "replica.fetch.wait.max.ms",
        "replica.socket.timeout.ms",
        "fetches would time out while they wait",
    ),
    Order(
        "group.min.session.timeout.ms",
        "group.max.session.timeout.ms",
        "no session timeout would be allowed",
    ),
    Order(
        "group.consumer.min.session.timeout.ms",
        "group.consumer.session.timeout.ms",
        "the timeout must lie within its limits",
    ),
    Order(
        "group.consumer.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
        "the timeout must lie within its limits",
    ),
    Order(
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.heartbeat.interval.ms",
        "the interval must lie within its limits",
    ),
    Order(
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
        "the interval must lie within its limits",
    ),
    Order(
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.session.timeout.ms",
        "every member would be removed between two heartbeats",
        may_be_equal=False,
    ),
    Order(
        "log.cleaner.min.compaction.lag.ms",
        "log.cleaner.max.compaction.lag.ms",
        "a record would have to be compacted before it may be",
    ),
    Order(
        "socket.connection.setup.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "the timeout grows from the one to the other",
    ),
)

SHOULD: tuple[Order, ...] = (
    Order(
        "min.insync.replicas",
        "default.replication.factor",
        "a topic with the default replication factor would refuse every acks=all",
    ),
    Order(
        "transaction.state.log.min.isr",
        "transaction.state.log.replication.factor",
        "no transaction could begin",
    ),
    Order(
        "message.max.bytes",
        "socket.request.max.bytes",
        "the largest batches would be refused as requests already",
    ),
    Order(
        "message.max.bytes",
        "log.segment.bytes",
        "the largest batches would fit into no file of a log",
    ),
)


def order_problems(settings: Settings) -> Iterator[Finding]:
    return _out_of_order(settings, MUST)


def order_warnings(settings: Settings) -> Iterator[Finding]:
    return _out_of_order(settings, SHOULD)


def heartbeat_warnings(settings: Settings) -> Iterator[Finding]:
    interval, timeout = "broker.heartbeat.interval.ms", "broker.session.timeout.ms"
    if settings.is_broken(interval, timeout):
        return
    if settings.whole(interval) < settings.whole(timeout) < 2 * settings.whole(interval):
        why = f"one lost heartbeat fences the broker: {settings.told(timeout)} is less than two"
        yield settings.finding(interval, why, f"{interval}={settings.whole(timeout) // 4}")


def durability_warnings(settings: Settings) -> Iterator[Finding]:
    """reliability.md §2.6: without a second copy only the disk keeps a promise."""
    key = "ack.durability"
    if settings.is_broken(key) or settings.text(key) != "page-cache":
        return
    if settings.value("default.replication.factor") == 1:
        why = "a topic with one replica, the default here, loses what a crash of its machine loses"
        yield settings.finding(key, why, "ack.durability=fsync, or default.replication.factor=3")


def assignor_problems(settings: Settings) -> Iterator[Finding]:
    key = "group.consumer.assignors"
    if not settings.is_broken(key) and not settings.items(key):
        yield settings.finding(key, "nobody could give partitions to members", f"{key}=uniform")


def http_problems(settings: Settings) -> Iterator[Finding]:
    key = "tidelog.http.listener"
    listener = None if settings.is_broken(key) else settings.text(key)
    if not listener:
        return
    try:
        parse_http_address(listener)
    except ValueError as reason:
        yield settings.finding(key, str(reason), f"{key}=127.0.0.1:9644")


def super_user_problems(settings: Settings) -> Iterator[Finding]:
    """Somebody who is misspelt here would be locked out."""
    key = "super.users"
    for each in (settings.text(key) or "").split(";"):
        if each.strip():
            try:
                Principal.parse(each.strip())
            except ValueError as reason:
                yield settings.finding(key, str(reason), f"{key}=User:admin;User:broker")


def _out_of_order(settings: Settings, orders: tuple[Order, ...]) -> Iterator[Finding]:
    for smaller, larger, because, may_be_equal in orders:
        if settings.is_broken(smaller, larger):
            continue
        low, high = settings.whole(smaller), settings.whole(larger)
        if low < high or (may_be_equal and low == high):
            continue
        wanted = "at most" if may_be_equal else "less than"
        yield _about(settings, smaller, larger, f"it must be {wanted}", because)


def _about(settings: Settings, smaller: str, larger: str, wanted: str, because: str) -> Finding:
    """Blames the one of the two that somebody set, the smaller if both were."""
    if settings.is_set(smaller) or not settings.is_set(larger):
        why = f"{wanted} {settings.told(larger)}: {because}"
        return settings.finding(smaller, why, _smaller_advice(settings, smaller, larger))
    reverse = wanted.replace("at most", "at least").replace("less than", "more than")
    why = f"{reverse} {settings.told(smaller)}: {because}"
    return settings.finding(larger, why, f"a larger {larger}, or a smaller {smaller}")


def _smaller_advice(settings: Settings, smaller: str, larger: str) -> str:
    default = KEYS[smaller].default
    if isinstance(default, int) and default < settings.whole(larger):
        return f"{smaller}={default}, which is the default, or a larger {larger}"
    return f"a smaller {smaller}, or a larger {larger}"
