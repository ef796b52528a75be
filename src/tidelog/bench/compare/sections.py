"""All sections of the comparison, in the order in which they are measured."""

from collections.abc import Sequence

from tidelog.bench.compare.failover import FailoverSection
from tidelog.bench.compare.idle import IdleSection
from tidelog.bench.compare.load_clients import LoadClient
from tidelog.bench.compare.recovery import RecoverySection
from tidelog.bench.compare.start import StartSection
from tidelog.bench.compare.system import AnySection, Scale, System
from tidelog.bench.compare.throughput import Throughput


def all_sections(
    scale: Scale, systems: Sequence[System], java: LoadClient | None
) -> list[AnySection]:
    """Without Kafka's tools, only what needs none of them."""
    return [Throughput(scale, java), *life_of_a_cluster(scale)]


def life_of_a_cluster(scale: Scale) -> list[AnySection]:
    """What it is to run one: start, idle, a crash, a restart."""
    return [
        StartSection(),
        IdleSection(scale),
        FailoverSection(scale),
        RecoverySection(scale),
    ]
