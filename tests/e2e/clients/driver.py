"""What the story asks of a client, in the same words for each of them.

A client that cannot do something leaves the method out and names the step in `lacks`. What a
broker refuses comes out as `Refused`, with Kafka's name of the error.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tidelog.core.errors import Error


class Refused(Exception):  # noqa: N818 - it says what happened
    """The broker said no, and the client told us."""

    def __init__(self, error: str, message: str = "") -> None:
        super().__init__(f"{error}: {message}" if message else error)
        self.error = error


class NotOffered(Exception):  # noqa: N818 - nothing went wrong
    """The client has no call for it."""


class Record(NamedTuple):
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


class Fetched(NamedTuple):
    offset: int
    record: Record


class How(NamedTuple):
    """How a producer is set up."""

    acks: str = "all"
    codec: str = "none"
    idempotent: bool = False


class Start(NamedTuple):
    """Where reading begins: `earliest`, `timestamp` or `offset`."""

    kind: str
    number: int = 0


class PartitionSeen(NamedTuple):
    leader: int
    replicas: tuple[int, ...]
    isr: frozenset[int]


class NewTopic(NamedTuple):
    name: str
    partitions: int = 3
    replicas: int = 3
    configs: Mapping[str, str] = {}


class QuorumSeen(NamedTuple):
    leader: int
    voters: frozenset[int]


def refused_with(code: int, message: str = "") -> Refused:
    """For clients that show numbers: -1 and up are the broker's."""
    known = {int(error) for error in Error}
    return Refused(Error(code).name if code in known else str(code), message)


class Driver:
    """One client. Every method talks to the cluster and returns when it is done."""

    name: str
    lacks: frozenset[str] = frozenset()
    """Steps that this client has no calls for."""
    alters_incrementally = True
    """Whether altering one setting leaves the others alone (KIP-339)."""
    describes_without_creating = True
    """Whether describing an unknown topic leaves it unknown."""
    tells_of_unknown_topics = True
    """Whether a consumer says that its topic is unknown, rather than creating or awaiting it."""
    writes_null_headers = True
    chooses_timestamps = True
    """Whether a producer can be told the timestamp of a record."""

    def create_topic(self, topic: NewTopic) -> None:
        raise NotOffered

    def delete_topic(self, topic: str) -> None:
        raise NotOffered

    def produce(self, topic: str, records: Sequence[Record], how: How) -> None:
        raise NotOffered

    def read(self, topic: str, partition: int, start: Start) -> list[Fetched]:
        """From there to what is the end when reading begins."""
        raise NotOffered

    def read_new(self, topic: str, partition: int, when_ready: Callable[[], None]) -> Fetched:
        """Begin at the end, say so, and give the first record that comes."""
        raise NotOffered

    def broker_ids(self) -> set[int]:
        raise NotOffered

    def partitions(self, topic: str) -> dict[int, PartitionSeen]:
        raise NotOffered

    def configs(self, topic: str) -> dict[str, str]:
        raise NotOffered

    def set_config(self, topic: str, key: str, value: str) -> None:
        raise NotOffered

    def log_sizes(self, topic: str) -> dict[int, int]:
        """Bytes of the topic on each broker that has any of it."""
        raise NotOffered

    def add_partitions(self, topic: str, total: int) -> None:
        raise NotOffered

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """The new log start offset."""
        raise NotOffered

    def offset_at(self, topic: str, partition: int, start: Start) -> int:
        """`Start` may say `latest` too."""
        raise NotOffered

    def elect_preferred(self, topic: str, partition: int) -> None:
        raise NotOffered

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        raise NotOffered

    def quorum(self) -> QuorumSeen:
        raise NotOffered

    def close(self) -> None:
        """Nothing of the client is left."""
