"""What a run of the whole story found out."""

from typing import NamedTuple

from tidelog.cli.demo.book import Answered, Total, Window
from tidelog.cli.demo.spark_queries import Flow
from tidelog.cli.demo.verdict import Verdict, WindowValue


class Killed(NamedTuple):
    node_id: int
    partitions: list[int]
    """That it led."""
    at: float
    election_ms: float
    """From the signal until somebody else leads all of them."""
    silence_ms: float
    """The longest time a partition acknowledged nothing around that."""


class Returned(NamedTuple):
    at: float
    in_sync_ms: float
    """From its start until it is in the ISR of every partition."""


class Sold(NamedTuple):
    began: float
    seconds: float
    answers: list[Answered]
    totals: dict[Window, Total]
    failures: list[str]


class Replicas(NamedTuple):
    """The files of all brokers, compared."""

    partitions: int
    read_bytes: int
    """Of all copies, every checksum computed."""
    seconds: float
    differences: list[str]


class Facts(NamedTuple):
    ready_ms: float
    spark_ms: float
    sold: Sold
    killed: Killed
    returned: Returned
    caught_up_ms: float
    """From the last acknowledgement until both queries have everything."""
    revenue: Flow
    table: Flow
    windows: list[WindowValue]
    closes_ms: int
    """The windows before this moment are over."""
    replicas: Replicas
    verdict: Verdict

    @property
    def holds(self) -> bool:
        return self.verdict.holds and not self.replicas.differences
