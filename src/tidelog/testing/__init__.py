"""Clusters for tests: `with Cluster(brokers=3) as cluster: …`. Works with any Kafka client."""

from tidelog.testing.cluster import Cluster

__all__ = ["Cluster"]
