"""What a client that makes load is asked to do: the same of every client."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class ProduceJob(NamedTuple):
    """So many records as fast as they go."""

    bootstrap_servers: str
    topic: str
    records: int
    record_bytes: int
    settings: Mapping[str, str]


class ConsumeJob(NamedTuple):
    """A whole topic, from its beginning."""

    bootstrap_servers: str
    topic: str
    partitions: int
    records: int
    settings: Mapping[str, str] = {}


class LoadClient(Protocol):
    """A client in a process of its own."""

    @property
    def name(self) -> str: ...

    def produce(self, job: ProduceJob) -> float:
        """Records per second; SystemFailed if one of them was not acknowledged."""

    def consume(self, job: ConsumeJob) -> float:
        """Records per second; SystemFailed if there are fewer."""
