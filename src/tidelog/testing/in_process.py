"""What can be done with nodes that live in the process of the test: they are looked at directly."""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from tidelog.cluster.nodes import ClusterNodes
from tidelog.core.events import Event, HighWatermarkAdvanced, LeaderElected
from tidelog.core.types import PartitionId
from tidelog.node.node import Node
from tidelog.node.scripted_answers import Script

Found = TypeVar("Found")


class Promises:
    """What the events of a node promise: for whoever checks, after every test, so it is not
    searched for among the events."""

    __slots__ = ("committed", "elected", "unclean")

    def __init__(self) -> None:
        self.committed: dict[PartitionId, int] = {}
        """The highest high watermark of each partition."""
        self.elected: dict[PartitionId, int] = {}
        """The newest leader epoch of each."""
        self.unclean: set[PartitionId] = set()
        """Partitions that had an unclean election."""

    def note(self, event: Event) -> None:
        if isinstance(event, HighWatermarkAdvanced):
            before = self.committed.get(event.partition, 0)
            self.committed[event.partition] = max(before, event.high_watermark)
        elif isinstance(event, LeaderElected):
            before = self.elected.get(event.partition, -1)
            self.elected[event.partition] = max(before, event.leader_epoch)
            if event.unclean:
                self.unclean.add(event.partition)


class InProcessNodes(ClusterNodes, Protocol):
    """Nodes on threads, or on virtual loops."""

    def look(self, node_id: int, at: Callable[[Node], Found]) -> Found | None:
        """What `at` finds, called on the loop of the node; None if it does not run."""
        ...

    def promises(self, node_id: int) -> Promises: ...
    def broken_by_itself(self) -> list[str]:
        """What went wrong that nobody had asked for, in words."""
        ...

    def wait_ready(self, node_ids: Iterable[int], timeout_s: float) -> None:
        """Until these serve and know each other. NodeFailed if one does not."""
        ...

    def script(self, script: Script, node_id: int | None) -> None:
        """On one node, or on all that run: they count together."""
        ...

    def clear_scripts(self) -> None: ...


def brokers_known(node: Node) -> frozenset[int]:
    image = node.image()
    brokers = () if image is None else image.brokers.values()
    return frozenset(each.broker_id for each in brokers if not each.fenced)
