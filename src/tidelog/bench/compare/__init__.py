"""Tidelog beside Apache Kafka on this machine: the same work, one after the other, with ratios."""
