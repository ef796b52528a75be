"""Clusters that move: the same directories under Apache Kafka and under Tidelog."""
