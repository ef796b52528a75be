"""What a quota may limit, and for whom: Kafka's names."""

from collections.abc import Iterable
from typing import NamedTuple

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"


Entity = tuple[tuple[str, str | None], ...]
"""Types with names, sorted by type; None is the default of a type."""


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """The same for the same parts, in whatever order they were named."""
    return tuple(sorted(parts, key=lambda part: part[0]))


class QuotaKey(NamedTuple):
    name: str
    whole: bool
    """Kafka takes whole numbers only."""
    what: str


_ALL = (
    QuotaKey(PRODUCER_BYTE_RATE, True, "bytes a second that are produced through one broker"),
    QuotaKey(CONSUMER_BYTE_RATE, True, "bytes a second that are fetched from one broker"),
    QuotaKey(REQUEST_PERCENTAGE, False, "percent of one processor's time on one broker"),
    QuotaKey(CONTROLLER_MUTATION_RATE, False, "partitions a second that are created or deleted"),
    QuotaKey(CONNECTION_CREATION_RATE, True, "connections a second to one broker"),
)
USER_KEYS = {key.name: key for key in _ALL if key.name != CONNECTION_CREATION_RATE}
"""For users, client ids and both together."""
IP_KEYS = {key.name: key for key in _ALL if key.name == CONNECTION_CREATION_RATE}
