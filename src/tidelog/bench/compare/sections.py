"""All sections of the comparison, in the order in which they are measured."""

from collections.abc import Sequence

from tidelog.bench.compare.failover import FailoverSection
from tidelog.bench.compare.idle import IdleSection
from tidelog.bench.compare.latency import Latency
from tidelog.bench.compare.limits import Limits
from tidelog.bench.compare.over_tls import OverTls
from tidelog.bench.compare.recovery import RecoverySection
from tidelog.bench.compare.runner import limit_keys
from tidelog.bench.compare.small_requests import SmallRequests
from tidelog.bench.compare.start import StartSection
from tidelog.bench.compare.system import AnySection, Scale, System
from tidelog.bench.compare.throughput import Throughput
from tidelog.bench.compare.tools import KafkaTools
from tidelog.bench.compare.warm_clusters import WarmClusters


def all_sections(
    scale: Scale,
    systems: Sequence[System],
    java: KafkaTools | None,
    warm: WarmClusters,
    *,
    with_limits: bool = True,
) -> list[AnySection]:
    """Without Kafka's tools, only the rows that need none of them."""
    load: list[AnySection] = [
        Throughput(scale, java, warm),
        Latency(scale, systems, java, warm),
        SmallRequests(scale, warm),
        OverTls(scale, warm),
    ]
    limits = [Limits(scale, limit_keys(load))] if with_limits else []
    return [*load, *life_of_a_cluster(scale, warm), *limits]


def life_of_a_cluster(scale: Scale, warm: WarmClusters) -> list[AnySection]:
    """What it is to run one: start, idle, a crash, a restart."""
    return [
        StartSection(),
        IdleSection(scale, warm),
        FailoverSection(scale),
        RecoverySection(scale),
    ]
