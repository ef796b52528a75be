"""All sections of the comparison, in the order in which they are measured."""

from collections.abc import Sequence

from tidelog.bench.compare.load_clients import LoadClient
from tidelog.bench.compare.system import AnySection, Scale, System
from tidelog.bench.compare.throughput import Throughput


def all_sections(
    scale: Scale, systems: Sequence[System], java: LoadClient | None
) -> list[AnySection]:
    """Without Kafka's tools, only what needs none of them."""
    return [Throughput(scale, java)]
