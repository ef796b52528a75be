"""What `kafka.…` options mean to our client.

Options that the stock connector refuses are refused. So are those that we cannot honour, where
ignoring them would be wrong. The rest that we do not know are named in a warning.
"""

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.client import parse_bootstrap
from tidelog.client.security import OF_PROTOCOL, names_read
from tidelog.spark.failure import InvalidOption
from tidelog.spark.options import Options
from tidelog.spark.security_options import BOOTSTRAP, PREFIX, Security, checked_security

LOGGER = logging.getLogger("tidelog.spark")

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS: Final = {"0": 0, "1": 1, "all": -1, "-1": -1}

REFUSED: Final[Mapping[str, str]] = {
    "key.deserializer": "keys come as binary; cast them in the query",
    "value.deserializer": "values come as binary; cast them in the query",
    "key.serializer": "keys are written as they are; cast them in the query",
    "value.serializer": "values are written as they are; cast them in the query",
    "enable.auto.commit": "leave it out; commitOffsets=true tells lag tools how far a query is",
    "interceptor.classes": "leave it out; nothing runs between Spark and the cluster",
}
REFUSED_FOR_SOURCE: Final[Mapping[str, str]] = {
    "auto.offset.reset": "say startingOffsets, which Spark's checkpoints go by",
}
REFUSED_FOR_SINK: Final[Mapping[str, str]] = {
    "transactional.id": "leave it out and say sinkId, which it is made of",
}
OF_BOTH: Final = frozenset(
    (
        "bootstrap.servers",
        "client.id",
        "default.api.timeout.ms",
        "request.timeout.ms",
    )
)
OF_SOURCE: Final = frozenset(
    (
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "isolation.level",
        "max.partition.fetch.bytes",
    )
)
OF_SINK: Final = frozenset(
    (
        "acks",
        "batch.size",
        "compression.type",
        "delivery.timeout.ms",
        "enable.idempotence",
        "linger.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "transaction.timeout.ms",
    )
)


class ClientSettings(NamedTuple):
    """How a source or a sink speaks to brokers. Goes to tasks."""

    timeout_ms: int = 15_000
    """Everything that one operation tries."""
    client_id: str = "tidelog-spark"
    fetch_max_bytes: int = 16 * 1024 * 1024
    partition_max_bytes: int = 4 * 1024 * 1024
    min_bytes: int = 1
    max_wait_ms: int = 500
    compression: str = "none"
    acks: int = -1
    batch_bytes: int = 256 * 1024
    request_bytes: int = 1024 * 1024
    linger_ms: int = 0
    delivery_timeout_ms: int = 120_000
    transaction_timeout_ms: int = 60_000
    in_flight: int = 5
    security: Security = Security()


DEFAULTS: Final = ClientSettings()


def bootstrap_of(options: Options) -> str:
    """Where the cluster is, checked."""
    text = options.required(BOOTSTRAP, "give host:port of one broker or of several")
    try:
        parse_bootstrap(text)
    except ValueError as error:
        raise InvalidOption(f"{BOOTSTRAP}: {error}", "give host:port,host:port") from None
    return text


def client_settings(kafka: Mapping[str, str], *, for_sink: bool) -> ClientSettings:
    """From `kafka.…` options without their prefix, as `Options.with_prefix` gives them."""
    _refuse(kafka, for_sink=for_sink)
    security = checked_security(kafka)
    _warn(kafka, for_sink=for_sink)
    given = Options({PREFIX + name: value for name, value in kafka.items()})

    def whole(name: str, default: int, *, least: int = 1) -> int:
        number = given.whole(PREFIX + name, default, least=least)
        assert number is not None, name
        return number

    timeout_ms = whole("default.api.timeout.ms", whole("request.timeout.ms", DEFAULTS.timeout_ms))
    codec = given.one_of("kafka.compression.type", DEFAULTS.compression, CODECS)
    return ClientSettings(
        timeout_ms=timeout_ms,
        client_id=given.text("kafka.client.id", DEFAULTS.client_id) or DEFAULTS.client_id,
        fetch_max_bytes=whole("fetch.max.bytes", DEFAULTS.fetch_max_bytes),
        partition_max_bytes=whole("max.partition.fetch.bytes", DEFAULTS.partition_max_bytes),
        min_bytes=whole("fetch.min.bytes", DEFAULTS.min_bytes),
        max_wait_ms=whole("fetch.max.wait.ms", DEFAULTS.max_wait_ms, least=0),
        compression=codec,
        acks=ACKS[given.one_of("kafka.acks", "all", ACKS)],
        batch_bytes=whole("batch.size", DEFAULTS.batch_bytes),
        request_bytes=whole("max.request.size", DEFAULTS.request_bytes),
        linger_ms=whole("linger.ms", DEFAULTS.linger_ms, least=0),
        delivery_timeout_ms=whole("delivery.timeout.ms", DEFAULTS.delivery_timeout_ms),
        transaction_timeout_ms=whole("transaction.timeout.ms", DEFAULTS.transaction_timeout_ms),
        in_flight=whole("max.in.flight.requests.per.connection", DEFAULTS.in_flight),
        security=security,
    )


def _refuse(kafka: Mapping[str, str], *, for_sink: bool) -> None:
    refused = {**REFUSED, **(REFUSED_FOR_SINK if for_sink else REFUSED_FOR_SOURCE)}
    for name, advice in refused.items():
        if name in kafka:
            raise InvalidOption(f"the option kafka.{name} is not supported", advice)


def _warn(kafka: Mapping[str, str], *, for_sink: bool) -> None:
    known = OF_BOTH | (OF_SINK if for_sink else OF_SOURCE)
    known |= names_read(kafka.get(OF_PROTOCOL, ""))
    for name in sorted(set(kafka) - known):
        kind = "sink" if for_sink else "source"
        LOGGER.warning("the option kafka.%s has no effect on a %s", name, kind)
