"""Tidelog in tests: clusters that start in a blink and fail on command, for any Kafka client.

`with Cluster(brokers=3) as cluster: …`; the fixtures `tidelog` and `tidelog_cluster` for pytest;
`ClusterTestCase` for unittest; `containers.KafkaContainer` for those who come from containers.
Everything is imported when it is first used: pytest loads the plugin in every run.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.testing.cluster import Cluster
    from tidelog.testing.invariants import InvariantBroken
    from tidelog.testing.unittest_case import ClusterTestCase

__all__ = ["Cluster", "ClusterTestCase", "InvariantBroken"]

_MODULES = {
    "Cluster": "tidelog.testing.cluster",
    "ClusterTestCase": "tidelog.testing.unittest_case",
    "InvariantBroken": "tidelog.testing.invariants",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
