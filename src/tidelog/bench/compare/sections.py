"""All sections of the comparison, in the order in which they are measured."""

from collections.abc import Sequence

from tidelog.bench.compare.latency import Latency
from tidelog.bench.compare.small_requests import SmallRequests
from tidelog.bench.compare.system import AnySection, Scale, System
from tidelog.bench.compare.throughput import Throughput
from tidelog.bench.compare.tools import KafkaTools


def all_sections(
    scale: Scale, systems: Sequence[System], java: KafkaTools | None
) -> list[AnySection]:
    """Without Kafka's tools, only the rows that need none of them."""
    return [Throughput(scale, java), Latency(scale, systems, java), SmallRequests(scale)]
