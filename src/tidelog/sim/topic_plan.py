"""A topic as a plan has it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicPlan:
    name: str
    partitions: int
    replication_factor: int
    min_insync_replicas: int
    unclean: bool
