"""Recognises the marks of whole-node runs: rare states that production nodes got into.

Most witnesses are those of `sim`: they hear the hooks of the judge and the events of the nodes.
`Surroundings` shows them the nodes. `marks_shell` sees what only a whole node has.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from tidelog.core.events import Event
from tidelog.core.metadata.controller import Controller
from tidelog.core.replication.replica import Replica
from tidelog.core.types import PartitionId
from tidelog.sim.kernel import Kernel
from tidelog.sim.marks import MARKS
from tidelog.sim.nodes.cluster import NodeCluster
from tidelog.sim.nodes.marks_control import ControlMarks
from tidelog.sim.nodes.marks_coordination import CoordinationMarks
from tidelog.sim.nodes.marks_data import DataMarks
from tidelog.sim.nodes.server import Server
from tidelog.sim.nodes.view import NodesView
from tidelog.sim.nodes.view_books import NodeBooks
from tidelog.sim.rules.chronicle import Chronicle


class NodeMarks:
    """Counts the marks of one run."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, name: str) -> None:
        assert name in MARKS, f"mark {name!r} has no sentence"
        self.counts[name] += 1


class SeenBroker(NamedTuple):
    replicas: dict[PartitionId, Replica]


class SeenNode:
    """One node, as witnesses look at it."""

    __slots__ = ("_server", "_view")

    def __init__(self, server: Server, view: NodesView) -> None:
        self._server = server
        self._view = view

    @property
    def running(self) -> bool:
        return self._server.running

    @property
    def stopping(self) -> bool:
        return self._server.told_to_stop

    @property
    def applied_offset(self) -> int:
        node = self._server.node
        return 0 if node is None else node.quorum.applied_offset

    @property
    def controller(self) -> Controller | None:
        life = self._view.lives[self._server.node_id]
        return None if life is None else life.controller

    @property
    def broker(self) -> SeenBroker:
        life = self._view.lives[self._server.node_id]
        hosted = {} if life is None else life.hosted
        return SeenBroker({partition: each.replica for partition, each in hosted.items()})


class Surroundings:
    """What witnesses know of the run."""

    __slots__ = ("_view", "books", "kernel", "marks", "nodes")

    def __init__(self, cluster: NodeCluster, view: NodesView, marks: NodeMarks) -> None:
        self._view = view
        self.marks = marks
        self.kernel: Kernel = cluster.kernel
        self.books: NodeBooks = view.books
        self.nodes = {node: SeenNode(server, view) for node, server in cluster.servers.items()}

    def controllers(self) -> list[tuple[int, Controller]]:
        return self._view.controllers()

    def min_isr(self, partition: PartitionId) -> int:
        replicas = self._view.replicas(partition)
        return replicas[0].settings.min_insync_replicas if replicas else 1


class Witnesses:
    """All of them, and the events that they want to see."""

    def __init__(self, cluster: NodeCluster, view: NodesView, marks: NodeMarks) -> None:
        world = Surroundings(cluster, view, marks)
        self.data = DataMarks(world)
        self.control = ControlMarks(world)
        self.coordination = CoordinationMarks(world)
        self.all = (self.data, self.control, self.coordination)
        self._watched: dict[type, list[Callable[[Any], None]]] = {}
        for witness in self.all:
            for kind, watch in witness.events.items():
                self._watched.setdefault(kind, []).append(watch)

    def attend(self, chronicle: Chronicle) -> None:
        for witness in self.all:
            witness.attend(chronicle)

    def on_event(self, event: Event) -> None:
        for watch in self._watched.get(type(event), ()):
            watch(event)
