"""The topics of a whole-node run, drawn from its seed."""

from typing import Final, NamedTuple

from tidelog.sim.entropy import stream
from tidelog.sim.nodes.cluster_plan import ClusterPlan, Settings

NAMES: Final = ("tides", "orders")


class TopicPlan(NamedTuple):
    name: str
    partitions: int
    replication_factor: int
    settings: Settings = ()
    """Its own, such as min.insync.replicas."""


def draw_topics(seed: int, cluster: ClusterPlan) -> tuple[TopicPlan, ...]:
    entropy = stream(seed, "topics of whole nodes")
    topics = []
    for name in NAMES[: entropy.choice((1, 1, 1, 2))]:
        factor = min(cluster.brokers, entropy.choice((1, 2, 3, 3, 3, 3, 3, 4, 5)))
        min_isr = entropy.choice((1, max(1, factor - 1), max(1, factor - 1)))
        settings = (("min.insync.replicas", str(min_isr)),)
        topics.append(TopicPlan(name, entropy.choice((1, 3, 8, 16, 40)), factor, settings))
    return tuple(topics)
