"""What can go wrong between a tool and a cluster."""

from collections.abc import Mapping
from typing import Final

from tidelog.core.errors import Error

OTHER_NAMES: Final[Mapping[int, str]] = {
    4: "INVALID_FETCH_SIZE",
    9: "REPLICA_NOT_AVAILABLE",
    13: "NETWORK_EXCEPTION",
    29: "TOPIC_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    33: "UNSUPPORTED_SASL_MECHANISM",
    34: "ILLEGAL_SASL_STATE",
    43: "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    54: "SECURITY_DISABLED",
    57: "LOG_DIR_NOT_FOUND",
    58: "SASL_AUTHENTICATION_FAILED",
    59: "UNKNOWN_PRODUCER_ID",
    60: "REASSIGNMENT_IN_PROGRESS",
    73: "TOPIC_DELETION_DISABLED",
    89: "THROTTLING_QUOTA_EXCEEDED",
}
"""Names of codes that Tidelog never answers with and other clusters do."""

MOVED: Final = frozenset(
    (
        Error.LEADER_NOT_AVAILABLE,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.BROKER_NOT_AVAILABLE,
        9,
        13,
        Error.NOT_CONTROLLER,
        Error.KAFKA_STORAGE_ERROR,
        Error.FENCED_LEADER_EPOCH,
        Error.UNKNOWN_LEADER_EPOCH,
        Error.OFFSET_NOT_AVAILABLE,
        Error.UNKNOWN_TOPIC_ID,
        Error.INCONSISTENT_TOPIC_ID,
    )
)
"""Somebody else, or the same a little later, can do it: learn the cluster anew and ask again."""

PASSING: Final = MOVED | {
    Error.REQUEST_TIMED_OUT,
    Error.NOT_ENOUGH_REPLICAS,
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Error.COORDINATOR_LOAD_IN_PROGRESS,
    Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_COORDINATOR,
    Error.CONCURRENT_TRANSACTIONS,
    Error.UNSTABLE_OFFSET_COMMIT,
    89,
}
"""Worth another try until the deadline."""


class ClientError(Exception):
    """Base of everything that a `Client` raises for the world's fault."""


class KafkaError(ClientError):
    """A broker refused: the code, and its own words if it had any."""

    def __init__(self, error: int, message: str | None = None) -> None:
        self.error = int(error)
        self.message = message or ""
        super().__init__(f"{self.label}: {self.message}" if self.message else self.label)

    @property
    def name(self) -> str:
        return error_name(self.error)

    @property
    def label(self) -> str:
        """`INVALID_REPLICATION_FACTOR (38)`."""
        return f"{self.name} ({self.error})"

    @property
    def is_passing(self) -> bool:
        return self.error in PASSING


class NotTrusted(ClientError):  # noqa: N818
    """One of the two sides does not believe the other's certificate: asking again is no use."""


class ClusterUnreachable(ClientError):  # noqa: N818 - it names what is so, not an accident
    """Nobody answered until the deadline."""

    def __init__(self, addresses: str, reason: str) -> None:
        self.addresses = addresses
        self.reason = reason
        super().__init__(f"{addresses} cannot be reached: {reason}")


def error_name(code: int) -> str:
    """Kafka's name of an error code."""
    try:
        return Error(code).name
    except ValueError:
        return OTHER_NAMES.get(code, "ERROR")


def check(code: int, message: str | None = None) -> None:
    """Raise unless the code says that all is well."""
    if code:
        raise KafkaError(code, message)
